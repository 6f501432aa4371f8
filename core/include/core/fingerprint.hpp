// Fingerprint: a running digest of what a program is, apart from what layer 0 may change.
//
// The parser feeds it, in source order: each significant token; numbers as
// spelled; strings by value; globals, fields and attributes by name; locals by
// the order of their declaration; labels by the order of their first mention.
// Two texts with equal fingerprints are the same program up to local names,
// label names, blanks, comments and string spellings. It guards against our own
// faults (exit 70), not against a forger, so a fast two-lane mix is enough.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace core {

class Fingerprint {
 public:
  void add(std::uint64_t word) {
    low_ = std::rotl(low_ ^ (word * 0x9E3779B97F4A7C15U), 27) * 0xBF58476D1CE4E5B9U;
    high_ = (std::rotl(high_, 31) + word) * 0x94D049BB133111EBU;
    ++count_;
  }

  void add(std::string_view bytes) {
    add(bytes.size());
    std::size_t at = 0;
    for (; at + 8 <= bytes.size(); at += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, bytes.data() + at, 8);
      add(word);
    }
    std::uint64_t last = 0;
    if (at < bytes.size()) std::memcpy(&last, bytes.data() + at, bytes.size() - at);
    add(last);
  }

  bool operator==(const Fingerprint&) const = default;

 private:
  std::uint64_t low_ = 0x243F6A8885A308D3U;
  std::uint64_t high_ = 0x13198A2E03707344U;
  std::uint64_t count_ = 0;
};

}  // namespace core
