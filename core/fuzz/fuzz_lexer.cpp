// Any bytes: the lexer ends, tokens go forward and stay inside the text.
#include <cstdlib>

#include "core/lexer.hpp"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  core::Lexer lexer(text);
  std::uint32_t last = 0;
  try {
    for (;;) {
      const core::Token token = lexer.next();
      if (token.begin < last || token.end < token.begin || token.end > size) std::abort();
      last = token.end;
      if (token.kind == core::Kind::kEof) break;
      if (token.begin == token.end) std::abort();
    }
  } catch (const core::Refusal& refusal) {
    if (refusal.offset > size) std::abort();
  }
  return 0;
}
