// Any text that is one string literal: encoding keeps the value, is not longer, and
// is one literal again.
#include <cstdlib>

#include "core/lexer.hpp"
#include "core/literal.hpp"

namespace {

bool is_one_literal(std::string_view text) {
  if (text.empty()) return false;
  core::Lexer lexer(text);
  try {
    const core::Token token = lexer.next();
    return token.kind == core::Kind::kString && token.begin == 0 && token.end == text.size();
  } catch (const core::Refusal&) {
    return false;
  }
}

void check(std::string_view literal) {
  std::string value;
  std::string scratch;
  std::string spelled;
  std::string again;
  core::decode_literal(literal, value);
  core::encode_literal(literal, scratch, spelled);
  if (spelled.size() > literal.size() || !is_one_literal(spelled)) std::abort();
  core::decode_literal(spelled, again);
  if (again != value) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  // The bytes as they are, and as the body of each kind of literal.
  for (const std::string& literal :
       {text, "\"" + text + "\"", "'" + text + "'", "[[" + text + "]]", "[==[" + text + "]==]"}) {
    if (is_one_literal(literal)) check(literal);
  }
  return 0;
}
