// Decoding follows read_string and read_long_string of llex.c; encoding measures
// the candidates described in the header and emits the shortest.
#include "core/literal.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

#include "core/ascii.hpp"

namespace core {
namespace {

constexpr unsigned char byte(char c) {
  return static_cast<unsigned char>(c);
}

bool is_long(std::string_view literal) {
  return literal[0] == '[';
}

// The text between the brackets or quotes.
std::string_view body_of(std::string_view literal) {
  if (!is_long(literal)) return literal.substr(1, literal.size() - 2);
  const std::size_t width = literal.find('[', 1) + 1;
  return literal.substr(width, literal.size() - 2 * width);
}

// If a line end starts at `i`, its length (1 or 2), else 0.
std::size_t line_end(std::string_view text, std::size_t i) {
  if (i >= text.size() || (text[i] != '\n' && text[i] != '\r')) return 0;
  const bool pair =
      i + 1 < text.size() && (text[i + 1] == '\n' || text[i + 1] == '\r') && text[i + 1] != text[i];
  return pair ? 2 : 1;
}

void decode_long(std::string_view body, std::string& value) {
  body.remove_prefix(line_end(body, 0));
  if (body.find('\r') == std::string_view::npos) {
    value += body;
    return;
  }
  for (std::size_t i = 0; i < body.size();) {
    const std::size_t end = line_end(body, i);
    value.push_back(end > 0 ? '\n' : body[i]);
    i += end > 0 ? end : 1;
  }
}

// As luaO_utf8esc: up to six bytes, surrogates and values past U+10FFFF included.
void append_utf8(std::uint32_t code_point, std::string& value) {
  if (code_point < 0x80) {
    value.push_back(static_cast<char>(code_point));
    return;
  }
  std::array<char, 8> buffer{};
  std::size_t at = buffer.size();
  std::uint32_t first_limit = 0x3F;
  do {
    buffer[--at] = static_cast<char>(0x80 | (code_point & 0x3F));
    code_point >>= 6;
    first_limit >>= 1;
  } while (code_point > first_limit);
  buffer[--at] = static_cast<char>((~first_limit << 1) | code_point);
  value.append(&buffer[at], buffer.size() - at);
}

// Decodes the escape whose '\\' is at `i`; returns where the text goes on.
std::size_t decode_escape(std::string_view body, std::size_t i, std::string& value) {
  ++i;
  const char c = body[i];
  constexpr std::string_view kNames = "abfnrtv";
  constexpr std::string_view kValues = "\a\b\f\n\r\t\v";
  if (const std::size_t named = kNames.find(c); named != std::string_view::npos) {
    value.push_back(kValues[named]);
    return i + 1;
  }
  if (const std::size_t end = line_end(body, i); end > 0) {
    value.push_back('\n');
    return i + end;
  }
  if (c == 'x') {
    value.push_back(static_cast<char>(hex_value(body[i + 1]) * 16 + hex_value(body[i + 2])));
    return i + 3;
  }
  if (c == 'z') {
    ++i;
    while (i < body.size() && is_ascii(byte(body[i]), kAsciiBlank)) ++i;
    return i;
  }
  if (c == 'u') {
    std::uint32_t code_point = 0;
    for (i += 2; body[i] != '}'; ++i) {
      code_point = code_point * 16 + static_cast<std::uint32_t>(hex_value(body[i]));
    }
    append_utf8(code_point, value);
    return i + 1;
  }
  if (!is_ascii(byte(c), kAsciiDigit)) {  // '\\', '"' or '\''
    value.push_back(c);
    return i + 1;
  }
  int number = 0;
  for (std::size_t digits = 0;
       digits < 3 && i < body.size() && is_ascii(byte(body[i]), kAsciiDigit); ++digits, ++i) {
    number = number * 10 + (body[i] - '0');
  }
  value.push_back(static_cast<char>(number));
  return i;
}

// Length of the well-formed UTF-8 sequence that starts at `i` (RFC 3629), or 0.
std::size_t utf8_length(std::string_view text, std::size_t i) {
  const unsigned lead = byte(text[i]);
  const std::size_t length = lead < 0xC2   ? 0
                             : lead < 0xE0 ? 2
                             : lead < 0xF0 ? 3
                             : lead < 0xF5 ? 4
                                           : 0;
  if (length == 0 || i + length > text.size()) return 0;
  for (std::size_t k = 1; k < length; ++k) {
    if ((byte(text[i + k]) & 0xC0U) != 0x80U) return 0;
  }
  const unsigned second = byte(text[i + 1]);
  if (lead == 0xE0 && second < 0xA0) return 0;
  if (lead == 0xED && second > 0x9F) return 0;
  if (lead == 0xF0 && second < 0x90) return 0;
  if (lead == 0xF4 && second > 0x8F) return 0;
  return length;
}

void append_decimal(unsigned char c, bool digit_follows, std::string& out) {
  const std::string digits = std::to_string(static_cast<unsigned>(c));
  out.push_back('\\');
  if (digit_follows) out.append(3 - digits.size(), '0');
  out += digits;
}

void append_control(std::string_view value, std::size_t i, std::string& out) {
  constexpr std::string_view kNames = "abtnvfr";  // \a is 7, \r is 13
  const unsigned char c = byte(value[i]);
  if (c >= '\a' && c <= '\r') {
    out.push_back('\\');
    out.push_back(kNames[c - '\a']);
    return;
  }
  const bool digit_follows = i + 1 < value.size() && is_ascii(byte(value[i + 1]), kAsciiDigit);
  append_decimal(c, digit_follows, out);
}

// Appends the quoted spelling, giving up once it is longer than `budget`.
// Returns whether it fitted.
bool append_quoted(std::string_view value, bool keep_high, std::size_t budget, std::string& out) {
  const auto doubles = std::count(value.begin(), value.end(), '"');
  const auto singles = std::count(value.begin(), value.end(), '\'');
  const char quote = doubles > singles ? '\'' : '"';
  const std::size_t start = out.size();
  out.push_back(quote);
  for (std::size_t i = 0; i < value.size() && out.size() - start <= budget; ++i) {
    const unsigned char c = byte(value[i]);
    if (value[i] == quote || c == '\\') {
      out.push_back('\\');
      out.push_back(value[i]);
    } else if (c >= 0x80 && !keep_high) {
      const std::size_t length = utf8_length(value, i);
      out += value.substr(i, length);
      if (length > 0) {
        i += length - 1;
      } else {
        append_control(value, i, out);
      }
    } else if (c < ' ' || c == 0x7F) {
      append_control(value, i, out);
    } else {
      out.push_back(value[i]);
    }
  }
  out.push_back(quote);
  return out.size() - start <= budget;
}

// The lowest level whose closer is not in value + "]" (the closer's own first byte
// can complete one), or kLevels when all of them are. Linear: every run of '=' is
// looked at once, and the levels met are a bit each.
constexpr std::size_t kLevels = 64;

std::size_t lowest_level(std::string_view value) {
  std::uint64_t met = 0;
  for (std::size_t i = value.find(']'); i != std::string_view::npos; i = value.find(']', i)) {
    std::size_t k = i + 1;
    while (k < value.size() && value[k] == '=') ++k;
    const bool closes = k == value.size() || value[k] == ']';
    if (closes && k - i - 1 < kLevels) met |= std::uint64_t{1} << (k - i - 1);
    i = k;
  }
  std::size_t level = 0;
  while (level < kLevels && ((met >> level) & 1U) != 0) ++level;
  return level;
}

}  // namespace

void decode_literal(std::string_view literal, std::string& value) {
  const std::string_view body = body_of(literal);
  if (is_long(literal)) return decode_long(body, value);
  for (std::size_t i = 0; i < body.size();) {
    const std::size_t escape = std::min(body.find('\\', i), body.size());
    value += body.substr(i, escape - i);
    i = escape < body.size() ? decode_escape(body, escape, value) : escape;
  }
}

void encode_literal(std::string_view literal, std::string& scratch, std::string& out) {
  const std::string_view body = body_of(literal);
  scratch.clear();
  decode_literal(literal, scratch);
  const bool raw_high =
      std::any_of(body.begin(), body.end(), [](char c) { return byte(c) >= 0x80; });
  std::size_t budget = literal.size();
  const bool was_long = is_long(literal);
  const std::size_t level = was_long ? lowest_level(scratch) : kLevels;
  if (level < kLevels) {
    const std::size_t first_line_end = !scratch.empty() && scratch[0] == '\n' ? 1 : 0;
    budget = std::min(budget, scratch.size() + 2 * (level + 2) + first_line_end);
  }
  const std::size_t start = out.size();
  if (append_quoted(scratch, raw_high, budget, out)) return;
  out.resize(start);
  if (level == kLevels) {
    out += literal;
    return;
  }
  // A long bracket's value has no '\r', so it can be bracketed again.
  const std::string fence(level, '=');
  out.push_back('[');
  out += fence;
  out.push_back('[');
  if (!scratch.empty() && scratch[0] == '\n') out.push_back('\n');
  out += scratch;
  out.push_back(']');
  out += fence;
  out.push_back(']');
}

}  // namespace core
