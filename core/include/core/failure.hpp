// Failure: why an input was refused, in the two classes the contract knows.
//
// A refusal is a value, never an exception: parse() and obfuscate() return it.
// The message is text about hostile input, so it is built from printable ASCII
// only and kept short; whoever shows it to a person must still escape it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace core {

enum class FailureKind : std::uint8_t {
  kNone,
  kNotLua,  // the text is not Lua 5.4 (exit 3)
  kLimit,   // the text is beyond a limit of Lua 5.4 or of this core (exit 4)
};

struct Failure {
  FailureKind kind = FailureKind::kNone;
  std::uint32_t line = 0;    // 1-based
  std::uint32_t column = 0;  // 1-based, in bytes
  std::string message;       // lower-case fragment, printable ASCII, at most kMaxMessageBytes
};

inline constexpr std::size_t kMaxMessageBytes = 200;
// The contract's bound on the whole diagnostic object.
inline constexpr std::size_t kMaxDiagnosticBytes = 512;

// Replaces every byte that is not printable ASCII by '?', and cuts to `limit` bytes.
[[nodiscard]] std::string printable(std::string_view text, std::size_t limit);

// The one JSON object of the contract, at most kMaxDiagnosticBytes bytes.
[[nodiscard]] std::string diagnostic_json(const Failure& failure);

}  // namespace core
