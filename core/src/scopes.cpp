// The limits are those of lparser.c, with its names: MAXVARS 200, MAXUPVAL 255,
// SHRT_MAX debug variables, MAXARG_Bx functions. Functions are kept by depth and
// their storage reused, because hostile text may open a million of them.
#include "core/scopes.hpp"

#include <algorithm>
#include <string>

#include "core/lexer.hpp"

namespace core {
namespace {

constexpr std::size_t kMaxLocals = 200;
constexpr std::size_t kMaxUpvalues = 255;
constexpr std::uint32_t kMaxDebugVariables = 32767;
constexpr std::uint32_t kMaxClosures = 131071;

}  // namespace

Scopes::Scopes(const NameTable& names, const Token* current)
    : current_(current), names_(names), labels_(current), variables_(2) {
  functions_.emplace_back(current);  // depth 0 owns the chunk's _ENV
  variables_[kChunkEnv].name = NameTable::kEnv;
  variables_[kChunkEnv].fixed = true;
}

void Scopes::refuse(std::string_view what) const {
  throw Refusal{FailureKind::kLimit, current_->begin, "too many " + std::string(what)};
}

void Scopes::open_function() {
  ++depth_;
  if (functions_.size() <= depth_) functions_.emplace_back(current_);
  Function& f = function();
  f.first = active_.size();
  f.active = f.register_variables = f.debug_variables = f.closures = 0;
  f.upvalues.clear();
  if (depth_ == 1) f.upvalues.push_back(kChunkEnv);
  f.registers.reset(0);
  open_block(false);
}

void Scopes::close_function() {
  labels_.require_resolved(function().blocks.back().labels, names_);
  close_block();
  --depth_;
}

void Scopes::open_block(bool loop) {
  function().blocks.push_back({function().active, loop, labels_.mark()});
}

void Scopes::close_block() {
  Function& f = function();
  const Block block = f.blocks.back();
  f.blocks.pop_back();
  labels_.leave(block.labels, block.loop, block.active);
  while (f.active > block.active) {
    hide(active_.back());
    active_.pop_back();
    --f.active;
  }
  settle();
}

VariableId Scopes::add(NameId name, bool fixed) {
  if (active_.size() + 1 - function().first > kMaxLocals) {
    refuse("local variables in one function (limit 200)");
  }
  const auto id = static_cast<VariableId>(variables_.size());
  variables_.push_back({name, 0, static_cast<std::uint8_t>(depth_), fixed, false, false, false});
  active_.push_back({id, 0, false});
  return id;
}

VariableId Scopes::declare(NameId name) {
  return add(name, name == NameTable::kEnv);
}

VariableId Scopes::declare_self() {
  return add(NameTable::kSelf, true);
}

void Scopes::declare_hidden(unsigned count) {
  for (unsigned i = 0; i < count; ++i) {
    if (active_.size() + 1 - function().first > kMaxLocals) {
      refuse("local variables in one function (limit 200)");
    }
    active_.push_back({0, 0, false});
  }
}

VariableId& Scopes::binding(NameId name) {
  if (bindings_.size() <= name) bindings_.resize(name + 1 + name / 2, 0);
  return bindings_[name];
}

void Scopes::show(Active& entry) {
  Variable& variable = variables_[entry.variable];
  VariableId& innermost = binding(variable.name);
  entry.shadowed = innermost;
  innermost = entry.variable;
  if (variable.fixed) return;
  if (entry.shadowed != 0 && !variables_[entry.shadowed].fixed) {
    variable.slot = variables_[entry.shadowed].slot;
  } else {
    variable.slot = next_slot_++;
    entry.owns_slot = true;
  }
  if (slot_uses_.size() <= variable.slot) slot_uses_.resize(variable.slot + 1, 0);
  ++slot_uses_[variable.slot];
}

void Scopes::hide(const Active& entry) {
  Function& f = function();
  if (entry.variable == 0) {
    --f.register_variables;
    return;
  }
  const Variable& variable = variables_[entry.variable];
  if (!variable.compile_time) --f.register_variables;
  bindings_[variable.name] = entry.shadowed;
  if (entry.owns_slot) --next_slot_;
}

void Scopes::activate(unsigned count) {
  Function& f = function();
  for (unsigned i = 0; i < count; ++i) {
    Active& entry = active_[f.first + f.active];
    const bool in_register = entry.variable == 0 || !variables_[entry.variable].compile_time;
    if (in_register) {
      if (f.debug_variables == kMaxDebugVariables) {
        refuse("local variables in one function over its whole length (limit 32767)");
      }
      ++f.debug_variables;
      ++f.register_variables;
    }
    if (entry.variable != 0) show(entry);
    ++f.active;
  }
  f.registers.set_locals(f.register_variables);
}

void Scopes::capture(VariableId id) {
  const Variable& variable = variables_[id];
  if (variable.compile_time) return;
  for (std::size_t depth = depth_; depth > variable.function; --depth) {
    std::vector<VariableId>& upvalues = functions_[depth].upvalues;
    if (std::find(upvalues.begin(), upvalues.end(), id) != upvalues.end()) return;
    if (upvalues.size() == kMaxUpvalues) refuse("upvalues in one function (limit 255)");
    upvalues.push_back(id);
  }
}

VariableId Scopes::resolve(NameId name) {
  const VariableId id = binding(name);
  if (id != 0) {
    if (!variables_[id].fixed) ++slot_uses_[variables_[id].slot];
    capture(id);
    return id;
  }
  const VariableId env = binding(NameTable::kEnv);
  capture(env != 0 ? env : kChunkEnv);
  if (is_free_.size() <= name) is_free_.resize(name + 1 + name / 2, false);
  if (!is_free_[name]) {
    is_free_[name] = true;
    free_names_.push_back(name);
  }
  return 0;
}

Operand::State Scopes::state_of(VariableId id) const {
  const Variable& variable = variables_[id];
  if (variable.compile_time) {
    return variable.numeral ? Operand::State::kNumeral : Operand::State::kConstant;
  }
  return variable.function == depth_ ? Operand::State::kLocal : Operand::State::kUpvalue;
}

void Scopes::jump(LabelId label, std::uint32_t offset) {
  labels_.jump(label, offset, static_cast<std::uint32_t>(depth_), function().active);
}

void Scopes::jump_out(std::uint32_t offset) {
  labels_.jump_out(offset, function().active);
}

void Scopes::declare_label(LabelId label, std::uint32_t offset, bool last) {
  const Function& f = function();
  const Block& block = f.blocks.back();
  labels_.declare(label, offset, static_cast<std::uint32_t>(depth_), last ? block.active : f.active,
                  block.labels, names_);
}

void Scopes::count_closure() {
  if (function().closures == kMaxClosures) refuse("functions in one function (limit 131071)");
  ++function().closures;
}

Scopes::Result Scopes::finish() {
  return {std::move(variables_), std::move(slot_uses_), std::move(free_names_), labels_.names(),
          labels_.uses()};
}

}  // namespace core
