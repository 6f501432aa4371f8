// The names as a whole: determinism, seeds, no original name left, no growth.
#include <cctype>
#include <set>

#include "core/lexer.hpp"
#include "core/parser.hpp"
#include "harness.hpp"
#include "program.hpp"
#include "texts.hpp"

namespace {

constexpr const char* kSample =
    "local alpha, beta = 1, 2\n"
    "local function gamma(delta, ...) local epsilon <const> = delta goto zeta ::zeta:: return "
    "epsilon, ... end\n"
    "for eta = 1, 2 do for theta, iota in pairs{} do print(eta, theta, iota, alpha, beta, gamma) "
    "end end\n";

std::set<std::string> words(std::string_view text) {
  std::set<std::string> all;
  core::Lexer lexer(text);
  for (core::Token token = lexer.next(); token.kind != core::Kind::kEof; token = lexer.next()) {
    if (token.kind == core::Kind::kName) all.emplace(lexer.text(token));
  }
  return all;
}

std::string with_seed(std::string_view text, std::uint64_t seed) {
  core::Options options;
  options.seed = seed;
  const core::Outcome outcome = core::obfuscate(text, options);
  if (outcome.status != core::Status::kOk) throw test::Failed("not accepted");
  return outcome.text;
}

}  // namespace

TEST(names_same_seed_same_bytes) {
  CHECK_EQ(with_seed(kSample, 7), with_seed(kSample, 7));
  CHECK(with_seed(kSample, 7) != with_seed(kSample, 8));
  CHECK_EQ(core::obfuscate(kSample).text, core::obfuscate(kSample).text);
  CHECK(core::obfuscate(kSample).text != core::obfuscate(std::string(kSample) + " ").text);
}

TEST(names_of_the_source_are_gone) {
  const std::set<std::string> left = words(core::obfuscate(kSample).text);
  for (const char* name :
       {"alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota"}) {
    CHECK_MESSAGE(!left.contains(name), std::string(name) + " is still there");
  }
  CHECK(left.contains("print") && left.contains("pairs") && left.contains("const"));
}

TEST(names_are_never_keywords) {
  // Enough locals at once to pass through every two-letter name.
  std::string text;
  std::string close;
  for (int f = 0; f < 20; ++f) {
    text += "local function f" + std::to_string(f) + "()\n";
    for (int i = 0; i < 190; ++i) text += "local v" + std::to_string(f * 1000 + i) + "=1\n";
    close += " end";
  }
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    CHECK_MESSAGE(!test::bytecode(with_seed(text + close, seed)).empty(), "it does not compile");
  }
}

// All 53 one-letter names are globals, and locals of one letter shadow them: the
// first plan would need two letters for each, so the second one must serve.
TEST(names_never_make_the_output_larger) {
  std::string globals;
  std::string text;
  for (char c = 'A'; c <= 'z'; ++c) {
    if (std::isalpha(c) == 0) continue;
    globals += std::string(1, c) + "=1 ";
    text += std::string("do local ") + c + "=1 do local " + c + "=" + c + " end end ";
  }
  const std::string source =
      globals + "_=1 " + text + "local xy,yx,xx=1,2,3 return xy,yx,xx,xy,xy,xy,xy";
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    core::Options options;
    options.seed = seed;
    const core::Outcome outcome = core::obfuscate(source, options);
    CHECK(outcome.status == core::Status::kOk);
    CHECK(outcome.text.size() <= source.size() + 1);
    CHECK(test::bytecode(outcome.text) == test::bytecode(source));
  }
}

// An oracle that depends on nothing: the free names of the output, in order.
TEST(names_of_globals_survive_in_order) {
  const auto free_names = [](std::string_view text) {
    const core::Program program = core::parse(text, {});
    std::string all;
    for (const core::NameId id : program.scopes.free_names) {
      all += std::string(program.names.text(id)) + " ";
    }
    return all;
  };
  CHECK_EQ(free_names(kSample), "pairs print ");
  CHECK_EQ(free_names(core::obfuscate(kSample).text), "pairs print ");
}

// Whatever damages the output between printer and check, nothing is handed out.
TEST(self_check_refuses_a_damaged_output) {
  const auto status_with = [](void (*damage)(std::string&)) {
    core::Options options;
    options.test_only_damage = damage;
    return core::obfuscate("local a, b = 1, 2 return a - b, g .. 'text'  ", options).status;
  };
  CHECK(status_with(nullptr) == core::Status::kOk);
  for (const auto damage : {
           +[](std::string& text) { text[text.find('-')] = '+'; },
           +[](std::string& text) { text[text.find('1')] = '2'; },
           +[](std::string& text) { text[text.find(",g") + 1] = 'h'; },
           +[](std::string& text) { text[text.find("text")] = 'T'; },
           +[](std::string& text) {
             std::swap(text[text.find('-') - 1], text[text.find('-') + 1]);
           },
           +[](std::string& text) { text.resize(text.size() / 2); },
           +[](std::string& text) { text.clear(); },
           +[](std::string& text) { text += std::string(100, ' '); },
       }) {
    CHECK(status_with(damage) == core::Status::kBroken);
  }
}

// A changed program has another fingerprint, renaming does not.
TEST(fingerprint_sees_changes_and_not_names) {
  const auto fingerprint = [](std::string_view text) {
    const core::Program program = core::parse(text, {});
    if (program.failure.kind != core::FailureKind::kNone)
      throw test::Failed(program.failure.message);
    return program.fingerprint;
  };
  const core::Fingerprint base =
      fingerprint("local a, b = 1, 'x' do goto l end ::l:: return a + b.c, g");
  CHECK(base == fingerprint("local x,y=1,\"\\x78\" do goto m end::m::return x+y.c,g--"));
  for (const char* other : {"local a, b = 1, 'x' do goto l end ::l:: return b + b.c, g",
                            "local a, b = 1, 'x' do goto l end ::l:: return a - b.c, g",
                            "local a, b = 1, 'y' do goto l end ::l:: return a + b.c, g",
                            "local a, b = 2, 'x' do goto l end ::l:: return a + b.c, g",
                            "local a, b = 1, 'x' do goto l end ::l:: return a + b.d, g",
                            "local a, b = 1, 'x' do goto l end ::l:: return a + b.c, h",
                            "local a, b = 1, 'x' do goto l end ::l:: return (a + b.c), g",
                            "local a, b = 1, 'x' do goto l end ::l:: return a + b.c, a",
                            "local b, a = 1, 'x' do goto l end ::l:: return a + b.c, g",
                            "local a <const>, b = 1, 'x' do goto l end ::l:: return a + b.c, g"}) {
    CHECK_MESSAGE(!(base == fingerprint(other)), other);
  }
}
