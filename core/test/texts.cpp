#include "texts.hpp"

#include "harness.hpp"
#include "program.hpp"

namespace test {

std::string repeat(std::string_view part, std::size_t count) {
  std::string text;
  text.reserve(part.size() * count);
  for (std::size_t i = 0; i < count; ++i) text += part;
  return text;
}

std::string plain(std::string_view text, bool keep_lines) {
  core::Options options;
  options.plain_names = true;
  options.keep_lines = keep_lines;
  const core::Outcome outcome = core::obfuscate(text, options);
  if (outcome.status != core::Status::kOk) {
    throw Failed("not accepted: " + outcome.failure.message);
  }
  return outcome.text;
}

std::string verdict(std::string_view text) {
  const core::Outcome outcome = core::obfuscate(text);
  if (outcome.status == core::Status::kOk) return "ok";
  if (outcome.status == core::Status::kBroken) return "broken";
  const core::Failure& failure = outcome.failure;
  return std::string(failure.kind == core::FailureKind::kLimit ? "4 " : "3 ") +
         std::to_string(failure.line) + ":" + std::to_string(failure.column) + " " +
         failure.message;
}

bool lua_runs(std::string_view text) {
  return run_program({"lua5.4", "-"}, text).status == 0;
}

}  // namespace test
