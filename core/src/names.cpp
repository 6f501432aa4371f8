// Open addressing with linear probing at a load of at most one half. The 32-bit
// hash is kept beside each text, so growing never reads the texts again.
#include "core/names.hpp"

#include <bit>
#include <cstring>

namespace core {
namespace {

struct SipState {
  std::uint64_t v0, v1, v2, v3;

  void round() {
    v0 += v1;
    v1 = std::rotl(v1, 13) ^ v0;
    v0 = std::rotl(v0, 32);
    v2 += v3;
    v3 = std::rotl(v3, 16) ^ v2;
    v0 += v3;
    v3 = std::rotl(v3, 21) ^ v0;
    v2 += v1;
    v1 = std::rotl(v1, 17) ^ v2;
    v2 = std::rotl(v2, 32);
  }
};

}  // namespace

std::uint64_t siphash13(HashKey key, std::string_view bytes) {
  SipState s{key.k0 ^ 0x736f6d6570736575U, key.k1 ^ 0x646f72616e646f6dU,
             key.k0 ^ 0x6c7967656e657261U, key.k1 ^ 0x7465646279746573U};
  const std::size_t whole = bytes.size() / 8 * 8;
  for (std::size_t at = 0; at < whole; at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, 8);
    s.v3 ^= word;
    s.round();
    s.v0 ^= word;
  }
  std::uint64_t last = std::uint64_t{bytes.size()} << 56;
  for (std::size_t i = whole; i < bytes.size(); ++i) {
    last |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * (i - whole));
  }
  s.v3 ^= last;
  s.round();
  s.v0 ^= last;
  s.v2 ^= 0xff;
  for (int i = 0; i < 3; ++i) s.round();
  return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

NameTable::NameTable(HashKey key) : key_(key), buckets_(256, 0) {
  intern("_ENV");
  intern("self");
}

NameId NameTable::intern(std::string_view text) {
  const auto hash = static_cast<std::uint32_t>(siphash13(key_, text));
  const std::size_t mask = buckets_.size() - 1;
  std::size_t at = hash & mask;
  for (; buckets_[at] != 0; at = (at + 1) & mask) {
    const NameId id = buckets_[at] - 1;
    if (hashes_[id] == hash && texts_[id] == text) return id;
  }
  const auto id = static_cast<NameId>(texts_.size());
  texts_.push_back(text);
  hashes_.push_back(hash);
  buckets_[at] = id + 1;
  if (texts_.size() * 2 > buckets_.size()) grow();
  return id;
}

void NameTable::grow() {
  std::vector<std::uint32_t> wider(buckets_.size() * 2, 0);
  const std::size_t mask = wider.size() - 1;
  for (NameId id = 0; id < hashes_.size(); ++id) {
    std::size_t at = hashes_[id] & mask;
    while (wider[at] != 0) at = (at + 1) & mask;
    wider[at] = id + 1;
  }
  buckets_.swap(wider);
}

}  // namespace core
