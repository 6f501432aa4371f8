// The limits of Lua 5.4, each at its edge: what lua5.4 still runs is accepted, and
// the next larger text is refused as beyond a limit (exit 4). Lua is asked, so the
// edge is not a number copied from somewhere. Named reports: luacheck #64,
// castl #24, haxe #5243 (200 locals), CSharp.lua #226 (upvalues), darklua #72
// #125 #188 and StyLua #38 (deep and long trees).
#include <functional>

#include "core/parser.hpp"
#include "harness.hpp"
#include "texts.hpp"

namespace {

using Maker = std::function<std::string(std::size_t)>;
using test::repeat;

bool refused_as_limit(const std::string& text) {
  return test::verdict(text).starts_with("4 ");
}

// make(n) must be accepted by both for n = edge, refused by both for edge + 1.
void check_edge(const char* what, std::size_t edge, const Maker& make) {
  const std::string at = make(edge);
  const std::string beyond = make(edge + 1);
  CHECK_MESSAGE(test::verdict(at) == "ok",
                std::string(what) + " at the edge: " + test::verdict(at));
  CHECK_MESSAGE(refused_as_limit(beyond),
                std::string(what) + " beyond the edge: " + test::verdict(beyond));
  CHECK_MESSAGE(test::lua_runs(at), std::string(what) + ": Lua refuses the edge");
  CHECK_MESSAGE(!test::lua_runs(beyond), std::string(what) + ": Lua accepts more");
}

std::string numbered(const char* before, std::size_t count, const char* between) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    if (i > 0) text += between;
    text += before + std::to_string(i);
  }
  return text;
}

}  // namespace

TEST(limits_of_nesting) {
  check_edge("parentheses", 196,
             [](std::size_t n) { return "x=" + repeat("(", n) + "1" + repeat(")", n); });
  check_edge("tables", 197, [](std::size_t n) { return "x=" + repeat("{", n) + repeat("}", n); });
  check_edge("unary operators", 196, [](std::size_t n) { return "x=" + repeat("- ", n) + "1"; });
  check_edge("concatenations", 196,
             [](std::size_t n) { return "x=" + repeat("'a'..", n) + "'a'"; });
  check_edge("powers", 196, [](std::size_t n) { return "x=" + repeat("1^", n) + "1"; });
  check_edge("blocks", 198, [](std::size_t n) { return repeat("do ", n) + repeat("end ", n); });
  check_edge("functions", 99,
             [](std::size_t n) { return repeat("local f=function() ", n) + repeat("end ", n); });
  check_edge("labels in a row", 198,
             [](std::size_t n) { return "::" + numbered("l", n, ":: ::") + "::"; });
  check_edge("assignment targets", 197, [](std::size_t n) { return numbered("a", n, ",") + "=1"; });
}

TEST(limits_of_declarations) {
  check_edge("locals", 200, [](std::size_t n) { return "local " + numbered("a", n, " local "); });
  check_edge("locals with attributes", 200, [](std::size_t n) {
    return "local " + numbered("a", n, " <const> = 1 local ") + "<const> = 1";
  });
  check_edge("parameters", 200,
             [](std::size_t n) { return "local f = function(" + numbered("p", n, ",") + ") end"; });
  check_edge("loop variables", 197, [](std::size_t n) {
    return "local f f = nil for " + numbered("v", n - 2, ",") + " in next, {} do end";
  });
  check_edge("upvalues", 255, [](std::size_t n) {
    std::string text = numbered("local a", 150, "\n") + "\nlocal function g()\n";
    text += numbered("local b", n - 150, "\n") + "\nreturn function() return {";
    return text + numbered("a", 150, ",") + "," + numbered("b", n - 150, ",") + "} end end";
  });
  check_edge("locals over the length of a function", 32767,
             [](std::size_t n) { return repeat("do local a end ", n); });
  check_edge("functions in one function", 131071,
             [](std::size_t n) { return "x={" + repeat("function()end,", n) + "}"; });
}

TEST(limits_of_registers) {
  const std::string head = "local f = function() end ";
  check_edge("call arguments", 252,
             [&](std::size_t n) { return head + "f(" + repeat("1,", n - 1) + "1)"; });
  check_edge("method arguments", 251, [](std::size_t n) {
    return "local s = {m=function() end} s:m(" + repeat("1,", n - 1) + "1)";
  });
  check_edge("values of a return", 254,
             [](std::size_t n) { return "do return " + repeat("1,", n - 1) + "1 end"; });
  check_edge("nested calls", 198,
             [](std::size_t n) { return "local f = print " + repeat("f(", n) + repeat(")", n); });
  check_edge("locals and arguments", 52, [](std::size_t n) {
    return numbered("local a", 200, "\n") + "\na0=print(" + repeat("1,", n) + "1)";
  });
}

TEST(limits_of_jumps) {
  check_edge("waiting gotos", 32767,
             [](std::size_t n) { return "do " + repeat("goto a ", n) + "end ::a::"; });
  check_edge("breaks in a loop", 32767, [](std::size_t n) {
    return "while nil do " + repeat("if x then break end ", n) + "end";
  });
}

// Folded constants take no register and are no upvalue; others do.
TEST(limits_know_compile_time_constants) {
  check_edge("upvalues beside constants", 255, [](std::size_t n) {
    std::string text = "local c <const>, d <const> = 1, 2\n" + numbered("local a", 150, "\n");
    text += "\nlocal function g()\n" + numbered("local b", n - 150, "\n");
    text += "\nreturn function() return {d,";
    return text + numbered("a", 150, ",") + "," + numbered("b", n - 150, ",") + "} end end";
  });
}

TEST(limits_ten_thousand_deep_is_refused_cleanly) {
  for (const char* opener :
       {"(", "{", "do ", "- ", "f(", "function f() ", "if x then ", "[[x]]..", "a[", "x={"}) {
    const std::string verdict =
        test::verdict((opener[0] == 'd' || opener[0] == 'i' ? "" : "x=") + repeat(opener, 10000));
    CHECK_MESSAGE(verdict.starts_with("3 ") || verdict.starts_with("4 "),
                  opener + (": " + verdict));
  }
  CHECK_EQ(test::verdict("x=" + repeat("(", 10000)),
           "4 1:200 too many nested levels (limit " + std::to_string(core::kMaxLevels) + ")");
}

// What has no limit in Lua has none here (CORE §5; StyLua #38, darklua #72).
TEST(limits_long_chains_have_none) {
  constexpr std::size_t kMany = 200000;
  CHECK_EQ(test::verdict("x=1" + repeat("+1", kMany)), "ok");
  CHECK_EQ(test::verdict("x=a" + repeat(" or a", kMany)), "ok");
  CHECK_EQ(test::verdict("x=a" + repeat(".b", kMany)), "ok");
  CHECK_EQ(test::verdict("f" + repeat("()", kMany)), "ok");
  CHECK_EQ(test::verdict("x=a" + repeat(":b''", kMany)), "ok");
  CHECK_EQ(test::verdict("x={" + repeat("1,", kMany) + "}"), "ok");
  CHECK_EQ(test::verdict("if a then " + repeat("elseif a then ", kMany) + "end"), "ok");
  CHECK_EQ(test::verdict(repeat("f()", kMany)), "ok");
  CHECK_EQ(test::verdict(repeat(";", kMany)), "ok");
  CHECK_EQ(test::verdict("x='" + repeat("\\\n", kMany) + "'"), "ok");
}

TEST(limits_of_the_input_size) {
  core::Options options;
  options.max_input = 10;
  CHECK(core::obfuscate("x=12345678", options).status == core::Status::kOk);
  const core::Outcome outcome = core::obfuscate("x=123456789", options);
  CHECK(outcome.status == core::Status::kRefused);
  CHECK(outcome.failure.kind == core::FailureKind::kLimit);
  CHECK_EQ(outcome.failure.message, "input is larger than 10 bytes");
}
