// Printer: a program back to text, with the names of a plan.
//
// Layer 0 prints the same tokens in the same order, less comments, blanks,
// needless semicolons and trailing separators. A blank is put only where two
// tokens would read as one, a ';' only where the next statement starts with '('
// and would continue the one before. Long strings may hold line ends; otherwise
// the text is one line. With keep_lines every token stays on its own line
// instead, so that even line numbers are those of the source.
#pragma once

#include <string>
#include <string_view>

#include "core/naming.hpp"
#include "core/parser.hpp"
#include "core/source.hpp"

namespace core {

struct PrintOptions {
  bool keep_lines = false;  // needs a program parsed with log_tokens
};

// Ends in '\n'. `source` is the text `program` was parsed from.
[[nodiscard]] std::string print(const Program& program, const Source& source, const NamePlan& names,
                                const PrintOptions& options);

}  // namespace core
