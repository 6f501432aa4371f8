// Statements, in the shape and order of lparser.c. A statement appends what it
// parsed to the list of its block; consecutive labels are read recursively, as
// there, because Lua counts them as nesting.
#include "parser_impl.hpp"

namespace core {
namespace {

// Tags that keep the kinds of names apart in the fingerprint.
enum NameTag : std::uint64_t { kTagLocal = 101, kTagGlobal, kTagField, kTagDeclared, kTagLabel };

}  // namespace

NameId Parser::field_name() {
  const NameId name = take_name();
  program_.fingerprint.add(kTagField);
  program_.fingerprint.add(program_.names.text(name));
  return name;
}

Expression Parser::variable_reference() {
  Expression value;
  value.offset = token_.begin;
  value.assignable = true;
  const NameId name = take_name();
  const VariableId id = scopes_.resolve(name);
  if (id == 0) {
    program_.fingerprint.add(kTagGlobal);
    program_.fingerprint.add(program_.names.text(name));
    value.node = add({.kind = NodeKind::kGlobal, .a = name});
    value.operand.state = Operand::State::kIndexed;
    return value;
  }
  program_.fingerprint.add(kTagLocal);
  program_.fingerprint.add(id);
  value.node = add({.kind = NodeKind::kLocal, .a = id});
  value.variable = id;
  value.operand.state = scopes_.state_of(id);
  return value;
}

NodeId Parser::declare_local() {
  const VariableId id = scopes_.declare(take_name());
  program_.fingerprint.add(kTagDeclared);
  program_.fingerprint.add(id);
  return add({.kind = NodeKind::kDeclared, .a = id});
}

NodeId Parser::block() {
  scopes_.open_block(false);
  const NodeId first = statement_list();
  scopes_.close_block();
  return first;
}

NodeId Parser::statement_list() {
  NodeList list(program_.tree);
  statements(list);
  return list.first();
}

void Parser::statements(NodeList& list) {
  while (!block_ends(true)) {
    const bool last = token_.kind == Kind::kReturn;
    statement(list);
    if (last) return;
  }
}

void Parser::statement(NodeList& list) {
  const Level level(*this);
  switch (token_.kind) {
    case Kind::kSemicolon:
      drop();
      break;
    case Kind::kIf:
      list.append(if_statement());
      break;
    case Kind::kWhile:
      list.append(while_statement());
      break;
    case Kind::kDo:
      list.append(do_statement());
      break;
    case Kind::kFor:
      list.append(for_statement());
      break;
    case Kind::kRepeat:
      list.append(repeat_statement());
      break;
    case Kind::kFunction:
      list.append(function_statement());
      break;
    case Kind::kLocal:
      advance();
      list.append(token_.kind == Kind::kFunction ? local_function() : local_statement());
      break;
    case Kind::kDoubleColon:
      label_statement(list);
      break;
    case Kind::kReturn:
      list.append(return_statement());
      break;
    case Kind::kBreak:
      list.append(break_statement());
      break;
    case Kind::kGoto:
      list.append(goto_statement());
      break;
    default:
      list.append(expression_statement());
      break;
  }
  scopes_.settle();
}

NodeId Parser::if_statement() {
  const std::uint32_t opener = token_.begin;
  NodeList arms(program_.tree);
  do {
    advance();  // `if` or `elseif`
    const NodeId condition = condition_expression();
    expect(Kind::kThen);
    arms.append(add({.kind = NodeKind::kArm, .a = condition, .b = arm_block()}));
  } while (token_.kind == Kind::kElseif);
  if (accept(Kind::kElse)) arms.append(add({.kind = NodeKind::kArm, .a = 0, .b = block()}));
  expect_closer(Kind::kEnd, Kind::kIf, opener);
  return add({.kind = NodeKind::kIf, .a = arms.first()});
}

// Lua compiles `then break` specially, but not `then ; break`: the same meaning in
// other instructions. One such ';' is kept, so that layer 0 stays provable by bytecode.
NodeId Parser::arm_block() {
  scopes_.open_block(false);
  NodeList list(program_.tree);
  if (token_.kind == Kind::kSemicolon) {
    const std::uint32_t offset = token_.begin;
    while (token_.kind == Kind::kSemicolon) drop();
    if (token_.kind == Kind::kBreak) {
      if (log_tokens_) program_.token_offsets.push_back(offset);
      program_.fingerprint.add(static_cast<std::uint64_t>(Kind::kSemicolon));
      list.append(add({.kind = NodeKind::kEmpty}));
    }
  }
  statements(list);
  scopes_.close_block();
  return list.first();
}

NodeId Parser::condition_expression() {
  const Expression condition = expression();
  scopes_.settle();
  return condition.node;
}

NodeId Parser::while_statement() {
  const std::uint32_t opener = token_.begin;
  advance();
  const NodeId condition = condition_expression();
  scopes_.open_block(true);
  expect(Kind::kDo);
  const NodeId body = block();
  expect_closer(Kind::kEnd, Kind::kWhile, opener);
  scopes_.close_block();
  return add({.kind = NodeKind::kWhile, .a = condition, .b = body});
}

NodeId Parser::do_statement() {
  const std::uint32_t opener = token_.begin;
  advance();
  const NodeId body = block();
  expect_closer(Kind::kEnd, Kind::kDo, opener);
  return add({.kind = NodeKind::kDo, .a = body});
}

NodeId Parser::for_statement() {
  const std::uint32_t opener = token_.begin;
  advance();
  scopes_.open_block(true);
  // The loop's hidden state is declared before its variables, as many as the
  // form needs; the form shows after the first name.
  if (token_.kind != Kind::kName) refuse_expected(Kind::kName);
  NodeId node = 0;
  const Kind form = look_ahead();
  if (form == Kind::kAssign) {
    node = for_numeric();
  } else if (form == Kind::kComma || form == Kind::kIn) {
    node = for_generic();
  } else {
    drop();
    refuse_near("'=' or 'in' expected");
  }
  expect_closer(Kind::kEnd, Kind::kFor, opener);
  scopes_.close_block();
  return node;
}

NodeId Parser::for_numeric() {
  constexpr unsigned kHidden = 3;
  scopes_.declare_hidden(kHidden);
  const NodeId variable = declare_local();
  expect(Kind::kAssign);
  NodeList bounds(program_.tree);
  for (int i = 0; i < 3; ++i) {
    const Expression bound = expression();
    scopes_.registers().to_next(bound.operand);
    bounds.append(bound.node);
    if (i == 0) expect(Kind::kComma);
    if (i == 1 && !accept(Kind::kComma)) break;
  }
  program_.tree[variable].b = bounds.first();
  const NodeId body = for_body(kHidden, 1);
  return add({.kind = NodeKind::kForNumeric, .a = variable, .b = body});
}

NodeId Parser::for_generic() {
  constexpr unsigned kHidden = 4;
  scopes_.declare_hidden(kHidden);
  NodeList variables(program_.tree);
  unsigned count = 0;
  do {
    variables.append(declare_local());
    ++count;
  } while (accept(Kind::kComma));
  expect(Kind::kIn);
  const ExpressionList values = expression_list();
  scopes_.registers().to_next(values.last.operand);
  program_.tree[variables.first()].b = values.first;
  const NodeId body = for_body(kHidden, count);
  return add({.kind = NodeKind::kForGeneric, .a = variables.first(), .b = body});
}

NodeId Parser::for_body(unsigned hidden, unsigned named) {
  scopes_.activate(hidden);
  scopes_.settle();
  expect(Kind::kDo);
  scopes_.open_block(false);
  scopes_.activate(named);
  scopes_.settle();
  const NodeId body = block();
  scopes_.close_block();
  return body;
}

NodeId Parser::repeat_statement() {
  const std::uint32_t opener = token_.begin;
  scopes_.open_block(true);
  scopes_.open_block(false);  // `until` sees the body's locals
  advance();
  const NodeId body = statement_list();
  expect_closer(Kind::kUntil, Kind::kRepeat, opener);
  const NodeId condition = condition_expression();
  scopes_.close_block();
  scopes_.close_block();
  return add({.kind = NodeKind::kRepeat, .a = body, .b = condition});
}

NodeId Parser::function_statement() {
  const std::uint32_t opener = token_.begin;
  advance();
  Expression name = variable_reference();
  NodeList suffixes(program_.tree);
  bool method = false;
  while (!method && (token_.kind == Kind::kDot || token_.kind == Kind::kColon)) {
    method = token_.kind == Kind::kColon;
    advance();
    const NodeKind kind = method ? NodeKind::kMethod : NodeKind::kField;
    suffixes.append(add({.kind = kind, .a = field_name()}));
    name.variable = 0;
  }
  if (!suffixes.empty()) {
    name.node = add({.kind = NodeKind::kSuffixed, .a = name.node, .b = suffixes.first()});
  }
  const Expression body = function_body(method, opener);
  require_writable(name);
  return add({.kind = NodeKind::kFunctionStat, .a = name.node, .b = body.node});
}

NodeId Parser::local_function() {
  const std::uint32_t opener = token_.begin;
  advance();
  const NodeId name = declare_local();
  scopes_.activate(1);
  const Expression body = function_body(false, opener);
  return add({.kind = NodeKind::kLocalFunction, .a = name, .b = body.node});
}

std::uint8_t Parser::attribute() {
  if (!accept(Kind::kLt)) return 0;
  const std::uint32_t offset = token_.begin;
  const std::string_view word = program_.names.text(field_name());
  expect(Kind::kGt);
  if (word == "const") return kConst;
  if (word == "close") return kClose;
  refuse_at(offset, "unknown attribute '" + printable(word, 40) + "'");
}

NodeId Parser::local_statement() {
  NodeList names(program_.tree);
  unsigned count = 0;
  bool closes = false;
  std::uint8_t flags = 0;
  VariableId last = 0;
  do {
    const NodeId node = declare_local();
    last = program_.tree[node].a;
    const std::uint32_t offset = token_.begin;
    flags = attribute();
    program_.tree[node].flags = flags;
    scopes_.variable(last).read_only = flags != 0;
    if (flags == kClose) {
      if (closes) refuse_at(offset, "multiple to-be-closed variables in local list");
      closes = true;
    }
    names.append(node);
    ++count;
  } while (accept(Kind::kComma));
  ExpressionList values;
  if (accept(Kind::kAssign)) {
    values = expression_list();
    const Operand& value = values.last.operand;
    if (values.count == count && flags == kConst && value.is_constant()) {
      scopes_.variable(last).compile_time = true;
      scopes_.variable(last).numeral = value.state == Operand::State::kNumeral;
    } else {
      scopes_.registers().to_next(value);
    }
  }
  scopes_.activate(count);
  return add({.kind = NodeKind::kLocalVars, .a = names.first(), .b = values.first});
}

LabelId Parser::label_name() {
  const LabelId label = scopes_.labels().mention(take_name());
  program_.fingerprint.add(kTagLabel);
  program_.fingerprint.add(label);
  return label;
}

void Parser::label_statement(NodeList& list) {
  const std::uint32_t offset = token_.begin;
  advance();
  const LabelId label = label_name();
  expect(Kind::kDoubleColon);
  list.append(add({.kind = NodeKind::kLabel, .a = label}));
  while (token_.kind == Kind::kSemicolon || token_.kind == Kind::kDoubleColon) statement(list);
  scopes_.declare_label(label, offset, block_ends(false));
}

NodeId Parser::return_statement() {
  advance();
  ExpressionList values;
  if (!block_ends(true) && token_.kind != Kind::kSemicolon) {
    values = expression_list();
    Registers& registers = scopes_.registers();
    if (values.count == 1) {
      registers.to_any(values.last.operand);
    } else {
      registers.to_next(values.last.operand);
    }
  }
  if (token_.kind == Kind::kSemicolon) drop();
  return add({.kind = NodeKind::kReturn, .a = values.first});
}

NodeId Parser::goto_statement() {
  const std::uint32_t offset = token_.begin;
  advance();
  const LabelId label = label_name();
  scopes_.jump(label, offset);
  return add({.kind = NodeKind::kGoto, .a = label});
}

NodeId Parser::break_statement() {
  scopes_.jump_out(token_.begin);
  advance();
  return add({.kind = NodeKind::kBreak});
}

void Parser::require_writable(const Expression& target) const {
  if (target.variable == 0 || !scopes_.variable(target.variable).read_only) return;
  const NameId name = scopes_.variable(target.variable).name;
  refuse_at(target.offset, "attempt to assign to const variable '" +
                               printable(program_.names.text(name), 40) + "'");
}

NodeId Parser::expression_statement() {
  const Expression first = suffixed_expression();
  if (token_.kind != Kind::kAssign && token_.kind != Kind::kComma) {
    if (!first.is_call) refuse_near("syntax error");
    return first.node;
  }
  NodeList targets(program_.tree);
  const NodeId values = assignment(targets, first, 1);
  return add({.kind = NodeKind::kAssign, .a = targets.first(), .b = values});
}

// Reads the further targets, recursively since Lua counts each as a level, and
// from the innermost level the values. `count` targets have been read.
NodeId Parser::assignment(NodeList& targets, const Expression& target, unsigned count) {
  if (!target.assignable) refuse_near("syntax error");
  require_writable(target);
  targets.append(target.node);
  if (accept(Kind::kComma)) {
    const Expression next = suffixed_expression();
    const Level level(*this);
    return assignment(targets, next, count + 1);
  }
  expect(Kind::kAssign);
  const ExpressionList values = expression_list();
  const bool to_register = count == 1 && target.variable != 0;
  if (values.count != count) {
    scopes_.registers().to_next(values.last.operand);
  } else if (!to_register && !values.last.operand.is_constant()) {
    scopes_.registers().to_any(values.last.operand);
  }
  return values.first;
}

}  // namespace core
