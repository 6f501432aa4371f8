// Tokens: what ends where, and what is refused, against llex.c's rules.
#include "core/lexer.hpp"

#include "harness.hpp"
#include "texts.hpp"

namespace {

// All tokens of a text, each in brackets.
std::string tokens(std::string_view text) {
  core::Lexer lexer(text);
  std::string all;
  for (;;) {
    const core::Token token = lexer.next();
    if (token.kind == core::Kind::kEof) return all;
    all += "[" + std::string(lexer.text(token)) + "]";
  }
}

std::string refusal(std::string_view text) {
  try {
    tokens(text);
  } catch (const core::Refusal& refusal) {
    return std::to_string(refusal.offset) + " " + refusal.message;
  }
  return "accepted";
}

}  // namespace

TEST(lexer_takes_the_longest_operator) {
  CHECK_EQ(tokens("a...b..c.d"), "[a][...][b][..][c][.][d]");
  CHECK_EQ(tokens("<<<=>>>==~=~//:::="), "[<<][<=][>>][>=][=][~=][~][//][::][:][=]");
  CHECK_EQ(tokens("a.. .5 ...5"), "[a][..][.5][...][5]");
}

TEST(lexer_numbers_as_lua_reads_them) {
  for (const char* good :
       {"3", "3.", ".5", "3e2", "3E+2", "0xA", "0x.8", "0xA.", "0x1p-2", "0X1P2"}) {
    CHECK_EQ(refusal(good), "accepted");
  }
  for (const char* bad : {"3..2", "0x", "0x.", ".5...5", "3e", "3e+", "0xg", "0x1p", "3x", "1e5.5",
                          "0x.p1", "08a", "3__", "1..2"}) {
    CHECK_MESSAGE(refusal(bad).starts_with("0 malformed number"), bad + (" " + refusal(bad)));
  }
  CHECK_EQ(tokens("0x5e+1"), "[0x5e][+][1]");
  CHECK_EQ(tokens("1 ..2"), "[1][..][2]");
}

TEST(lexer_strings_and_escapes) {
  CHECK_EQ(tokens(R"("a\"b"'c\'d')"), R"(["a\"b"]['c\'d'])");
  CHECK_EQ(refusal(R"("\q")"), "1 invalid escape sequence");
  CHECK_EQ(refusal(R"("\256")"), "1 decimal escape too large");
  CHECK_EQ(refusal(R"("\xZ0")"), "1 hexadecimal digit expected");
  CHECK_EQ(refusal(R"("\u{80000000}")"), "1 utf-8 value too large");
  CHECK_EQ(refusal(R"("\u{7FFFFFFF}")"), "accepted");
  CHECK_EQ(refusal(R"("\u41")"), "1 missing '{' in \\u{xxxx}");
  CHECK_EQ(refusal("\"a\nb\""), "0 unfinished string");
  CHECK_EQ(refusal("\"a\\\nb\\\r\nc\""), "accepted");
  CHECK_EQ(refusal("'\\"), "0 unfinished string");
  CHECK_EQ(refusal("x = 'a"), "4 unfinished string");
}

TEST(lexer_long_brackets) {
  CHECK_EQ(tokens("[[a]]"), "[[[a]]]");
  CHECK_EQ(tokens("[==[a]]]=]]==]x"), "[[==[a]]]=]]==]][x]");
  CHECK_EQ(tokens("a[b[1]]"), "[a][[][b][[][1][]][]]");
  CHECK_EQ(refusal("[=a"), "0 invalid long string delimiter");
  CHECK_EQ(refusal("[==[a]=]"), "0 unfinished long string");
  CHECK_EQ(refusal("--[[a"), "2 unfinished long comment");
  CHECK_EQ(tokens("--[=a\nb--[==[\n]]\n]==]c"), "[b][c]");
}

TEST(lexer_bytes_outside_ascii_are_no_names) {
  CHECK_EQ(refusal("x\xC3\xA9"), "1 unexpected symbol near '?'");
  CHECK_EQ(refusal(std::string_view("a\0b", 3)), "1 unexpected symbol near '?'");
  CHECK_EQ(refusal("--\xFF\xFE\n'\xFF'"), "accepted");
}

TEST(words_are_keywords_only_if_whole) {
  CHECK_EQ(core::classify_word("end") == core::Kind::kEnd, true);
  CHECK_EQ(core::classify_word("function") == core::Kind::kFunction, true);
  for (const char* word : {"ends", "En", "functio", "functions", "e", "whil", "_end", "goto_"}) {
    CHECK(!core::is_keyword(word));
  }
}
