// Random texts, judged by Lua itself: the core accepts what Lua accepts, refuses
// what it refuses, and what it prints compiles to the same bytecode.
//
// Texts are the golden cases with a few tokens removed, doubled, swapped or put in
// from elsewhere, so that most are almost programs. One Lua process judges all.
#include <algorithm>
#include <filesystem>

#include "core/lexer.hpp"
#include "harness.hpp"
#include "program.hpp"
#include "texts.hpp"

namespace {

// Reads texts, each after its length and a line end; says for each whether it
// loads, and the stripped bytecode of both parts when it has two.
constexpr const char* kJudge = R"lua(
local function load_text(n) return load(io.read(tonumber(n)), "=t", "t") end
while true do
  local a = io.read("l")
  if not a then break end
  local first = load_text(a)
  local second = load_text(io.read("l"))
  if not first then io.write "no\n"
  elseif not second then io.write "yes broken\n"
  elseif string.dump(first, true) == string.dump(second, true) then io.write "yes same\n"
  else io.write "yes differs\n" end
end
)lua";

class Numbers {
 public:
  explicit Numbers(std::uint64_t seed) : state_(seed) {}
  std::size_t below(std::size_t limit) {
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    return static_cast<std::size_t>((state_ >> 33) % limit);
  }

 private:
  std::uint64_t state_;
};

std::vector<std::string> pieces_of_all_cases() {
  std::vector<std::string> pieces;
  for (const auto& entry : std::filesystem::directory_iterator(test::settings().cases)) {
    if (entry.path().extension() != ".lua") continue;
    const std::string text = test::read_file(entry.path().string());
    if (text.starts_with("#") || text.starts_with("\xEF")) continue;
    core::Lexer lexer(text);
    for (core::Token token = lexer.next(); token.kind != core::Kind::kEof; token = lexer.next()) {
      pieces.emplace_back(lexer.text(token));
    }
  }
  std::sort(pieces.begin(), pieces.end());  // directory order is not ours to choose
  return pieces;
}

std::vector<std::vector<std::string>> statements() {
  static const char* const kPrograms[] = {
      "local a , b <const> = 1 , 'x' a = a + # b .. - 2 ^ b",
      "for i = 1 , 10 , 2 do if i == 3 then break elseif i then goto l end ::l:: end",
      "local function f ( a , ... ) return a , ... , ( ... ) , { ... ; n = a , [ a ] = 1 } end",
      "function o . p : q ( x ) self . x , y [ x ] = x , not x ; ( f ) ( x ) end",
      "repeat local x <close> = f { } until x or y and z while x do f 'a' : g [[b]] end",
      "do local _ENV = { } x = _ENV end for k , v in pairs ( t ) do t [ k ] = v // 2 end",
      "goto done do local x = function ( ) return ~ 1 | 2 & 3 << 4 end end ::done:: return f ( )"};
  std::vector<std::vector<std::string>> all;
  for (const char* text : kPrograms) {
    core::Lexer lexer(text);
    std::vector<std::string> tokens;
    for (core::Token token = lexer.next(); token.kind != core::Kind::kEof; token = lexer.next()) {
      tokens.emplace_back(lexer.text(token));
    }
    all.push_back(std::move(tokens));
  }
  return all;
}

std::string random_text(Numbers& numbers, const std::vector<std::vector<std::string>>& programs,
                        const std::vector<std::string>& pieces) {
  std::vector<std::string> tokens;
  for (std::size_t parts = 1 + numbers.below(3); parts > 0; --parts) {
    const auto& program = programs[numbers.below(programs.size())];
    tokens.insert(tokens.end(), program.begin(), program.end());
  }
  for (std::size_t changes = numbers.below(4); changes > 0; --changes) {
    const std::size_t at = numbers.below(tokens.size());
    const auto position = tokens.begin() + static_cast<std::ptrdiff_t>(at);
    switch (numbers.below(4)) {
      case 0:
        tokens.erase(position);
        break;
      case 1:
        tokens.insert(position, pieces[numbers.below(pieces.size())]);
        break;
      case 2:
        *position = pieces[numbers.below(pieces.size())];
        break;
      default:
        std::swap(*position, tokens[numbers.below(tokens.size())]);
        break;
    }
    if (tokens.empty()) tokens.emplace_back(";");
  }
  std::string text = " ";  // a '#' is no shebang then: load() knows none
  for (const std::string& token : tokens) text += token + " ";
  return text;
}

std::string framed(const std::string& text) {
  return std::to_string(text.size()) + "\n" + text;
}

}  // namespace

TEST(random_texts_are_judged_as_lua_judges_them) {
  constexpr int kTexts = 20000;
  Numbers numbers(20240601);
  const auto programs = statements();
  const auto pieces = pieces_of_all_cases();
  std::vector<std::string> texts;
  std::vector<bool> accepted;
  std::string questions;
  for (int i = 0; i < kTexts; ++i) {
    texts.push_back(random_text(numbers, programs, pieces));
    core::Options options;
    options.keep_lines = true;
    options.seed = static_cast<std::uint64_t>(i);
    const core::Outcome outcome = core::obfuscate(texts.back(), options);
    CHECK_MESSAGE(outcome.status != core::Status::kBroken, "self-check failed on " + texts.back());
    accepted.push_back(outcome.status == core::Status::kOk);
    questions += framed(texts.back()) + framed(outcome.text);
  }
  const test::Folder folder;
  test::write_file(folder.path() + "/judge.lua", kJudge);
  const test::Run run = test::run_program({"lua5.4", folder.path() + "/judge.lua"}, questions);
  CHECK_EQ(run.status, 0);
  std::size_t at = 0;
  int good = 0;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::size_t end = run.output.find('\n', at);
    CHECK(end != std::string::npos);
    const std::string answer = run.output.substr(at, end - at);
    at = end + 1;
    CHECK_MESSAGE(answer == (accepted[i] ? "yes same" : "no"),
                  "Lua: " + answer + ", core: " + (accepted[i] ? "ok" : test::verdict(texts[i])) +
                      ", text: " + texts[i]);
    good += accepted[i] ? 1 : 0;
  }
  // Neither all good nor all bad, or the comparison says little.
  CHECK(good > kTexts / 10 && good < kTexts * 9 / 10);
}
