// The scanner. Each token is found by looking at most one byte ahead, but for
// the opening of long brackets; runs of '=' are compared, never re-scanned, so
// the whole is linear even on "[=====..." (CORE §8).
#include "core/lexer.hpp"

#include <cstring>

#include "core/ascii.hpp"

namespace core {
namespace {

[[noreturn]] void refuse(std::size_t offset, std::string message) {
  throw Refusal{FailureKind::kNotLua, static_cast<std::uint32_t>(offset), std::move(message)};
}

// Removes the leading characters of a class; returns how many there were.
std::size_t take(std::string_view& text, unsigned classes) {
  std::size_t count = 0;
  while (count < text.size() && is_ascii(static_cast<unsigned char>(text[count]), classes)) ++count;
  text.remove_prefix(count);
  return count;
}

// digits [. digits] [e [sign] digits], with at least one digit before the exponent;
// after "0x" the digits are hexadecimal and the exponent, still decimal, is p.
bool is_numeral(std::string_view text) {
  const bool hex = text.starts_with("0x") || text.starts_with("0X");
  if (hex) text.remove_prefix(2);
  const unsigned digit = hex ? kAsciiHex : kAsciiDigit;
  std::size_t digits = take(text, digit);
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    digits += take(text, digit);
  }
  if (digits == 0) return false;
  if (text.empty()) return true;
  if ((text[0] | 0x20) != (hex ? 'p' : 'e')) return false;
  text.remove_prefix(1);
  if (text.starts_with('+') || text.starts_with('-')) text.remove_prefix(1);
  return take(text, kAsciiDigit) > 0 && text.empty();
}

}  // namespace

Token Lexer::finish(Kind kind, std::size_t begin) const {
  return {kind, static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(at_)};
}

std::int64_t Lexer::long_bracket_level() const {
  std::size_t i = at_ + 1;
  while (i < code_.size() && code_[i] == '=') ++i;
  if (i < code_.size() && code_[i] == '[') return static_cast<std::int64_t>(i - at_ - 1);
  return -1;
}

void Lexer::read_long_bracket(std::size_t level, std::string_view what) {
  const std::size_t begin = at_;
  at_ += level + 2;
  for (;;) {
    const std::size_t close = code_.find(']', at_);
    if (close == std::string_view::npos) {
      refuse(begin, "unfinished long " + std::string(what));
    }
    std::size_t i = close + 1;
    while (i < code_.size() && code_[i] == '=') ++i;
    if (i - close - 1 == level && i < code_.size() && code_[i] == ']') {
      at_ = i + 1;
      return;
    }
    at_ = i;  // the byte at i may itself be a ']' that opens the true closer
  }
}

void Lexer::skip_comment() {
  at_ += 2;
  if (peek() == '[') {
    const std::int64_t level = long_bracket_level();
    if (level >= 0) return read_long_bracket(static_cast<std::size_t>(level), "comment");
  }
  while (at_ < code_.size() && code_[at_] != '\n' && code_[at_] != '\r') ++at_;
}

void Lexer::skip_blanks_and_comments() {
  for (;;) {
    const int c = peek();
    if (is_ascii(c, kAsciiBlank)) {
      ++at_;
    } else if (c == '-' && peek(1) == '-') {
      skip_comment();
    } else {
      return;
    }
  }
}

void Lexer::read_unicode_escape(std::size_t begin) {
  constexpr std::uint32_t kLargestCodePoint = 0x7FFFFFFF;
  if (peek() != '{') refuse(begin, "missing '{' in \\u{xxxx}");
  ++at_;
  if (!is_ascii(peek(), kAsciiHex)) refuse(begin, "hexadecimal digit expected");
  std::uint64_t code_point = 0;
  while (is_ascii(peek(), kAsciiHex)) {
    code_point = code_point * 16 + static_cast<std::uint64_t>(hex_value(peek()));
    if (code_point > kLargestCodePoint) refuse(begin, "utf-8 value too large");
    ++at_;
  }
  if (peek() != '}') refuse(begin, "missing '}' in \\u{xxxx}");
  ++at_;
}

void Lexer::read_escape(std::size_t begin) {
  const int c = peek();
  if (c < 0) return;  // the caller reports the unfinished string
  ++at_;
  switch (c) {
    case 'a':
    case 'b':
    case 'f':
    case 'n':
    case 'r':
    case 't':
    case 'v':
    case '\\':
    case '"':
    case '\'':
      return;
    case '\n':
    case '\r':
      if ((peek() == '\n' || peek() == '\r') && peek() != c) ++at_;
      return;
    case 'x':
      for (int i = 0; i < 2; ++i, ++at_) {
        if (!is_ascii(peek(), kAsciiHex)) refuse(begin, "hexadecimal digit expected");
      }
      return;
    case 'u':
      return read_unicode_escape(begin);
    case 'z':
      while (is_ascii(peek(), kAsciiBlank)) ++at_;
      return;
    default:
      break;
  }
  if (!is_ascii(c, kAsciiDigit)) refuse(begin, "invalid escape sequence");
  int value = c - '0';
  for (int i = 1; i < 3 && is_ascii(peek(), kAsciiDigit); ++i, ++at_) {
    value = value * 10 + (peek() - '0');
  }
  if (value > 255) refuse(begin, "decimal escape too large");
}

void Lexer::read_short_string() {
  const std::size_t begin = at_;
  const int quote = peek();
  ++at_;
  for (;;) {
    const int c = peek();
    if (c == quote) {
      ++at_;
      return;
    }
    if (c < 0 || c == '\n' || c == '\r') refuse(begin, "unfinished string");
    ++at_;
    if (c == '\\') read_escape(at_ - 1);
  }
}

// As read_numeral of llex.c: first take everything that looks like a numeral, then
// decide whether it is one. "3..2" is one malformed numeral, as in Lua.
void Lexer::read_number() {
  const std::size_t begin = at_;
  const bool hex = peek() == '0' && (peek(1) | 0x20) == 'x';
  const char exponent = hex ? 'p' : 'e';
  if (hex) at_ += 2;
  for (;;) {
    const int c = peek();
    if (c >= 0 && (c | 0x20) == exponent) {
      ++at_;
      if (peek() == '+' || peek() == '-') ++at_;
    } else if (is_ascii(c, kAsciiHex) || c == '.') {
      ++at_;
    } else {
      break;
    }
  }
  if (is_ascii(peek(), kAsciiLetter)) ++at_;  // a numeral must not touch a name
  const std::string_view text = code_.substr(begin, at_ - begin);
  if (!is_numeral(text)) refuse(begin, "malformed number near '" + printable(text, 40) + "'");
}

Kind Lexer::read_operator() {
  const int c = peek();
  const int second = peek(1);
  const auto one = [this](Kind kind) {
    at_ += 1;
    return kind;
  };
  const auto two = [this](Kind kind) {
    at_ += 2;
    return kind;
  };
  switch (c) {
    case '+':
      return one(Kind::kAdd);
    case '-':
      return one(Kind::kSub);
    case '*':
      return one(Kind::kMul);
    case '/':
      return second == '/' ? two(Kind::kFloorDiv) : one(Kind::kDiv);
    case '%':
      return one(Kind::kMod);
    case '^':
      return one(Kind::kPow);
    case '#':
      return one(Kind::kLen);
    case '&':
      return one(Kind::kBitAnd);
    case '|':
      return one(Kind::kBitOr);
    case '~':
      return second == '=' ? two(Kind::kNe) : one(Kind::kTilde);
    case '<':
      if (second == '<') return two(Kind::kShl);
      return second == '=' ? two(Kind::kLe) : one(Kind::kLt);
    case '>':
      if (second == '>') return two(Kind::kShr);
      return second == '=' ? two(Kind::kGe) : one(Kind::kGt);
    case '=':
      return second == '=' ? two(Kind::kEq) : one(Kind::kAssign);
    case '(':
      return one(Kind::kLeftParen);
    case ')':
      return one(Kind::kRightParen);
    case '{':
      return one(Kind::kLeftBrace);
    case '}':
      return one(Kind::kRightBrace);
    case '[':
      return one(Kind::kLeftBracket);
    case ']':
      return one(Kind::kRightBracket);
    case ';':
      return one(Kind::kSemicolon);
    case ':':
      return second == ':' ? two(Kind::kDoubleColon) : one(Kind::kColon);
    case ',':
      return one(Kind::kComma);
    case '.':
      if (second != '.') return one(Kind::kDot);
      if (peek(2) != '.') return two(Kind::kConcat);
      at_ += 3;
      return Kind::kDots;
    default:
      break;
  }
  refuse(at_, "unexpected symbol near '" + printable(code_.substr(at_, 1), 1) + "'");
}

Token Lexer::next() {
  skip_blanks_and_comments();
  const std::size_t begin = at_;
  const int c = peek();
  if (c < 0) return finish(Kind::kEof, begin);
  if (is_ascii(c, kAsciiLetter)) {
    do ++at_;
    while (is_ascii(peek(), kAsciiLetter | kAsciiDigit));
    return finish(classify_word(code_.substr(begin, at_ - begin)), begin);
  }
  if (is_ascii(c, kAsciiDigit) || (c == '.' && is_ascii(peek(1), kAsciiDigit))) {
    read_number();
    return finish(Kind::kNumber, begin);
  }
  if (c == '"' || c == '\'') {
    read_short_string();
    return finish(Kind::kString, begin);
  }
  if (c == '[') {
    const std::int64_t level = long_bracket_level();
    if (level >= 0) {
      read_long_bracket(static_cast<std::size_t>(level), "string");
      return finish(Kind::kString, begin);
    }
    if (peek(1) == '=') refuse(begin, "invalid long string delimiter");
  }
  const Kind kind = read_operator();
  return finish(kind, begin);
}

}  // namespace core
