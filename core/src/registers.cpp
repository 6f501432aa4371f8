// Each function mirrors its namesake of lcode.c: to_next is luaK_exp2nextreg,
// to_any luaK_exp2anyreg, infix luaK_infix, binary luaK_posfix, and so on.
#include "core/registers.hpp"

#include "core/lexer.hpp"

namespace core {
namespace {

using State = Operand::State;

constexpr unsigned kMaxRegisters = 255;

bool is_logical(Kind op) {
  return op == Kind::kAnd || op == Kind::kOr;
}

bool is_comparison(Kind op) {
  return op >= Kind::kEq && op <= Kind::kGt;
}

Operand floating() {
  return {State::kFloating, 0, false};
}

}  // namespace

void Registers::reserve(unsigned count) {
  if (free_ + count >= kMaxRegisters) {
    throw Refusal{FailureKind::kLimit, current_->begin,
                  "function or expression needs too many registers (limit 255)"};
  }
  free_ += count;
}

Operand Registers::to_next(Operand value) {
  release(value);
  reserve(1);
  return {State::kTemporary, 1, false};
}

Operand Registers::to_any(Operand value) {
  value = discharge(value);
  if (value.state == State::kLocal && !value.jumps) return value;
  if (value.state == State::kTemporary) return {State::kTemporary, 1, false};
  return to_next(value);
}

Operand Registers::discharge(Operand value) {
  if (value.state != State::kIndexed && value.state != State::kUpvalue) return value;
  release(value);
  return {State::kFloating, 0, value.jumps};
}

Operand Registers::to_table(Operand value) {
  return value.state == State::kUpvalue && !value.jumps ? value : to_any(value);
}

Operand Registers::index(Operand table, Operand key) {
  std::uint8_t held = table.held;
  if (!key.is_constant()) held = static_cast<std::uint8_t>(held + to_any(key).held);
  return {State::kIndexed, held, false};
}

Operand Registers::call_result(unsigned base) {
  free_ = base + 1;
  return {State::kTemporary, 1, false};
}

Operand Registers::unary(Kind op, Operand value) {
  value = discharge(value);
  const bool folds = op == Kind::kNot
                         ? value.is_constant()
                         : op != Kind::kLen && !value.jumps && value.state == State::kNumeral;
  if (folds) return {op == Kind::kNot ? State::kConstant : State::kNumeral, 0, false};
  release(to_any(value));
  return floating();
}

Operand Registers::infix(Kind op, Operand left) {
  left = discharge(left);
  if (is_logical(op)) {
    if (left.is_constant()) return left;
    release(to_any(left));
    return floating();
  }
  if (op == Kind::kConcat) return to_next(left);
  if (!left.jumps && left.state == State::kNumeral) return left;
  if ((op == Kind::kEq || op == Kind::kNe) && left.is_constant()) return left;
  return to_any(left);
}

Operand Registers::binary(Kind op, Operand left, Operand right) {
  right = discharge(right);
  if (is_logical(op)) {
    right.jumps = true;
    return right;
  }
  if (op == Kind::kConcat) {
    release(to_next(right));
    return left;
  }
  const bool left_number = left.state == State::kNumeral;
  const bool right_number = !right.jumps && right.state == State::kNumeral;
  if (!is_comparison(op) && left_number && right_number) return {State::kNumeral, 0, false};
  const bool equality = op == Kind::kEq || op == Kind::kNe;
  const bool immediate = right_number || (equality && right.is_constant());
  if (!immediate) right = to_any(right);
  if (left_number && immediate) left = to_any(left);
  release(right);
  release(left);
  return floating();
}

}  // namespace core
