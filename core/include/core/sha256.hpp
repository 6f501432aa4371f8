// SHA-256 (FIPS 180-4), used for one thing: the seed of an input is its digest,
// so that equal inputs give equal outputs on every attempt.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace core {

using Digest = std::array<std::uint8_t, 32>;

[[nodiscard]] Digest sha256(std::string_view bytes);

}  // namespace core
