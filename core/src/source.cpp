// Splitting and locating. Locating counts from the start on purpose: it is
// needed once, for the one failure reported, and the lexer need not count lines.
#include "core/source.hpp"

namespace core {

Source Source::open(std::string_view bytes) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (bytes.starts_with(kByteOrderMark)) bytes.remove_prefix(kByteOrderMark.size());
  if (!bytes.starts_with('#')) return {{}, bytes};
  const std::size_t end = bytes.find('\n');
  if (end == std::string_view::npos) return {bytes, {}};
  return {bytes.substr(0, end), bytes.substr(end)};
}

Position Source::locate(std::uint32_t offset) const {
  Position at;
  std::size_t line_start = 0;
  const std::size_t stop = offset < code.size() ? offset : code.size();
  for (std::size_t i = 0; i < stop; ++i) {
    const char c = code[i];
    if (c != '\n' && c != '\r') continue;
    const bool pair =
        i + 1 < code.size() && (code[i + 1] == '\n' || code[i + 1] == '\r') && code[i + 1] != c;
    if (pair && i + 1 < stop) ++i;
    ++at.line;
    line_start = i + 1;
  }
  at.column = static_cast<std::uint32_t>(stop - line_start) + 1;
  return at;
}

}  // namespace core
