// String literals: the value never changes, and no spelling is longer than before.
#include "core/literal.hpp"

#include <cstdint>

#include "core/lexer.hpp"
#include "harness.hpp"
#include "program.hpp"

namespace {

std::string value(std::string_view literal) {
  std::string bytes;
  core::decode_literal(literal, bytes);
  return bytes;
}

std::string spelled(std::string_view literal) {
  std::string scratch;
  std::string out;
  core::encode_literal(literal, scratch, out);
  return out;
}

// A deterministic stream of numbers; the tests need no better.
class Numbers {
 public:
  explicit Numbers(std::uint32_t seed) : state_(seed) {}
  std::uint32_t below(std::uint32_t limit) {
    state_ = state_ * 1664525U + 1013904223U;
    return (state_ >> 8) % limit;
  }

 private:
  std::uint32_t state_;
};

// A random legal literal.
std::string random_literal(Numbers& numbers) {
  static const char* const kPieces[] = {"a",
                                        "9",
                                        "0",
                                        " ",
                                        "'",
                                        "\\\"",
                                        "\\\\",
                                        "\\n",
                                        "\\\n",
                                        "\\\r\n",
                                        "\\0",
                                        "\\1",
                                        "\\12",
                                        "\\200",
                                        "\\xff",
                                        "\\x41",
                                        "\\u{e9}",
                                        "\\u{D800}",
                                        "\\u{7FFFFFFF}",
                                        "\\z \n\t",
                                        "\xC3\xA9",
                                        "\xFF",
                                        "\\t",
                                        "\t",
                                        "]",
                                        "]]",
                                        "]=]",
                                        "\\r"};
  static const char* const kRaw[] = {"a",  "]", "=",    "]]", "\n", "\r",       "\r\n", "\\",
                                     "\"", "'", "\xFF", "]=", "[[", "\xC3\xA9", "--",   "\n\n"};
  std::string body;
  const std::uint32_t length = numbers.below(12);
  if (numbers.below(2) == 0) {
    for (std::uint32_t i = 0; i < length; ++i) body += kPieces[numbers.below(28)];
    return "\"" + body + "\"";
  }
  for (std::uint32_t i = 0; i < length; ++i) body += kRaw[numbers.below(16)];
  if (body.find("]===") != std::string::npos) body.clear();  // it would close too early
  return "[===[" + body + "]===]";
}

}  // namespace

TEST(literal_values) {
  CHECK_EQ(value(R"("a\65\066\x43\u{44}")"), "aABCD");
  CHECK_EQ(value("'a\\z  \n\t b\\\r\nc'"), "ab\nc");
  CHECK_EQ(value("[[\r\nx\r\ny\n\rz\r]]"), "x\ny\nz\n");
  CHECK_EQ(value("[==[]]==]"), "]");
  CHECK_EQ(value(R"("\u{7FF}\u{FFFF}\u{7FFFFFFF}")"),
           "\xDF\xBF\xEF\xBF\xBF\xFD\xBF\xBF\xBF\xBF\xBF");
}

TEST(literal_decimal_escape_keeps_three_digits_before_a_digit) {
  CHECK_EQ(spelled(R"("\x1f8")"), R"("\0318")");
  CHECK_EQ(spelled(R"("\x1fa")"), R"("\31a")");
  CHECK_EQ(spelled(R"("\0001")"), R"("\0001")");
}

TEST(literal_high_bytes_stay_bytes) {
  CHECK_EQ(spelled(R"("\x80\xff")"), R"("\128\255")");
  CHECK_EQ(spelled(R"("\xC3\xA9")"), "\"\xC3\xA9\"");
  CHECK_EQ(spelled("\"\xE9\""), "\"\xE9\"");
  CHECK_EQ(spelled(R"("\u{D800}")"), R"("\u{D800}")");  // longer as decimal escapes
}

TEST(literal_long_bracket_gets_a_safe_level) {
  CHECK_EQ(spelled("[==[\\a\\b]==]"), "\"\\\\a\\\\b\"");  // a tie: quotes
  CHECK_EQ(spelled("[==[\\a\\b\\c]==]"), "[[\\a\\b\\c]]");
  CHECK_EQ(spelled("[===[\\\\\\x\\\\y]]\\z]===]"), "[=[\\\\\\x\\\\y]]\\z]=]");
  CHECK_EQ(spelled("[===[\\\\\\\\\\\\]]===]"), "[=[\\\\\\\\\\\\]]=]");
  CHECK_EQ(spelled("[==[\n\n\\\\\\\\]==]"), "[[\n\n\\\\\\\\]]");
}

TEST(literal_round_trip_of_random_ones) {
  Numbers numbers(12345);
  for (int i = 0; i < 20000; ++i) {
    const std::string literal = random_literal(numbers);
    const std::string again = spelled(literal);
    core::Lexer lexer(again);
    const core::Token token = lexer.next();
    CHECK_EQ(token.end, again.size());
    CHECK_EQ(value(again), value(literal));
    CHECK_MESSAGE(again.size() <= literal.size(), "longer: " + literal + " -> " + again);
  }
}

// The same against Lua itself: all spellings of one file at once.
TEST(literal_values_are_those_of_lua) {
  Numbers numbers(99);
  std::string before = "return{";
  std::string after = before;
  for (int i = 0; i < 3000; ++i) {
    const std::string literal = random_literal(numbers);
    before += literal + ",";
    after += spelled(literal) + ",";
  }
  const std::string code = test::bytecode(before + "}");
  CHECK(!code.empty());
  CHECK(code == test::bytecode(after + "}"));
}
