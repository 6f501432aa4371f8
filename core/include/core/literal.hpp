// String literals: from source spelling to bytes, and back to a spelling.
//
// Lua strings are bytes. encode_literal() chooses the spelling by rules that
// never change the value and never make the token longer than it was:
//   - printable ASCII stands for itself; line ends and the seven named controls
//     get their two-byte escape; other controls and stray high bytes get a
//     decimal escape, of three digits when a digit follows;
//   - bytes >= 0x80 stay raw if they form well-formed UTF-8, or if the source
//     had them raw; they are never turned into \u{...};
//   - a long bracket stays one when that is shorter, at the lowest safe level;
//   - if all that is longer than the source spelling, the source spelling stays.
#pragma once

#include <string>
#include <string_view>

namespace core {

// Both require `literal` to be a whole string token accepted by Lexer.
// Appends the value's bytes to `value`.
void decode_literal(std::string_view literal, std::string& value);
// Appends a spelling of the same value, at most literal.size() bytes. `scratch` is
// working memory that the caller keeps so that it is not allocated per token.
void encode_literal(std::string_view literal, std::string& scratch, std::string& out);

}  // namespace core
