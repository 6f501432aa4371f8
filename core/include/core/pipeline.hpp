// The whole of the core as one pure function: bytes in, bytes or a refusal out.
//
// It parses, renames, prints, then checks its own work: the output must parse to
// the same fingerprint and the same free names. A program that fails the check is
// never handed out (kBroken, exit 70).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/failure.hpp"

namespace core {

inline constexpr std::size_t kDefaultMaxInput = std::size_t{10} << 20;  // bytes

struct Options {
  std::size_t max_input = kDefaultMaxInput;  // larger inputs are refused; below 2^32 - 2
  // The developer binary's and the tests' only; the shipped core uses the defaults.
  bool keep_lines = false;
  bool plain_names = false;                               // names in alphabetical order, no shuffle
  void (*test_only_damage)(std::string& text) = nullptr;  // before the self-check
  std::optional<std::uint64_t> seed;                      // instead of the input's SHA-256
};

enum class Status : std::uint8_t {
  kOk,
  kRefused,  // see failure
  kBroken,   // the self-check failed: a fault of this program
};

struct Outcome {
  Status status = Status::kBroken;
  std::string text;  // with kOk: at most input.size() + 1 bytes (a final line end)
  Failure failure;
};

// Throws std::bad_alloc only.
[[nodiscard]] Outcome obfuscate(std::string_view input, const Options& options = {});

}  // namespace core
