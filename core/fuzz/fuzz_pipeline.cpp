// Any bytes through the whole core, in both layouts: a refusal, or a text that is
// not longer, passes the self-check, and is accepted and no longer a second time.
#include <cstdlib>

#include "core/pipeline.hpp"

namespace {

void check(std::string_view input, const core::Options& options) {
  const core::Outcome once = core::obfuscate(input, options);
  if (once.status == core::Status::kBroken) std::abort();
  if (once.status == core::Status::kRefused) {
    if (once.failure.line == 0 || once.failure.column == 0) std::abort();
    return;
  }
  if (once.text.size() > input.size() + 1 || once.text.back() != '\n') std::abort();
  const core::Outcome twice = core::obfuscate(once.text, options);
  if (twice.status != core::Status::kOk || twice.text.size() > once.text.size()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  core::Options options;
  check(input, options);
  options.keep_lines = true;
  options.seed = size;
  check(input, options);
  return 0;
}
