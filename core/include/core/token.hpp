// Token: one lexical element as a kind and a half-open range of the source.
//
// A token never owns text. Kinds that always spell the same way have their
// spelling in one table, which the lexer, the printer and messages share.
#pragma once

#include <cstdint>
#include <string_view>

namespace core {

enum class Kind : std::uint8_t {
  // Keywords, in the order of the spelling table.
  kAnd,
  kBreak,
  kDo,
  kElse,
  kElseif,
  kEnd,
  kFalse,
  kFor,
  kFunction,
  kGoto,
  kIf,
  kIn,
  kLocal,
  kNil,
  kNot,
  kOr,
  kRepeat,
  kReturn,
  kThen,
  kTrue,
  kUntil,
  kWhile,
  // Operators and punctuation.
  kAdd,
  kSub,
  kMul,
  kDiv,
  kFloorDiv,
  kMod,
  kPow,
  kLen,
  kBitAnd,
  kBitOr,
  kTilde,
  kShl,
  kShr,
  kConcat,
  kEq,
  kNe,
  kLe,
  kGe,
  kLt,
  kGt,
  kAssign,
  kLeftParen,
  kRightParen,
  kLeftBrace,
  kRightBrace,
  kLeftBracket,
  kRightBracket,
  kDoubleColon,
  kSemicolon,
  kColon,
  kComma,
  kDot,
  kDots,
  // Kinds whose text varies.
  kName,
  kNumber,
  kString,
  kEof,
};

inline constexpr Kind kLastKeyword = Kind::kWhile;

struct Token {
  Kind kind = Kind::kEof;
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
};

// The fixed spelling of a kind; for the four varying kinds a word for messages.
[[nodiscard]] std::string_view spelling(Kind kind);

// True if `text` is one of the 22 reserved words.
[[nodiscard]] bool is_keyword(std::string_view text);

// The keyword `text` spells, or kName.
[[nodiscard]] Kind classify_word(std::string_view text);

}  // namespace core
