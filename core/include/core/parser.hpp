// Parser: Lua 5.4 text to a tree with resolved names, or a Failure.
//
// Recursive descent in the shape of lparser.c, so that it accepts what Lua
// accepts: the same recursion (statement, sub-expression, assignment target) is
// counted against the same limit, labels and gotos, attributes, <const> checks
// and declaration limits included. Left-associative chains are loops.
#pragma once

#include <string_view>
#include <vector>

#include "core/ast.hpp"
#include "core/failure.hpp"
#include "core/fingerprint.hpp"
#include "core/names.hpp"
#include "core/scopes.hpp"

namespace core {

// Nesting levels as `luac5.4` and `lua5.4 FILE` count them (LUAI_MAXCCALLS 200 less
// what the interpreter itself uses): 196 parentheses, 198 blocks, 99 functions.
// A text that a running program loads has a level or more less, by where it is loaded.
inline constexpr unsigned kMaxLevels = 198;

struct Program {
  Tree tree;
  NodeId body = 0;  // first statement
  NameTable names;
  Scopes::Result scopes;
  Fingerprint fingerprint;
  // With log_tokens: the offset of every token the printer will print, in order.
  std::vector<std::uint32_t> token_offsets;
  Failure failure;  // kNone when the text is a program
  std::uint32_t failure_offset = 0;

  explicit Program(HashKey key) : names(key) {}
};

// Parses `code` (as Source gives it); `code` must outlive the program and be
// shorter than 2^32 bytes. Throws std::bad_alloc only. failure.line and column
// are left to the caller (Source::locate).
[[nodiscard]] Program parse(std::string_view code, HashKey key, bool log_tokens = false);

}  // namespace core
