// The small parts: source splitting, digest, keyed hash, diagnostics.
#include "core/failure.hpp"
#include "core/names.hpp"
#include "core/sha256.hpp"
#include "core/source.hpp"
#include "harness.hpp"
#include "program.hpp"
#include "texts.hpp"

namespace {

std::string hex(const core::Digest& digest) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t byte : digest) {
    text.push_back(kHex[byte >> 4]);
    text.push_back(kHex[byte & 15]);
  }
  return text;
}

std::string at(const core::Source& source, std::uint32_t offset) {
  const core::Position position = source.locate(offset);
  return std::to_string(position.line) + ":" + std::to_string(position.column);
}

}  // namespace

TEST(sha256_of_known_texts) {
  CHECK_EQ(hex(core::sha256("")),
           "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK_EQ(hex(core::sha256("abc")),
           "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK_EQ(hex(core::sha256(test::repeat("a", 1000000))),
           "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(sha256_at_every_length_around_a_block) {
  for (std::size_t length = 50; length < 140; ++length) {
    const std::string text = test::repeat("q", length);
    const std::string expected = test::run_program({"sha256sum"}, text).output.substr(0, 64);
    CHECK_EQ(hex(core::sha256(text)), expected);
  }
}

// The 64-byte-key test vectors of the reference are for SipHash-2-4; here it is
// enough that key and every byte matter, and that lengths are told apart.
TEST(keyed_hash_depends_on_key_and_every_byte) {
  const core::HashKey key{1, 2};
  const std::uint64_t base = core::siphash13(key, "identifier_of_two_words");
  CHECK(base != core::siphash13({1, 3}, "identifier_of_two_words"));
  std::string text = "identifier_of_two_words";
  for (char& c : text) {
    ++c;
    CHECK(core::siphash13(key, text) != base);
    --c;
  }
  CHECK(core::siphash13(key, std::string_view("a\0", 2)) != core::siphash13(key, "a"));
}

TEST(name_table_gives_each_text_one_id) {
  core::NameTable table({7, 9});
  std::vector<std::string> texts;
  for (int i = 0; i < 5000; ++i) texts.push_back("name_" + std::to_string(i));
  for (std::size_t i = 0; i < texts.size(); ++i) CHECK_EQ(table.intern(texts[i]), i + 2);
  for (std::size_t i = 0; i < texts.size(); ++i) CHECK_EQ(table.intern(texts[i]), i + 2);
  CHECK_EQ(table.intern("_ENV"), core::NameTable::kEnv);
  CHECK_EQ(table.intern("self"), core::NameTable::kSelf);
}

TEST(source_splits_mark_and_shebang) {
  const core::Source both = core::Source::open("\xEF\xBB\xBF#!lua\nx=1");
  CHECK_EQ(both.shebang, "#!lua");
  CHECK_EQ(both.code, "\nx=1");
  CHECK_EQ(at(both, 1), "2:1");
  CHECK_EQ(core::Source::open("#only").code, "");
  CHECK_EQ(core::Source::open("\xEF\xBB\xBFx").code, "x");
  CHECK_EQ(core::Source::open("\xEF\xBBx").code, "\xEF\xBBx");
}

TEST(source_counts_lines_as_lua_does) {
  const core::Source source = core::Source::open("a\r\nb\n\rc\rd\n\ne");
  CHECK_EQ(at(source, 0), "1:1");
  CHECK_EQ(at(source, 3), "2:1");
  CHECK_EQ(at(source, 6), "3:1");
  CHECK_EQ(at(source, 8), "4:1");
  CHECK_EQ(at(source, 11), "6:1");
  CHECK_EQ(at(source, 99), "6:2");
}

TEST(diagnostic_is_small_printable_json) {
  const core::Failure failure{core::FailureKind::kNotLua, 3, 14, "near '\"\\\x01\xC3\xA9'"};
  CHECK_EQ(core::diagnostic_json(failure),
           "{\"line\":3,\"column\":14,\"message\":\"near '\\\"\\\\??"
           "?'\"}\n");
  const core::Failure longest{core::FailureKind::kLimit, 4294967295U, 4294967295U,
                              test::repeat("\"", 5000)};
  CHECK(core::diagnostic_json(longest).size() <= core::kMaxDiagnosticBytes);
}
