// The order of everything here is by count, then by first appearance: no hash
// order and no address ever decides, so equal inputs give equal names.
#include "core/naming.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <span>
#include <utility>

namespace core {
namespace {

constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
constexpr std::string_view kDigits = "0123456789";

// splitmix64 (public domain, S. Vigna): one add and three mixes a number.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15U);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
  }

  template <typename T>
  void shuffle(std::span<T> items) {
    for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[next() % i]);
  }

 private:
  std::uint64_t state_;
};

// Names in order of length: every name of one letter, then of two characters, ...
class NameSequence {
 public:
  explicit NameSequence(const NamingOptions& options)
      : first_(kLetters), later_(std::string(kLetters) + std::string(kDigits)) {
    if (!options.shuffle) return;
    Random random(options.seed);
    random.shuffle(std::span<char>(first_));
    random.shuffle(std::span<char>(later_));
  }

  std::string next() {
    std::string name(1, first_[digits_[0]]);
    for (std::size_t i = 1; i < digits_.size(); ++i) name.push_back(later_[digits_[i]]);
    step();
    return name;
  }

 private:
  void step() {
    for (std::size_t i = digits_.size(); i-- > 0;) {
      const std::size_t base = i == 0 ? first_.size() : later_.size();
      if (++digits_[i] < base) return;
      digits_[i] = 0;
    }
    digits_.push_back(0);
  }

  std::string first_;
  std::string later_;
  std::vector<std::size_t> digits_{0};
};

std::vector<std::uint32_t> by_use(const std::vector<std::uint32_t>& uses) {
  std::vector<std::uint32_t> order(uses.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(),
                   [&uses](std::uint32_t a, std::uint32_t b) { return uses[a] > uses[b]; });
  return order;
}

std::vector<std::string> name_labels(const Program& program, const NamingOptions& options) {
  NameSequence sequence(options);
  std::vector<std::string> labels(program.scopes.label_uses.size());
  for (const std::uint32_t label : by_use(program.scopes.label_uses)) {
    do labels[label] = sequence.next();
    while (is_keyword(labels[label]));
  }
  return labels;
}

// The names no local may get, sorted: free names (short ones are enough: a
// generated name is never longer) and the two with a meaning of their own.
class Reserved {
 public:
  explicit Reserved(const Program& program) {
    constexpr std::size_t kLongestGenerated = 8;
    for (const NameId id : program.scopes.free_names) {
      const std::string_view text = program.names.text(id);
      if (text.size() <= kLongestGenerated) texts_.push_back(text);
    }
    texts_.push_back(program.names.text(NameTable::kSelf));
    texts_.push_back(program.names.text(NameTable::kEnv));
    std::sort(texts_.begin(), texts_.end());
  }

  [[nodiscard]] bool contains(std::string_view name) const {
    return is_keyword(name) || std::binary_search(texts_.begin(), texts_.end(), name);
  }

 private:
  std::vector<std::string_view> texts_;
};

}  // namespace

NamePlan NamePlan::shortest(const Program& program, const NamingOptions& options) {
  const Scopes::Result& scopes = program.scopes;
  const Reserved reserved(program);
  NamePlan plan;
  plan.labels_ = name_labels(program, options);
  plan.texts_.resize(scopes.slot_uses.size());
  NameSequence sequence(options);
  for (const std::uint32_t slot : by_use(scopes.slot_uses)) {
    do plan.texts_[slot] = sequence.next();
    while (reserved.contains(plan.texts_[slot]));
  }
  const auto kept = static_cast<std::uint32_t>(plan.texts_.size());
  plan.texts_.emplace_back(program.names.text(NameTable::kEnv));
  plan.texts_.emplace_back(program.names.text(NameTable::kSelf));
  plan.variables_.reserve(scopes.variables.size());
  for (const Variable& variable : scopes.variables) {
    plan.variables_.push_back(variable.fixed ? kept + variable.name : variable.slot);
  }
  static_assert(NameTable::kEnv == 0 && NameTable::kSelf == 1, "fixed names index `kept` by id");
  return plan;
}

NamePlan NamePlan::permute(const Program& program, const NamingOptions& options) {
  const Scopes::Result& scopes = program.scopes;
  NamePlan plan;
  plan.labels_ = name_labels(program, options);
  const std::size_t count = program.names.size();
  plan.texts_.reserve(count);
  for (NameId id = 0; id < count; ++id) plan.texts_.emplace_back(program.names.text(id));

  // Only names that are never free, nor fixed, take part.
  std::vector<bool> takes_part(count, false);
  for (const Variable& variable : scopes.variables) takes_part[variable.name] = true;
  for (const NameId id : scopes.free_names) takes_part[id] = false;
  takes_part[NameTable::kEnv] = takes_part[NameTable::kSelf] = false;
  std::vector<NameId> names;
  for (NameId id = 0; id < count; ++id) {
    if (takes_part[id]) names.push_back(id);
  }
  std::stable_sort(names.begin(), names.end(), [&program](NameId a, NameId b) {
    return program.names.text(a).size() < program.names.text(b).size();
  });
  Random random(options.seed);
  for (std::size_t begin = 0, end = 0; begin < names.size(); begin = end) {
    const std::size_t length = program.names.text(names[begin]).size();
    while (end < names.size() && program.names.text(names[end]).size() == length) ++end;
    std::vector<NameId> given(names.begin() + static_cast<std::ptrdiff_t>(begin),
                              names.begin() + static_cast<std::ptrdiff_t>(end));
    random.shuffle(std::span<NameId>(given));
    for (std::size_t i = begin; i < end; ++i) {
      plan.texts_[names[i]] = std::string(program.names.text(given[i - begin]));
    }
  }
  plan.variables_.reserve(scopes.variables.size());
  for (const Variable& variable : scopes.variables) plan.variables_.push_back(variable.name);
  return plan;
}

}  // namespace core
