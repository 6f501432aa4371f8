// Expressions. A chain of binary operators is read by one loop per priority
// level into one flat node; suffixes (.name [k] :m() ()) into another.
#include <array>

#include "parser_impl.hpp"

namespace core {
namespace {

using State = Operand::State;

struct Priority {
  unsigned left = 0;  // 0 = not a binary operator
  unsigned right = 0;
};

// As the table `priority` of lparser.c; right below left means right associative.
Priority binary_priority(Kind kind) {
  switch (kind) {
    case Kind::kOr:
      return {1, 1};
    case Kind::kAnd:
      return {2, 2};
    case Kind::kEq:
    case Kind::kNe:
    case Kind::kLt:
    case Kind::kLe:
    case Kind::kGt:
    case Kind::kGe:
      return {3, 3};
    case Kind::kBitOr:
      return {4, 4};
    case Kind::kTilde:
      return {5, 5};
    case Kind::kBitAnd:
      return {6, 6};
    case Kind::kShl:
    case Kind::kShr:
      return {7, 7};
    case Kind::kConcat:
      return {9, 8};
    case Kind::kAdd:
    case Kind::kSub:
      return {10, 10};
    case Kind::kMul:
    case Kind::kDiv:
    case Kind::kFloorDiv:
    case Kind::kMod:
      return {11, 11};
    case Kind::kPow:
      return {14, 13};
    default:
      return {};
  }
}

constexpr unsigned kUnaryPriority = 12;
constexpr unsigned kFieldsPerFlush = 50;  // list items Lua gathers before it stores them

bool is_unary(Kind kind) {
  return kind == Kind::kNot || kind == Kind::kSub || kind == Kind::kTilde || kind == Kind::kLen;
}

}  // namespace

Expression Parser::sub_expression(unsigned limit) {
  const Level level(*this);
  Expression value;
  if (is_unary(token_.kind)) {
    const Kind op = token_.kind;
    advance();
    const Expression operand = sub_expression(kUnaryPriority);
    value.node = add({.kind = NodeKind::kUnary, .op = op, .a = operand.node});
    value.operand = scopes_.registers().unary(op, operand.operand);
  } else {
    value = simple_expression();
  }
  NodeList chain(program_.tree);
  Operand operand = value.operand;
  for (;;) {
    const Kind op = token_.kind;
    const Priority priority = binary_priority(op);
    if (priority.left <= limit) break;
    if (chain.empty()) chain.append(value.node);
    const Operand left = scopes_.registers().infix(op, operand);
    advance();
    const Expression right = sub_expression(priority.right);
    operand = scopes_.registers().binary(op, left, right.operand);
    program_.tree[right.node].lead = op;
    chain.append(right.node);
  }
  if (chain.empty()) return value;
  Expression whole;
  whole.node = add({.kind = NodeKind::kChain, .a = chain.first()});
  whole.operand = operand;
  return whole;
}

Expression Parser::simple_expression() {
  Expression value;
  const Token token = token_;
  switch (token.kind) {
    case Kind::kNumber:
      value.operand.state = State::kNumeral;
      value.node = add({.kind = NodeKind::kNumber, .a = token.begin, .b = token.end - token.begin});
      break;
    case Kind::kString:
      value.operand.state = State::kConstant;
      value.node = add({.kind = NodeKind::kString, .a = token.begin, .b = token.end - token.begin});
      break;
    case Kind::kNil:
    case Kind::kTrue:
    case Kind::kFalse:
      value.operand.state = State::kConstant;
      value.node = add({.kind = NodeKind::kConstant, .op = token.kind});
      break;
    case Kind::kDots:
      if (!in_vararg_) refuse_near("cannot use '...' outside a vararg function");
      value.node = add({.kind = NodeKind::kConstant, .op = token.kind});
      break;
    case Kind::kLeftBrace:
      return table_constructor();
    case Kind::kFunction:
      advance();
      return function_body(false, token.begin);
    default:
      return suffixed_expression();
  }
  advance();
  return value;
}

Expression Parser::primary_expression() {
  if (token_.kind == Kind::kName) return variable_reference();
  if (token_.kind != Kind::kLeftParen) refuse_near("unexpected symbol");
  const std::uint32_t opener = token_.begin;
  advance();
  const Expression inner = expression();
  expect_closer(Kind::kRightParen, Kind::kLeftParen, opener);
  Expression value;
  value.offset = opener;
  value.node = add({.kind = NodeKind::kParen, .a = inner.node});
  value.operand = scopes_.registers().discharge(inner.operand);
  return value;
}

Expression Parser::suffixed_expression() {
  Expression value = primary_expression();
  const NodeId primary = value.node;
  NodeList suffixes(program_.tree);
  while (suffix(suffixes, value)) value.variable = 0;
  if (!suffixes.empty()) {
    value.node = add({.kind = NodeKind::kSuffixed, .a = primary, .b = suffixes.first()});
  }
  return value;
}

bool Parser::suffix(NodeList& suffixes, Expression& value) {
  Registers& registers = scopes_.registers();
  switch (token_.kind) {
    case Kind::kDot: {
      value.operand = registers.to_table(value.operand);
      advance();
      suffixes.append(add({.kind = NodeKind::kField, .a = field_name()}));
      value.operand = registers.index(value.operand, Operand{State::kConstant, 0, false});
      value.assignable = true;
      value.is_call = false;
      return true;
    }
    case Kind::kLeftBracket: {
      value.operand = registers.to_table(value.operand);
      const Expression key = index_key();
      suffixes.append(add({.kind = NodeKind::kIndex, .a = key.node}));
      value.operand = registers.index(value.operand, key.operand);
      value.assignable = true;
      value.is_call = false;
      return true;
    }
    case Kind::kColon: {
      advance();
      suffixes.append(add({.kind = NodeKind::kMethod, .a = field_name()}));
      registers.release(registers.to_any(value.operand));
      const unsigned base = registers.mark();
      registers.reserve(2);  // the function and the object
      suffixes.append(call_arguments());
      value.operand = registers.call_result(base);
      break;
    }
    case Kind::kLeftParen:
    case Kind::kString:
    case Kind::kLeftBrace: {
      registers.to_next(value.operand);
      const unsigned base = registers.mark() - 1;
      suffixes.append(call_arguments());
      value.operand = registers.call_result(base);
      break;
    }
    default:
      return false;
  }
  value.assignable = false;
  value.is_call = true;
  return true;
}

Expression Parser::index_key() {
  advance();  // '['
  Expression key = expression();
  key.operand = scopes_.registers().discharge(key.operand);
  expect(Kind::kRightBracket);
  return key;
}

NodeId Parser::call_arguments() {
  Registers& registers = scopes_.registers();
  Node call{.kind = NodeKind::kCall};
  if (token_.kind == Kind::kString || token_.kind == Kind::kLeftBrace) {
    call.flags = kBareArgument;
    const Expression argument = simple_expression();
    registers.to_next(argument.operand);
    call.a = argument.node;
    return add(call);
  }
  const std::uint32_t opener = token_.begin;
  if (token_.kind != Kind::kLeftParen) refuse_near("function arguments expected");
  advance();
  if (token_.kind != Kind::kRightParen) {
    const ExpressionList arguments = expression_list();
    registers.to_next(arguments.last.operand);
    call.a = arguments.first;
  }
  expect_closer(Kind::kRightParen, Kind::kLeftParen, opener);
  return add(call);
}

Parser::ExpressionList Parser::expression_list() {
  ExpressionList list;
  NodeList nodes(program_.tree);
  for (;;) {
    list.last = expression();
    nodes.append(list.last.node);
    ++list.count;
    if (token_.kind != Kind::kComma) break;
    scopes_.registers().to_next(list.last.operand);
    advance();
  }
  list.first = nodes.first();
  return list;
}

Expression Parser::table_constructor() {
  Registers& registers = scopes_.registers();
  const std::uint32_t opener = token_.begin;
  const unsigned base = registers.mark();
  registers.reserve(1);
  advance();
  NodeList items(program_.tree);
  unsigned gathered = 0;
  while (token_.kind != Kind::kRightBrace) {
    if (gathered == kFieldsPerFlush) {
      registers.release_to(base + 1);
      gathered = 0;
    }
    items.append(table_item(gathered));
    if (token_.kind != Kind::kComma && token_.kind != Kind::kSemicolon) break;
    // A separator is printed only between two items: look behind it first.
    const std::uint32_t separator = token_.begin;
    drop();
    if (token_.kind == Kind::kRightBrace) break;
    if (log_tokens_) program_.token_offsets.push_back(separator);
    program_.fingerprint.add(static_cast<std::uint64_t>(Kind::kComma));
  }
  expect_closer(Kind::kRightBrace, Kind::kLeftBrace, opener);
  Expression table;
  table.node = add({.kind = NodeKind::kTable, .a = items.first()});
  registers.release_to(base);
  table.operand = registers.to_next(Operand{});
  return table;
}

NodeId Parser::table_item(unsigned& gathered) {
  Registers& registers = scopes_.registers();
  const bool named = token_.kind == Kind::kName && look_ahead() == Kind::kAssign;
  if (!named && token_.kind != Kind::kLeftBracket) {
    const Expression value = expression();
    registers.to_next(value.operand);
    ++gathered;
    return value.node;
  }
  const unsigned mark = registers.mark();
  Node item{.kind = named ? NodeKind::kNamedItem : NodeKind::kKeyedItem};
  if (named) {
    item.a = field_name();
  } else {
    const Expression key = index_key();
    if (!key.operand.is_constant()) registers.to_any(key.operand);
    item.a = key.node;
  }
  expect(Kind::kAssign);
  const Expression value = expression();
  if (!value.operand.is_constant()) registers.to_any(value.operand);
  item.b = value.node;
  registers.release_to(mark);
  return add(item);
}

Expression Parser::function_body(bool method, std::uint32_t opener) {
  scopes_.count_closure();
  scopes_.open_function();
  const bool outer_vararg = in_vararg_;
  expect(Kind::kLeftParen);
  unsigned count = 0;
  if (method) {
    scopes_.declare_self();
    ++count;
  }
  NodeList list(program_.tree);
  in_vararg_ = parameters(list, count);
  scopes_.activate(count);
  scopes_.settle();
  expect(Kind::kRightParen);
  const NodeId body = statement_list();
  expect_closer(Kind::kEnd, Kind::kFunction, opener);
  scopes_.close_function();
  Expression value;
  value.node = add({.kind = NodeKind::kFunction,
                    .flags = static_cast<std::uint8_t>(in_vararg_ ? kVararg : 0),
                    .a = list.first(),
                    .b = body});
  in_vararg_ = outer_vararg;
  value.operand = scopes_.registers().to_next(Operand{});
  return value;
}

bool Parser::parameters(NodeList& list, unsigned& count) {
  if (token_.kind == Kind::kRightParen) return false;
  do {
    if (accept(Kind::kDots)) return true;
    if (token_.kind != Kind::kName) refuse_near("<name> or '...' expected");
    list.append(declare_local());
    ++count;
  } while (accept(Kind::kComma));
  return false;
}

}  // namespace core
