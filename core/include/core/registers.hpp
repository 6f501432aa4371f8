// Registers: how many registers Lua's code generator would need at each point.
//
// Lua 5.4 refuses a function whose expressions need more than 255 registers
// (for example a call with 254 arguments). No code is generated here, but the
// count is kept by the same rules as lcode.c, so that this core refuses what
// luac refuses: what an operand holds, and when it is freed. The one thing not
// modelled is the value of folded constants: `1//0` is taken as folded, which can
// only err towards accepting.
#pragma once

#include <cstdint>

#include "core/token.hpp"

namespace core {

// What an expression occupies while it waits to be used.
struct Operand {
  enum class State : std::uint8_t {
    kNumeral,    // a number, literal or folded
    kConstant,   // nil, true, false or a string
    kLocal,      // a local variable's own register
    kUpvalue,    // a local variable of an enclosing function
    kFloating,   // a pending instruction, a jump or "...": nothing held yet
    kIndexed,    // t[k]: holds what t and k hold
    kTemporary,  // in a register on top of the stack
  };
  State state = State::kFloating;
  std::uint8_t held = 0;  // temporaries on top of the stack, 0 to 2
  bool jumps = false;     // the value of an `and` or `or`

  [[nodiscard]] bool is_constant() const {
    return !jumps && (state == State::kNumeral || state == State::kConstant);
  }
};

class Registers {
 public:
  // `current` is the token a refusal is reported at.
  explicit Registers(const Token* current) : current_(current) {}

  void reset(unsigned locals) { free_ = locals_ = locals; }
  void set_locals(unsigned locals) { locals_ = locals; }
  [[nodiscard]] unsigned mark() const { return free_; }
  void release_to(unsigned mark) { free_ = mark; }

  // Throws Refusal(kLimit) when the function would need more than Lua allows.
  void reserve(unsigned count);

  Operand to_next(Operand value);    // into a new register
  Operand to_any(Operand value);     // into some register
  Operand discharge(Operand value);  // reads a variable, may still float
  void release(Operand value) { free_ -= value.held; }
  Operand to_table(Operand value);  // where an index operation wants its table
  Operand index(Operand table, Operand key);
  Operand call_result(unsigned base);  // frees the arguments, keeps one result at `base`
  Operand unary(Kind op, Operand value);
  Operand infix(Kind op, Operand left);                  // before the right side is read
  Operand binary(Kind op, Operand left, Operand right);  // after it

 private:
  const Token* current_;
  unsigned free_ = 0;    // first free register
  unsigned locals_ = 0;  // registers of active local variables
};

}  // namespace core
