// Lexer: one pass over the source, one token at a call, no allocation.
//
// It accepts exactly what llex.c of Lua 5.4 accepts: bytes, not characters;
// names are ASCII; bytes from 0x80 up are legal in strings and comments only.
// Lines are not counted here (see Source::locate).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/failure.hpp"
#include "core/token.hpp"

namespace core {

// Thrown inside the front end only; parse() turns it into a Failure.
struct Refusal {
  FailureKind kind = FailureKind::kNotLua;
  std::uint32_t offset = 0;
  std::string message;
};

class Lexer {
 public:
  explicit Lexer(std::string_view code) : code_(code) {}

  // The next token; kEof forever at the end. Throws Refusal.
  Token next();

  [[nodiscard]] std::string_view code() const { return code_; }
  [[nodiscard]] std::string_view text(const Token& token) const {
    return code_.substr(token.begin, token.end - token.begin);
  }

 private:
  [[nodiscard]] int peek(std::size_t ahead = 0) const {
    return at_ + ahead < code_.size() ? static_cast<unsigned char>(code_[at_ + ahead]) : -1;
  }
  [[nodiscard]] Token finish(Kind kind, std::size_t begin) const;
  void skip_blanks_and_comments();
  void skip_comment();
  // With at_ on '[': the level n of a long bracket "[=*n[", or -1. Does not move.
  [[nodiscard]] std::int64_t long_bracket_level() const;
  void read_long_bracket(std::size_t level, std::string_view what);
  void read_short_string();
  void read_escape(std::size_t begin);
  void read_unicode_escape(std::size_t begin);
  void read_number();
  Kind read_operator();

  std::string_view code_;
  std::size_t at_ = 0;
};

}  // namespace core
