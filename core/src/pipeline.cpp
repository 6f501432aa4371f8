// Memory: the first tree is gone before the check builds the second, so the peak
// is one tree, the input and the output.
#include "core/pipeline.hpp"

#include <vector>

#include "core/naming.hpp"
#include "core/parser.hpp"
#include "core/printer.hpp"
#include "core/sha256.hpp"
#include "core/source.hpp"

namespace core {
namespace {

std::uint64_t word(const Digest& digest, std::size_t index) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < 8; ++i) value = value << 8 | digest[8 * index + i];
  return value;
}

// What must survive: kept apart from the tree, which is freed before the check.
struct Essence {
  Fingerprint fingerprint;
  std::vector<std::string_view> free_names;  // in order of appearance

  bool operator==(const Essence&) const = default;
};

Essence essence_of(const Program& program) {
  Essence essence{program.fingerprint, {}};
  essence.free_names.reserve(program.scopes.free_names.size());
  for (const NameId id : program.scopes.free_names) {
    essence.free_names.push_back(program.names.text(id));
  }
  return essence;
}

Outcome refuse(const Source& source, const Program& program) {
  Outcome outcome{Status::kRefused, {}, program.failure};
  const Position at = source.locate(program.failure_offset);
  outcome.failure.line = at.line;
  outcome.failure.column = at.column;
  return outcome;
}

bool survives(const Essence& original, std::string_view text, HashKey key) {
  const Program program = parse(Source::open(text).code, key);
  return program.failure.kind == FailureKind::kNone && essence_of(program) == original;
}

}  // namespace

Outcome obfuscate(std::string_view input, const Options& options) {
  if (input.size() > options.max_input) {
    return {Status::kRefused,
            {},
            {FailureKind::kLimit, 1, 1,
             "input is larger than " + std::to_string(options.max_input) + " bytes"}};
  }
  const Digest digest = sha256(input);
  const HashKey key{word(digest, 0), word(digest, 1)};
  const NamingOptions naming{options.seed.value_or(word(digest, 2)), !options.plain_names};
  const Source source = Source::open(input);

  Outcome outcome;
  Essence essence;
  {
    const Program program = parse(source.code, key, options.keep_lines);
    if (program.failure.kind != FailureKind::kNone) return refuse(source, program);
    essence = essence_of(program);
    const PrintOptions printing{options.keep_lines};
    outcome.text = print(program, source, NamePlan::shortest(program, naming), printing);
    if (outcome.text.size() > input.size() + 1) {
      outcome.text = print(program, source, NamePlan::permute(program, naming), printing);
    }
  }
  if (options.test_only_damage != nullptr) options.test_only_damage(outcome.text);
  if (outcome.text.size() > input.size() + 1 || !survives(essence, outcome.text, key)) {
    return {Status::kBroken, {}, {}};
  }
  outcome.status = Status::kOk;
  return outcome;
}

}  // namespace core
