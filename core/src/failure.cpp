// The diagnostic is written by hand: four fixed keys and one string that is
// already printable ASCII need no JSON library. Worst case is every message
// byte escaped: 2 * kMaxMessageBytes + about 60 bytes, below the bound.
#include "core/failure.hpp"

namespace core {

static_assert(2 * kMaxMessageBytes + 64 <= kMaxDiagnosticBytes);

std::string printable(std::string_view text, std::size_t limit) {
  std::string clean;
  for (const char c : text.substr(0, limit)) {
    clean.push_back(c >= ' ' && c <= '~' ? c : '?');
  }
  if (text.size() > limit && limit >= 3) clean.replace(limit - 3, 3, "...");
  return clean;
}

std::string diagnostic_json(const Failure& failure) {
  std::string json = R"({"line":)" + std::to_string(failure.line) + R"(,"column":)" +
                     std::to_string(failure.column) + R"(,"message":")";
  for (const char c : printable(failure.message, kMaxMessageBytes)) {
    if (c == '"' || c == '\\') json.push_back('\\');
    json.push_back(c);
  }
  json += "\"}\n";
  return json;
}

}  // namespace core
