// Any bytes: the parser ends with a tree or with a refusal that points into the text.
#include <cstdlib>

#include "core/parser.hpp"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const core::Program program = core::parse(text, {1, 2}, /*log_tokens=*/true);
  if (program.failure.kind == core::FailureKind::kNone) return 0;
  if (program.failure_offset > size || program.failure.message.empty()) std::abort();
  if (core::diagnostic_json(program.failure).size() > core::kMaxDiagnosticBytes) std::abort();
  return 0;
}
