// Time and memory over hostile shapes: linear in the input, below the bounds of
// CORE §6 (memory 40 x input). Named reports: StyLua #477, Prometheus #73 #69,
// XFuscator #6. The shipped program is measured, from outside.
#include <algorithm>

#include "harness.hpp"
#include "program.hpp"
#include "texts.hpp"

namespace {

using test::repeat;

struct Shape {
  const char* name;
  std::string (*make)(std::size_t bytes);
};

// Tiles of one text up to `bytes`, between a head and a tail.
std::string tiled(const char* head, std::string_view tile, const char* tail, std::size_t bytes) {
  return head + repeat(tile, bytes / tile.size()) + tail;
}

std::string distinct_names(std::size_t bytes) {
  std::string text = "x={";
  for (std::size_t i = 0; text.size() < bytes; ++i) text += "n" + std::to_string(i) + ",";
  return text + "}";
}

std::string brackets(std::size_t bytes) {
  std::string text = "x=[" + repeat("=", bytes / 3) + "[";
  text += repeat("]" + repeat("=", 63), bytes / 3 / 64);
  return text + "]" + repeat("=", bytes / 3) + "]";
}

const Shape kShapes[] = {
    {"comments", [](std::size_t n) { return tiled("", "--[=[ c ]=]\n-- x\n", "", n); }},
    {"unclosed brackets", [](std::size_t n) { return tiled("--", "[=====", "", n); }},
    {"one long bracket", brackets},
    {"one line", [](std::size_t n) { return tiled("x='", "abcdefgh", "'", n); }},
    {"escapes", [](std::size_t n) { return tiled("x='", "\\0\\xff", "'", n); }},
    {"semicolons", [](std::size_t n) { return tiled("", ";", "", n); }},
    {"sums", [](std::size_t n) { return tiled("x=1", "+1", "", n); }},
    {"calls", [](std::size_t n) { return tiled("", "f()", "", n); }},
    {"call chain", [](std::size_t n) { return tiled("f", "()", "", n); }},
    {"fields", [](std::size_t n) { return tiled("x=a", ".b", "", n); }},
    {"tables", [](std::size_t n) { return tiled("x={", "{},", "}", n); }},
    {"elseif", [](std::size_t n) { return tiled("if a then ", "elseif a then ", "end", n); }},
    {"blocks",
     [](std::size_t n) {
       return tiled("", "do local a end ", "", std::min(n, std::size_t{480000}));
     }},
    {"assignments", [](std::size_t n) { return tiled("", "a=b ", "", n); }},
    {"distinct names", distinct_names},
    {"labels", [](std::size_t n) { return tiled("", "do goto a ::a:: end ", "", n); }},
    {"functions",
     [](std::size_t n) {
       return tiled("", "do local f=function(a,b)return a end end ", "",
                    std::min(n, std::size_t{1200000}));
     }},
    {"garbage", [](std::size_t n) { return tiled("x=1 ", "\xFF\x01", "", n); }},
    {"open parentheses", [](std::size_t n) { return tiled("x=", "(", "", n); }},
};

struct Measured {
  std::string name;
  test::Run small;  // of a tenth of the size
  test::Run large;
};

// Memory is held to its bound by RLIMIT_AS: what a child reports of itself would
// include the memory of the test that forked it.
test::Run within_memory(const std::string& text) {
  constexpr std::uint64_t kFactor = 40;
  constexpr std::uint64_t kProgram = std::uint64_t{8} << 20;
  test::Bounds bounds;
  bounds.address_space = kFactor * text.size() + kProgram;
  return test::run_shipped("core", text, bounds);
}

// Measured once, for both tests.
const std::vector<Measured>& measured() {
  static const std::vector<Measured> all = [] {
    std::vector<Measured> runs;
    for (const Shape& shape : kShapes) {
      runs.push_back(
          {shape.name, within_memory(shape.make(1000000)), within_memory(shape.make(10000000))});
      runs.back().large.output.clear();
    }
    return runs;
  }();
  return all;
}

}  // namespace

TEST(growth_ten_megabytes_of_every_shape) {
  for (const Measured& shape : measured()) {
    CHECK_MESSAGE(shape.large.status == 0 || shape.large.status == 3 || shape.large.status == 4,
                  shape.name + " ended with " + std::to_string(shape.large.status) +
                      " (6: more than 40 x its size in memory)");
    CHECK_MESSAGE(shape.large.cpu_seconds < 5,
                  shape.name + " took " + std::to_string(shape.large.cpu_seconds) + " s");
  }
}

// Ten times the text may take at most twenty times the time (with a floor, since
// small times are noise).
TEST(growth_is_linear) {
  for (const Measured& shape : measured()) {
    CHECK_MESSAGE(shape.large.cpu_seconds < 20 * std::max(shape.small.cpu_seconds, 0.03),
                  shape.name + ": " + std::to_string(shape.small.cpu_seconds) + " s, then " +
                      std::to_string(shape.large.cpu_seconds) + " s");
  }
}
