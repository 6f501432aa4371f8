// Labels: goto and break, resolved with the rules and limits of lparser.c.
//
// A goto waits until its label is declared in an enclosing block of the same
// function; leaving a block lowers the variable count it may jump over. Waiting
// gotos of one name are chained, so that declaring a label costs what it
// resolves; labels have their own namespace and are numbered by first mention.
#pragma once

#include <cstdint>
#include <vector>

#include "core/names.hpp"
#include "core/token.hpp"

namespace core {

using LabelId = std::uint32_t;  // order of first mention, from 0

class Labels {
 public:
  // `current` is the token a limit is reported at.
  explicit Labels(const Token* current);

  // The number of a label name; counts one use.
  LabelId mention(NameId name);
  [[nodiscard]] const std::vector<NameId>& names() const { return names_; }
  [[nodiscard]] const std::vector<std::uint32_t>& uses() const { return uses_; }

  struct Mark {
    std::size_t first_goto = 0;
    std::size_t first_label = 0;
  };
  [[nodiscard]] Mark mark() const { return {waiting_.size(), visible_.size()}; }

  // `function` numbers the open functions; `active` is the variables active here.
  void jump(LabelId label, std::uint32_t offset, std::uint32_t function, std::uint32_t active);
  void jump_out(std::uint32_t offset, std::uint32_t active);  // break
  // Throws Refusal if the label is already visible in this function, or if a
  // waiting goto would jump into the scope of a local variable.
  void declare(LabelId label, std::uint32_t offset, std::uint32_t function, std::uint32_t active,
               const Mark& block, const NameTable& table);
  // Leaves a block whose variables start at `active`; a loop catches its breaks.
  void leave(const Mark& block, bool loop, std::uint32_t active);
  // At the end of a function: nothing that was started in it may still wait.
  void require_resolved(const Mark& body, const NameTable& table) const;

 private:
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;
  static constexpr LabelId kBreak = 0xFFFFFFFE;

  struct Waiting {
    LabelId label = 0;
    std::uint32_t offset = 0;
    std::uint32_t active = 0;  // lowered as blocks are left
    std::uint32_t before = 0;  // the waiting goto of the same label before this one
    bool done = false;
  };
  struct Visible {
    LabelId label = 0;
    std::uint32_t function = 0;
    std::uint32_t before = 0;  // index of the declaration it hides, or kNone
  };

  void wait(LabelId label, std::uint32_t offset, std::uint32_t active);
  std::uint32_t& last_waiting(LabelId label);
  void require_room(std::size_t count) const;

  const Token* current_;
  std::vector<NameId> names_;                // by LabelId
  std::vector<std::uint32_t> uses_;          // by LabelId
  std::vector<std::uint32_t> last_waiting_;  // by LabelId: index into waiting_, or kNone
  std::vector<std::uint32_t> declared_;      // by LabelId: index into visible_, or kNone
  std::vector<std::uint32_t> by_name_;       // by NameId: LabelId or kNone
  std::uint32_t last_break_ = kNone;
  std::vector<Waiting> waiting_;
  std::vector<Visible> visible_;
  std::size_t waiting_count_ = 0;  // not done
};

}  // namespace core
