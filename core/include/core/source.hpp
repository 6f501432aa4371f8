// Source: the bytes of one input, split as Lua's own loader splits them.
//
// lua5.4 drops a UTF-8 byte order mark, then treats a first line that starts
// with '#' as a comment which still counts as line 1. The lexer sees only
// `code`; the printer puts `shebang` back, unchanged and first (CORE §5).
// Offsets everywhere are 32-bit offsets into `code`.
#pragma once

#include <cstdint>
#include <string_view>

namespace core {

struct Position {
  std::uint32_t line = 1;    // 1-based
  std::uint32_t column = 1;  // 1-based, in bytes
};

struct Source {
  std::string_view shebang;  // first line without its '\n', or empty
  std::string_view code;     // starts with that '\n' when there is a shebang

  // Requires bytes.size() < 2^32. Keeps views into `bytes`.
  static Source open(std::string_view bytes);

  // Line and column of an offset into `code`, counting lines as Lua does:
  // "\n", "\r", "\r\n" and "\n\r" are one line end each. Linear in offset.
  [[nodiscard]] Position locate(std::uint32_t offset) const;
};

}  // namespace core
