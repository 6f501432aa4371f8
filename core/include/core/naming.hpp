// NamePlan: the new name of every local variable and label of a program.
//
// Names are given to slots (see scopes.hpp), the most used slot first, shortest
// names first, from an alphabet shuffled by the seed. They avoid every free name
// of the whole text, so no global can be captured, and `self` and `_ENV`, which
// keep their meaning. Fields, globals, implicit self and _ENV are never renamed.
//
// Hostile text can use up the short names. When the first plan would make the
// program longer than it was, permute() gives each local another name of the
// same length out of the text's own locals: never longer, whatever the input.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/parser.hpp"

namespace core {

struct NamingOptions {
  std::uint64_t seed = 0;
  bool shuffle = true;  // false: alphabetical order, for tests and for reading
};

class NamePlan {
 public:
  static NamePlan shortest(const Program& program, const NamingOptions& options);
  static NamePlan permute(const Program& program, const NamingOptions& options);

  [[nodiscard]] std::string_view variable(VariableId id) const { return texts_[variables_[id]]; }
  [[nodiscard]] std::string_view label(LabelId id) const { return labels_[id]; }

 private:
  std::vector<std::uint32_t> variables_;  // by VariableId: index into texts_
  std::vector<std::string> texts_;
  std::vector<std::string> labels_;  // by LabelId
};

}  // namespace core
