// Scopes: which declaration a name means, and the limits Lua puts on declarations.
//
// The parser drives it in source order. Each name keeps a link to its innermost
// visible declaration, so resolving is one array access whatever the nesting.
//
// Every local also gets a *slot* for renaming: two variables share a slot only if
// they can never be meant at the same place. A variable that shadows another of
// the same name takes its slot (inside its scope the other is out of reach);
// any other takes the first slot no visible variable has. Slots are a stack, like
// the scopes, so a counter is enough.
#pragma once

#include <cstdint>
#include <deque>
#include <string_view>
#include <vector>

#include "core/labels.hpp"
#include "core/names.hpp"
#include "core/registers.hpp"
#include "core/token.hpp"

namespace core {

using VariableId = std::uint32_t;  // 0 = none

struct Variable {
  NameId name = 0;
  std::uint32_t slot = 0;
  std::uint8_t function = 0;  // nesting depth of the owner; the chunk is 1
  bool fixed = false;         // keeps its name: implicit self, _ENV, hidden ones
  bool read_only = false;     // <const> or <close>
  bool compile_time = false;  // a folded <const>: no register, never captured
  bool numeral = false;       // the value of such a constant is a number
};

class Scopes {
 public:
  Scopes(const NameTable& names, const Token* current);

  void open_function();
  void close_function();
  void open_block(bool loop);
  void close_block();

  // Declares a variable that becomes visible at activate(). Throws Refusal(kLimit).
  VariableId declare(NameId name);
  VariableId declare_self();
  void declare_hidden(unsigned count);  // the loop state of `for`
  // Makes the `count` oldest pending variables of this function visible.
  void activate(unsigned count);
  // The variable `name` means here, or 0 for a global, which is noted as free.
  VariableId resolve(NameId name);

  void jump(LabelId label, std::uint32_t offset);
  void jump_out(std::uint32_t offset);
  // `last`: nothing but the end of the block follows (not `until`).
  void declare_label(LabelId label, std::uint32_t offset, bool last);
  void count_closure();  // one more function inside this one

  // At the end of a statement the registers hold the local variables and no more.
  void settle() { registers().reset(function().register_variables); }
  Registers& registers() { return function().registers; }
  Labels& labels() { return labels_; }
  Variable& variable(VariableId id) { return variables_[id]; }
  [[nodiscard]] const Variable& variable(VariableId id) const { return variables_[id]; }
  // What a reference to a variable is to the code generator.
  [[nodiscard]] Operand::State state_of(VariableId id) const;

  // What the passes need after parsing.
  struct Result {
    std::vector<Variable> variables;        // by VariableId; 0 and 1 are not of the text
    std::vector<std::uint32_t> slot_uses;   // by slot: declarations and references
    std::vector<NameId> free_names;         // each global once, in order of appearance
    std::vector<NameId> label_names;        // by LabelId
    std::vector<std::uint32_t> label_uses;  // by LabelId
  };
  Result finish();

 private:
  struct Active {
    VariableId variable = 0;
    VariableId shadowed = 0;
    bool owns_slot = false;
  };
  struct Block {
    std::uint32_t active = 0;  // variables of the function active at its start
    bool loop = false;
    Labels::Mark labels;
  };
  struct Function {
    explicit Function(const Token* current) : registers(current) {}
    std::size_t first = 0;                 // of its variables in active_
    std::uint32_t active = 0;              // how many of them are visible
    std::uint32_t register_variables = 0;  // of those, how many are in registers
    std::uint32_t debug_variables = 0;     // ever visible in a register
    std::uint32_t closures = 0;
    std::vector<VariableId> upvalues;
    std::vector<Block> blocks;
    Registers registers;
  };

  static constexpr VariableId kChunkEnv = 1;

  Function& function() { return functions_[depth_]; }
  VariableId add(NameId name, bool fixed);
  VariableId& binding(NameId name);
  void capture(VariableId id);
  void show(Active& entry);
  void hide(const Active& entry);
  [[noreturn]] void refuse(std::string_view what) const;

  const Token* current_;
  const NameTable& names_;
  Labels labels_;
  std::vector<Variable> variables_;
  std::vector<std::uint32_t> slot_uses_;
  std::vector<VariableId> bindings_;  // by NameId
  std::vector<bool> is_free_;         // by NameId
  std::vector<NameId> free_names_;
  std::vector<Active> active_;      // of all open functions, pending ones included
  std::deque<Function> functions_;  // by depth; entries are reused and never move
  std::size_t depth_ = 0;
  std::uint32_t next_slot_ = 0;
};

}  // namespace core
