// NameTable: every distinct identifier of one text, once, under a small number.
//
// Hostile input chooses the identifiers, so the table's hash is SipHash-1-3 under
// a key that comes from the SHA-256 of the whole input: colliding names cannot be
// prepared without changing the key. Ids are given in order of first appearance;
// nothing ever iterates over the hash order, so results stay deterministic.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace core {

using NameId = std::uint32_t;

struct HashKey {
  std::uint64_t k0 = 0;
  std::uint64_t k1 = 0;
};

class NameTable {
 public:
  explicit NameTable(HashKey key);

  // The id of `text`, new or known. `text` must outlive the table.
  NameId intern(std::string_view text);
  [[nodiscard]] std::string_view text(NameId id) const { return texts_[id]; }
  [[nodiscard]] std::size_t size() const { return texts_.size(); }

  // Interned by the constructor, so that they have fixed ids.
  static constexpr NameId kEnv = 0;   // "_ENV"
  static constexpr NameId kSelf = 1;  // "self"

 private:
  void grow();

  HashKey key_;
  std::vector<std::string_view> texts_;
  std::vector<std::uint32_t> hashes_;   // by id
  std::vector<std::uint32_t> buckets_;  // id + 1, 0 = empty; size is a power of two
};

// SipHash with 1 compression and 3 finalisation rounds.
[[nodiscard]] std::uint64_t siphash13(HashKey key, std::string_view bytes);

}  // namespace core
