// One run by the contract. The result is written in one piece after the
// self-check, so it is whole or cut to nothing.
#include "core/run.hpp"

#include <new>
#include <string>

#include "core/pipeline.hpp"

namespace core {
namespace {

// Reads at most `limit` + 1 bytes: one more than allowed is enough to refuse.
bool read_bounded(const File& file, std::size_t limit, std::string& bytes) {
  constexpr std::size_t kStep = std::size_t{256} << 10;
  for (;;) {
    const std::size_t had = bytes.size();
    const std::size_t want = limit + 1 - had < kStep ? limit + 1 - had : kStep;
    if (want == 0) return true;
    bytes.resize(had + want);
    const std::ptrdiff_t got = file.read(bytes.data() + had, want);
    bytes.resize(got > 0 ? had + static_cast<std::size_t>(got) : had);
    if (got <= 0) return got == 0;
  }
}

ExitCode write_result(const char* path, std::string_view bytes) {
  const File result = open_result(path);
  if (!result.is_open()) return kExitUsage;
  const ExitCode code = result.write(bytes);
  const bool cut = result.cut(code == kExitOk ? bytes.size() : 0);
  return code == kExitOk && !cut ? kExitInternal : code;
}

ExitCode process(const char* input_path, const char* result_path) {
  std::string input;
  {
    const File file = open_input(input_path);
    if (!file.is_open()) return kExitUsage;
    if (!read_bounded(file, kDefaultMaxInput, input)) return kExitInternal;
  }
  const Outcome outcome = obfuscate(input);
  switch (outcome.status) {
    case Status::kOk:
      return write_result(result_path, outcome.text);
    case Status::kBroken:
      return kExitInternal;
    case Status::kRefused:
      break;
  }
  // The code stands whether or not there is room for the diagnostic.
  const ExitCode written = write_result(result_path, diagnostic_json(outcome.failure));
  if (written == kExitUsage || written == kExitInternal) return written;
  return outcome.failure.kind == FailureKind::kLimit ? kExitInputLimit : kExitInvalidInput;
}

}  // namespace

ExitCode run_core(const char* input_path, const char* result_path) {
  ignore_file_size_signal();
  try {
    return process(input_path, result_path);
  } catch (const std::bad_alloc&) {
    return kExitOutOfMemory;
  }
}

}  // namespace core
