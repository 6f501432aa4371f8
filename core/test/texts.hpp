// Making texts and outcomes for the tests.
#pragma once

#include <string>
#include <string_view>

#include "core/pipeline.hpp"

namespace test {

// `part` repeated `count` times.
std::string repeat(std::string_view part, std::size_t count);

// The output for `text` with names in alphabetical order; fails if it is refused.
std::string plain(std::string_view text, bool keep_lines = false);

// "ok", or "3 LINE:COLUMN message" (4 for a limit).
std::string verdict(std::string_view text);

// Does `lua5.4 -` load the text? The text must be harmless to run.
bool lua_runs(std::string_view text);

}  // namespace test
