// What is refused, where, and with which words; what is accepted is shown by the
// golden cases, the comparison with Lua (differential_test.cpp) and the corpus.
#include "harness.hpp"
#include "texts.hpp"

using test::verdict;

TEST(parser_says_where_and_why) {
  CHECK_EQ(verdict("x = = 1"), "3 1:5 unexpected symbol near '='");
  CHECK_EQ(verdict("local x\n  local 5"), "3 2:9 name expected near '5'");
  CHECK_EQ(verdict("f("), "3 1:3 unexpected symbol near <eof>");
  CHECK_EQ(verdict("if x then\n\nf()\n"),
           "3 4:1 'end' expected (to close 'if' at line 1) near <eof>");
  CHECK_EQ(verdict("if x then f()"), "3 1:14 'end' expected near <eof>");
  CHECK_EQ(verdict("f(\n1"), "3 2:2 ')' expected (to close '(' at line 1) near <eof>");
  CHECK_EQ(verdict("x"), "3 1:2 syntax error near <eof>");
  CHECK_EQ(verdict("f() = 1"), "3 1:5 syntax error near '='");
  CHECK_EQ(verdict("(a) = 1"), "3 1:5 syntax error near '='");
  CHECK_EQ(verdict("a, f() = 1"), "3 1:8 syntax error near '='");
  CHECK_EQ(verdict("for i do end"), "3 1:7 '=' or 'in' expected near 'do'");
  CHECK_EQ(verdict("for i = 1 do end"), "3 1:11 ',' expected near 'do'");
  CHECK_EQ(verdict("return 1 print(2)"), "3 1:10 <eof> expected near 'print'");
  CHECK_EQ(verdict("a.b:c = 1"), "3 1:7 function arguments expected near '='");
  CHECK_EQ(verdict("x = }"), "3 1:5 unexpected symbol near '}'");
  CHECK_EQ(verdict("end"), "3 1:1 <eof> expected near 'end'");
  CHECK_EQ(verdict("function f(a,) end"), "3 1:14 <name> or '...' expected near ')'");
  CHECK_EQ(verdict("function f(..., a) end"), "3 1:15 ')' expected near ','");
  CHECK_EQ(verdict("\n\n  x = 'abc"), "3 3:7 unfinished string");
}

TEST(parser_attributes) {
  CHECK_EQ(verdict("local x <const> = 1 x = 2"), "3 1:21 attempt to assign to const variable 'x'");
  CHECK_EQ(verdict("local x <close> = nil function f() x = 2 end"),
           "3 1:36 attempt to assign to const variable 'x'");
  CHECK_EQ(verdict("local x <const> = 1 function x() end"),
           "3 1:30 attempt to assign to const variable 'x'");
  CHECK_EQ(verdict("local x <const> = {} function x.y() end x.z = 1"), "ok");
  CHECK_EQ(verdict("local x <final> = 1"), "3 1:10 unknown attribute 'final'");
  CHECK_EQ(verdict("local a <close>, b <close> = 1"),
           "3 1:20 multiple to-be-closed variables in local list");
  CHECK_EQ(verdict("for i = 1, 2 do i = 3 end"), "ok");  // legal in 5.4
}

TEST(parser_labels) {
  CHECK_EQ(verdict("goto out"), "3 1:1 no visible label 'out' for goto");
  CHECK_EQ(verdict("break"), "3 1:1 break outside a loop");
  CHECK_EQ(verdict("while x do f(function() break end) end"), "3 1:25 break outside a loop");
  CHECK_EQ(verdict("::a:: ::a::"), "3 1:1 label 'a' already defined");
  CHECK_EQ(verdict("::a:: do ::a:: end"), "3 1:10 label 'a' already defined");
  CHECK_EQ(verdict("do ::a:: end do ::a:: end ::a::"), "ok");
  CHECK_EQ(verdict("::a:: f(function() ::a:: goto a end) goto a"), "ok");
  CHECK_EQ(verdict("goto a local x ::a:: print(x)"),
           "3 1:1 goto 'a' jumps into the scope of a local");
  CHECK_EQ(verdict("goto a local x ::a:: ;;"), "ok");  // nothing follows
  CHECK_EQ(verdict("do goto a local x ::a:: ; ::b:: end"), "ok");
  CHECK_EQ(verdict("repeat goto a local x ::a:: until x"),
           "3 1:8 goto 'a' jumps into the scope of a local");
  CHECK_EQ(verdict("do goto a end local x ::a:: print(x)"),
           "3 1:4 goto 'a' jumps into the scope of a local");
  CHECK_EQ(verdict("do local y goto a end ::a:: print(1)"), "ok");
  CHECK_EQ(verdict("f(function() goto a end) ::a::"), "3 1:14 no visible label 'a' for goto");
  CHECK_EQ(verdict("do ::a:: end goto a"), "3 1:14 no visible label 'a' for goto");
}

TEST(parser_varargs) {
  CHECK_EQ(verdict("print(...)"), "ok");
  CHECK_EQ(verdict("function f() return ... end"),
           "3 1:21 cannot use '...' outside a vararg function near '...'");
  CHECK_EQ(verdict("function f(...) return function() return ... end end"),
           "3 1:42 cannot use '...' outside a vararg function near '...'");
  CHECK_EQ(verdict("function f(...) g(function() end) return ... end print(...)"), "ok");
}

TEST(parser_refuses_what_is_not_text) {
  CHECK(verdict(std::string(1000, '\xFF')).starts_with("3 1:1 unexpected symbol"));
  CHECK(verdict(std::string(1000, '\0')).starts_with("3 1:1 unexpected symbol"));
  CHECK(verdict("\x1bLua\x54").starts_with("3 1:1 unexpected symbol"));
  CHECK(verdict("<?xml version=\"1.0\"?>").starts_with("3 1:1 unexpected symbol"));
  CHECK_EQ(verdict(""), "ok");
  CHECK_EQ(verdict("#!only a shebang"), "ok");
}
