// Waiting gotos live in one vector in order of appearance; a block's are those
// from its mark on. A resolved one is marked done and taken off its chain; done
// entries at the end are dropped at once, the others when their block is left.
// Each entry is visited at most once per enclosing block, of which there are at
// most kMaxLevels.
#include "core/labels.hpp"

#include "core/failure.hpp"
#include "core/lexer.hpp"

namespace core {
namespace {

constexpr std::size_t kMaxLabels = 32767;  // SHRT_MAX, for gotos and for labels each

std::string quoted(LabelId label, const std::vector<NameId>& names, const NameTable& table) {
  return "'" + printable(table.text(names[label]), 40) + "'";
}

}  // namespace

Labels::Labels(const Token* current) : current_(current) {}

LabelId Labels::mention(NameId name) {
  if (by_name_.size() <= name) by_name_.resize(name + 1 + name / 2, kNone);
  LabelId& label = by_name_[name];
  if (label == kNone) {
    label = static_cast<LabelId>(names_.size());
    names_.push_back(name);
    uses_.push_back(0);
    last_waiting_.push_back(kNone);
    declared_.push_back(kNone);
  }
  ++uses_[label];
  return label;
}

void Labels::require_room(std::size_t count) const {
  if (count < kMaxLabels) return;
  throw Refusal{FailureKind::kLimit, current_->begin, "too many labels or gotos (limit 32767)"};
}

std::uint32_t& Labels::last_waiting(LabelId label) {
  return label == kBreak ? last_break_ : last_waiting_[label];
}

void Labels::wait(LabelId label, std::uint32_t offset, std::uint32_t active) {
  require_room(waiting_count_);
  std::uint32_t& last = last_waiting(label);
  waiting_.push_back({label, offset, active, last, false});
  last = static_cast<std::uint32_t>(waiting_.size() - 1);
  ++waiting_count_;
}

void Labels::jump(LabelId label, std::uint32_t offset, std::uint32_t function,
                  std::uint32_t active) {
  const std::uint32_t at = declared_[label];
  if (at != kNone && visible_[at].function == function) return;  // backward: always legal
  wait(label, offset, active);
}

void Labels::jump_out(std::uint32_t offset, std::uint32_t active) {
  wait(kBreak, offset, active);
}

void Labels::declare(LabelId label, std::uint32_t offset, std::uint32_t function,
                     std::uint32_t active, const Mark& block, const NameTable& table) {
  const std::uint32_t hidden = declared_[label];
  if (hidden != kNone && visible_[hidden].function == function) {
    throw Refusal{FailureKind::kNotLua, offset,
                  "label " + quoted(label, names_, table) + " already defined"};
  }
  require_room(visible_.size());
  std::uint32_t& last = last_waiting_[label];
  while (last != kNone && last >= block.first_goto) {
    Waiting& jump = waiting_[last];
    if (jump.active < active) {
      throw Refusal{FailureKind::kNotLua, jump.offset,
                    "goto " + quoted(label, names_, table) + " jumps into the scope of a local"};
    }
    jump.done = true;
    --waiting_count_;
    last = jump.before;
  }
  while (!waiting_.empty() && waiting_.size() > block.first_goto && waiting_.back().done) {
    waiting_.pop_back();
  }
  visible_.push_back({label, function, hidden});
  declared_[label] = static_cast<std::uint32_t>(visible_.size() - 1);
}

void Labels::leave(const Mark& block, bool loop, std::uint32_t active) {
  if (loop) {
    require_room(visible_.size());  // Lua declares a label "break" for a moment
    while (last_break_ != kNone && last_break_ >= block.first_goto) {
      waiting_[last_break_].done = true;
      --waiting_count_;
      last_break_ = waiting_[last_break_].before;
    }
  }
  while (visible_.size() > block.first_label) {
    declared_[visible_.back().label] = visible_.back().before;
    visible_.pop_back();
  }
  while (waiting_.size() > block.first_goto && waiting_.back().done) waiting_.pop_back();
  for (std::size_t i = block.first_goto; i < waiting_.size(); ++i) {
    if (waiting_[i].active > active) waiting_[i].active = active;
  }
}

void Labels::require_resolved(const Mark& body, const NameTable& table) const {
  for (std::size_t i = body.first_goto; i < waiting_.size(); ++i) {
    const Waiting& jump = waiting_[i];
    if (jump.done) continue;
    throw Refusal{FailureKind::kNotLua, jump.offset,
                  jump.label == kBreak
                      ? "break outside a loop"
                      : "no visible label " + quoted(jump.label, names_, table) + " for goto"};
  }
}

}  // namespace core
