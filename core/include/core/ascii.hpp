// ASCII classes by table: the locale never matters, and bytes >= 0x80 belong to no class.
#pragma once

#include <array>
#include <cstdint>

namespace core {

enum AsciiClass : std::uint8_t {
  kAsciiDigit = 1,
  kAsciiHex = 2,
  kAsciiLetter = 4,  // letters and '_'
  kAsciiBlank = 8,   // space, \t, \v, \f and line ends
};

constexpr std::array<std::uint8_t, 256> make_ascii_table() {
  std::array<std::uint8_t, 256> table{};
  for (std::size_t c = 0; c < 128; ++c) {
    std::uint8_t bits = 0;
    if (c >= '0' && c <= '9') bits |= kAsciiDigit | kAsciiHex;
    if ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')) bits |= kAsciiHex;
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_') bits |= kAsciiLetter;
    if (c == ' ' || (c >= '\t' && c <= '\r')) bits |= kAsciiBlank;
    table[c] = bits;
  }
  return table;
}

inline constexpr auto kAsciiTable = make_ascii_table();

// `c` is a byte value, or -1 for the end of the input, which is in no class.
constexpr bool is_ascii(int c, unsigned classes) {
  return c >= 0 && (kAsciiTable[static_cast<std::size_t>(c)] & classes) != 0;
}

constexpr int hex_value(int c) {
  return c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
}

}  // namespace core
