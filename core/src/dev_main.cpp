// core-dev: the same pipeline on stdin and stdout, with what a developer wants to
// vary. Never shipped: the core in the image takes no flag.
#include <charconv>
#include <cstring>
#include <new>
#include <string>
#include <string_view>

#include "core/pipeline.hpp"
#include "core/process.hpp"

namespace {

constexpr std::string_view kUsage =
    "usage: core-dev [--keep-lines] [--plain-names] [--seed N] [--max-input BYTES] < in > out\n"
    "  --keep-lines    every token stays on its line\n"
    "  --plain-names   names in alphabetical order, not shuffled\n"
    "  --seed N        shuffle by N instead of the input's SHA-256\n"
    "  --max-input N   refuse larger inputs (default 10485760)\n"
    "exit codes as in CONTRACT.md\n";

// To standard error; if that fails there is nobody left to tell.
void complain(std::string_view text) {
  static_cast<void>(core::File(2).write(text));
}

// Parses a decimal number that takes all of `text`.
bool parse_number(const char* text, std::uint64_t& value) {
  const char* end = text + std::strlen(text);
  const auto [at, error] = std::from_chars(text, end, value);
  return error == std::errc() && at == end && at != text;
}

bool parse_options(int argc, char** argv, core::Options& options) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    std::uint64_t number = 0;
    if (flag == "--keep-lines") {
      options.keep_lines = true;
    } else if (flag == "--plain-names") {
      options.plain_names = true;
    } else if (i + 1 < argc && parse_number(argv[i + 1], number) && flag == "--seed") {
      options.seed = number;
      ++i;
    } else if (i + 1 < argc && parse_number(argv[i + 1], number) && flag == "--max-input" &&
               number < 0xFFFFFFF0U) {
      options.max_input = number;
      ++i;
    } else {
      return false;
    }
  }
  return true;
}

bool read_stdin(std::size_t limit, std::string& input) {
  const core::File file(0);
  char buffer[1 << 16];
  while (input.size() <= limit) {
    const std::ptrdiff_t got = file.read(buffer, sizeof buffer);
    if (got < 0) return false;
    if (got == 0) return true;
    input.append(buffer, static_cast<std::size_t>(got));
  }
  return true;
}

int run(const core::Options& options) {
  std::string input;
  if (!read_stdin(options.max_input, input)) {
    complain("core-dev: cannot read standard input\n");
    return core::kExitInternal;
  }
  const core::Outcome outcome = core::obfuscate(input, options);
  if (outcome.status == core::Status::kBroken) {
    complain("core-dev: the self-check failed; please report the input\n");
    return core::kExitInternal;
  }
  if (outcome.status == core::Status::kRefused) {
    complain(core::diagnostic_json(outcome.failure));
    return outcome.failure.kind == core::FailureKind::kLimit ? core::kExitInputLimit
                                                             : core::kExitInvalidInput;
  }
  return core::File(1).write(outcome.text);
}

}  // namespace

int main(int argc, char** argv) {
  core::Options options;
  if (!parse_options(argc, argv, options)) {
    complain(kUsage);
    return core::kExitUsage;
  }
  try {
    return run(options);
  } catch (const std::bad_alloc&) {
    return core::kExitOutOfMemory;
  }
}
