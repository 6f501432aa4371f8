// Exact outputs: what stands between tokens, what is dropped, which names are given.
#include "harness.hpp"
#include "program.hpp"
#include "texts.hpp"

using test::plain;

TEST(printer_puts_a_blank_only_where_needed) {
  CHECK_EQ(plain("x = a - - b"), "x=a- -b\n");
  CHECK_EQ(plain("x = a - ( - b )"), "x=a-(-b)\n");
  CHECK_EQ(plain("x = 1 .. 2 .. .5"), "x=1 ..2 .. .5\n");
  CHECK_EQ(plain("x = a .. ..."), "x=a.. ...\n");
  CHECK_EQ(plain("t [ [[\\\\\\\\]] ] = 1"), "t[ [[\\\\\\\\]]]=1\n");
  CHECK_EQ(plain("return not x , #y , ~ z"), "return not x,#y,~z\n");
  CHECK_EQ(plain("return 'a' .. [[b]]"), "return\"a\"..\"b\"\n");
  CHECK_EQ(plain("return .5"), "return.5\n");
  CHECK_EQ(plain("local x <const> = 1 return x"), "local a<const> =1 return a\n");
}

TEST(printer_keeps_the_semicolons_that_matter) {
  CHECK_EQ(plain("f() ; (g)()"), "f();(g)()\n");
  CHECK_EQ(plain("x = y; (g).z = 1"), "x=y;(g).z=1\n");
  CHECK_EQ(plain("local x = 1; (g)() ; ;"), "local a=1(g)()\n");
  CHECK_EQ(plain("x = function() end; (g)()"), "x=function()end(g)()\n");
  CHECK_EQ(plain("local x; (g)()"), "local a(g)()\n");
  CHECK_EQ(plain("repeat until x; (g)()"), "repeat until x;(g)()\n");
  CHECK_EQ(plain("do f() end; (g)()"), "do f()end(g)()\n");
  CHECK_EQ(plain("x = -y; (g)()"), "x=-y;(g)()\n");
  CHECK_EQ(plain("x = 1 + y.z[1]; (g)()"), "x=1+y.z[1];(g)()\n");
  CHECK_EQ(plain("f'x'; (g)()"), "f\"x\";(g)()\n");
  CHECK_EQ(plain("x = 'x'; (g)()"), "x=\"x\"(g)()\n");
  CHECK_EQ(plain("while true do if x then ; ; break end end"),
           "while true do if x then;break end end\n");
}

TEST(printer_keeps_every_parenthesis) {
  CHECK_EQ(plain("x = ((f())) , (...)"), "x=((f())),(...)\n");
  CHECK_EQ(plain("x = (a + b) * c - (d)"), "x=(a+b)*c-(d)\n");
  CHECK_EQ(plain("(('x')):rep(3)"), "((\"x\")):rep(3)\n");
}

TEST(printer_drops_separators_nobody_needs) {
  CHECK_EQ(plain("t = { 1 ; 2 , 3 ; }"), "t={1,2,3}\n");
  CHECK_EQ(plain("t = { ['a'] = 1 ; b = 2 , }"), "t={[\"a\"]=1,b=2}\n");
  CHECK_EQ(plain("return ;"), "return\n");
}

// Users of luamin ask for it (#56, #82), and the strictest form of the proof needs it.
TEST(printer_with_lines_keeps_each_token_on_its_line) {
  CHECK_EQ(plain("local a\n\n--c\n= 1 --[[\n]] b = 2\n\n", true), "local a\n\n\n=1\nb=2\n");
  CHECK_EQ(plain("t = {\n1,\n}\nreturn\n;", true), "t={\n1\n}\nreturn\n");
  CHECK_EQ(plain("#!x\n\n\nf()", true), "#!x\n\n\nf()\n");
  CHECK_EQ(plain("x='a\\\nb'\ny=[[\n\n\n\n]]z=1", true), "x='a\\\nb'\ny=[[\n\n\n\n]]z=1\n");
}

TEST(printer_output_with_lines_has_the_same_line_table) {
  const std::string text =
      "local s = 'a\\\nb'\r\nlocal t = {\n [ [[\nx]] ] = 1,\n}\nlocal function f(\na)\n"
      "  return a\n    + t.x\nend\n;(f)(\n2)\nif s\nthen\n;break_it()\nend\n";
  const std::string lines = plain(text, true);
  // Not stripped: names differ, so compare the line listing only.
  const auto listing = [](const std::string& code) {
    std::string kept;
    const std::string all = test::run_program({"luac5.4", "-l", "-p", "-"}, code).output;
    for (std::size_t at = all.find("\t["); at != std::string::npos; at = all.find("\t[", at + 1)) {
      kept += all.substr(at, all.find(']', at) - at);
    }
    return kept;
  };
  CHECK(!listing(text).empty());
  CHECK_EQ(listing(lines), listing(text));
}

TEST(names_go_to_the_most_used_first) {
  CHECK_EQ(plain("local rare, often = 1, 2 return often, often, rare"),
           "local b,a=1,2 return a,a,b\n");
}

TEST(names_never_capture_a_global) {
  CHECK_EQ(plain("local x = a return b, x"), "local c=a return b,c\n");
  CHECK_EQ(plain("local function f(x) return x + a end b = f"),
           "local function c(d)return d+a end b=c\n");
}

TEST(names_that_are_never_changed) {
  CHECK_EQ(plain("function o:m(x) return self, x, _ENV end"),
           "function o:m(a)return self,a,_ENV end\n");
  CHECK_EQ(plain("local _ENV = {} x = 1"), "local _ENV={}x=1\n");
  CHECK_EQ(plain("local function f(self) return self end"), "local function b(a)return a end\n");
  CHECK_EQ(plain("local t = {} t.field, t.x.y = t:method()"),
           "local a={}a.field,a.x.y=a:method()\n");
}

TEST(names_of_labels_are_their_own_space) {
  CHECK_EQ(plain("local top = 1 ::top:: goto top"), "local a=1::a::goto a\n");
}

TEST(names_are_reused_between_scopes) {
  CHECK_EQ(plain("do local one = 1 end do local two = 2 end"),
           "do local a=1 end do local a=2 end\n");
  CHECK_EQ(plain("local one = 1 do local one = one end"), "local a=1 do local a=a end\n");
  CHECK_EQ(plain("local one = 1 do local two = one end"), "local a=1 do local b=a end\n");
}
