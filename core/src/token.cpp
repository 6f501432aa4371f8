// Spellings, and keyword recognition by a two-level switch-free probe: words of
// one first letter stand next to each other in the sorted table, so a word is
// compared with three candidates at most.
#include "core/token.hpp"

#include <array>

namespace core {
namespace {

constexpr std::array<std::string_view, 59> kSpellings = {
    "and",   "break", "do",    "else", "elseif", "end",  "false",  "for",    "function", "goto",
    "if",    "in",    "local", "nil",  "not",    "or",   "repeat", "return", "then",     "true",
    "until", "while", "+",     "-",    "*",      "/",    "//",     "%",      "^",        "#",
    "&",     "|",     "~",     "<<",   ">>",     "..",   "==",     "~=",     "<=",       ">=",
    "<",     ">",     "=",     "(",    ")",      "{",    "}",      "[",      "]",        "::",
    ";",     ":",     ",",     ".",    "...",    "name", "number", "string", "<eof>"};

constexpr std::size_t kKeywordCount = static_cast<std::size_t>(kLastKeyword) + 1;
static_assert(kSpellings.size() == static_cast<std::size_t>(Kind::kEof) + 1);

// For each letter, where its keywords start in kSpellings (kKeywordCount = none).
constexpr std::array<std::uint8_t, 26> first_by_letter() {
  std::array<std::uint8_t, 26> first{};
  for (auto& entry : first) entry = kKeywordCount;
  for (std::size_t i = kKeywordCount; i-- > 0;) {
    first[static_cast<std::size_t>(kSpellings[i][0] - 'a')] = static_cast<std::uint8_t>(i);
  }
  return first;
}

constexpr auto kFirstByLetter = first_by_letter();

}  // namespace

std::string_view spelling(Kind kind) {
  return kSpellings[static_cast<std::size_t>(kind)];
}

Kind classify_word(std::string_view text) {
  constexpr std::size_t kLongestKeyword = 8;
  if (text.size() < 2 || text.size() > kLongestKeyword) return Kind::kName;
  const char letter = text[0];
  if (letter < 'a' || letter > 'z') return Kind::kName;
  for (std::size_t i = kFirstByLetter[static_cast<std::size_t>(letter - 'a')];
       i < kKeywordCount && kSpellings[i][0] == letter; ++i) {
    if (kSpellings[i] == text) return static_cast<Kind>(i);
  }
  return Kind::kName;
}

bool is_keyword(std::string_view text) {
  return classify_word(text) != Kind::kName;
}

}  // namespace core
