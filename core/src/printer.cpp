// A plain recursive walk: the tree's depth is bounded by the parser (ast.hpp), and
// everything long in it is a list. emit() is the only way text gets out.
#include "core/printer.hpp"

#include "core/ascii.hpp"
#include "core/literal.hpp"

namespace core {
namespace {

// Counts the lines of a text while moving forward in it, as Lua counts them.
class LineCursor {
 public:
  explicit LineCursor(std::string_view text) : text_(text) {}

  std::uint32_t line_at(std::size_t offset) {
    for (; at_ < offset; ++at_) {
      const char c = text_[at_];
      if (c != '\n' && c != '\r') continue;
      if (at_ > pair_start_ && is_pair(at_)) continue;  // second half of one line end
      pair_start_ = at_;
      ++line_;
    }
    return line_;
  }

 private:
  [[nodiscard]] bool is_pair(std::size_t at) const {
    return at == pair_start_ + 1 && line_ > 1 && text_[at] != text_[pair_start_];
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t pair_start_ = 0;
  std::uint32_t line_ = 1;
};

class Printer {
 public:
  Printer(const Program& program, const Source& source, const NamePlan& names, bool keep_lines)
      : program_(program),
        tree_(program.tree),
        code_(source.code),
        names_(names),
        keep_lines_(keep_lines),
        lines_(source.code) {
    out_.reserve(source.shebang.size() + source.code.size() + 2);
    if (!source.shebang.empty()) {
      out_ += source.shebang;
      new_line();
    }
  }

  std::string print() {
    block(program_.body);
    if (out_.empty() || out_.back() != '\n') out_.push_back('\n');
    return std::move(out_);
  }

 private:
  void emit(Kind kind) { emit(kind, spelling(kind)); }
  void emit(Kind kind, std::string_view text);
  void separate(Kind kind, char first);
  void new_line();
  void semicolon();
  void string_literal(const Node& node);
  void name(std::string_view text) { emit(Kind::kName, text); }

  void block(NodeId first);
  void statement(const Node& node);
  void if_statement(const Node& node);
  void for_statement(const Node& node);
  void local_statement(const Node& node);
  void declared(NodeId first);
  void body_and_end(NodeId first);
  [[nodiscard]] bool starts_with_paren(const Node& node) const;

  void expressions(NodeId first);
  void expression(const Node& node);
  void prefix_expression(const Node& node);
  void suffix(const Node& node);
  void table(const Node& node);
  void table_item(const Node& node);
  void function(const Node& node);

  const Program& program_;
  const Tree& tree_;
  std::string_view code_;
  const NamePlan& names_;
  bool keep_lines_;
  LineCursor lines_;
  std::string out_;
  std::string scratch_;
  std::uint32_t out_line_ = 1;
  std::size_t emitted_ = 0;     // tokens so far, without inserted semicolons
  std::size_t prefix_end_ = 0;  // emitted_ when the last prefix expression ended
  Kind last_ = Kind::kEof;      // kEof: nothing before on this line
};

void Printer::new_line() {
  out_.push_back('\n');
  ++out_line_;
  last_ = Kind::kEof;
}

// Puts what must stand between the last token and one that starts with `first`.
void Printer::separate(Kind kind, char first) {
  if (keep_lines_) {
    const std::uint32_t line = lines_.line_at(program_.token_offsets[emitted_]);
    while (out_line_ < line) new_line();
  }
  const bool after_word = last_ <= kLastKeyword || last_ == Kind::kName || last_ == Kind::kNumber;
  bool glued = false;
  switch (first) {
    case '.':
      glued = last_ == Kind::kNumber || (last_ == Kind::kConcat && kind != Kind::kDot);
      break;
    case '-':
      glued = last_ == Kind::kSub;
      break;
    case '[':
      glued = last_ == Kind::kLeftBracket;
      break;
    case '=':
      glued = last_ == Kind::kGt;
      break;
    default:
      glued = after_word && is_ascii(static_cast<unsigned char>(first), kAsciiLetter | kAsciiDigit);
  }
  if (glued) out_.push_back(' ');
}

void Printer::emit(Kind kind, std::string_view text) {
  separate(kind, text[0]);
  out_ += text;
  last_ = kind;
  ++emitted_;
}

void Printer::string_literal(const Node& node) {
  const std::string_view literal = code_.substr(node.a, node.b);
  separate(Kind::kString, literal[0]);
  const std::uint32_t line_ends = keep_lines_ ? LineCursor(literal).line_at(literal.size()) - 1 : 0;
  if (line_ends > 0) {
    out_ += literal;  // what follows it on its last line stays there
    out_line_ += line_ends;
  } else {
    encode_literal(literal, scratch_, out_);
  }
  last_ = Kind::kString;
  ++emitted_;
}

// Not a token of the source, so not counted.
void Printer::semicolon() {
  out_.push_back(';');
  last_ = Kind::kSemicolon;
}

bool Printer::starts_with_paren(const Node& node) const {
  const Node& first = node.kind == NodeKind::kAssign ? tree_[node.a] : node;
  return first.kind == NodeKind::kSuffixed && tree_[first.a].kind == NodeKind::kParen;
}

void Printer::block(NodeId first) {
  for (NodeId id = first; id != 0; id = tree_[id].next) {
    const Node& node = tree_[id];
    if (starts_with_paren(node) && emitted_ > 0 && prefix_end_ == emitted_) semicolon();
    statement(node);
  }
}

void Printer::body_and_end(NodeId first) {
  block(first);
  emit(Kind::kEnd);
}

void Printer::statement(const Node& node) {
  switch (node.kind) {
    case NodeKind::kLocalVars:
      return local_statement(node);
    case NodeKind::kAssign:
      expressions(node.a);
      emit(Kind::kAssign);
      return expressions(node.b);
    case NodeKind::kDo:
      emit(Kind::kDo);
      return body_and_end(node.a);
    case NodeKind::kWhile:
      emit(Kind::kWhile);
      expression(tree_[node.a]);
      emit(Kind::kDo);
      return body_and_end(node.b);
    case NodeKind::kRepeat:
      emit(Kind::kRepeat);
      block(node.a);
      emit(Kind::kUntil);
      return expression(tree_[node.b]);
    case NodeKind::kIf:
      return if_statement(node);
    case NodeKind::kForNumeric:
    case NodeKind::kForGeneric:
      return for_statement(node);
    case NodeKind::kFunctionStat:
      emit(Kind::kFunction);
      prefix_expression(tree_[node.a]);
      return function(tree_[node.b]);
    case NodeKind::kLocalFunction:
      emit(Kind::kLocal);
      emit(Kind::kFunction);
      declared(node.a);
      return function(tree_[node.b]);
    case NodeKind::kReturn:
      emit(Kind::kReturn);
      return expressions(node.a);
    case NodeKind::kBreak:
      return emit(Kind::kBreak);
    case NodeKind::kGoto:
      emit(Kind::kGoto);
      return name(names_.label(node.a));
    case NodeKind::kLabel:
      emit(Kind::kDoubleColon);
      name(names_.label(node.a));
      return emit(Kind::kDoubleColon);
    case NodeKind::kEmpty:
      return emit(Kind::kSemicolon);
    default:
      return expression(node);  // a call
  }
}

void Printer::if_statement(const Node& node) {
  Kind opener = Kind::kIf;
  for (NodeId id = node.a; id != 0; id = tree_[id].next) {
    const Node& arm = tree_[id];
    if (arm.a == 0) {
      emit(Kind::kElse);
    } else {
      emit(opener);
      expression(tree_[arm.a]);
      emit(Kind::kThen);
    }
    block(arm.b);
    opener = Kind::kElseif;
  }
  emit(Kind::kEnd);
}

void Printer::for_statement(const Node& node) {
  emit(Kind::kFor);
  declared(node.a);
  emit(node.kind == NodeKind::kForNumeric ? Kind::kAssign : Kind::kIn);
  expressions(tree_[node.a].b);
  emit(Kind::kDo);
  body_and_end(node.b);
}

void Printer::local_statement(const Node& node) {
  emit(Kind::kLocal);
  declared(node.a);
  if (node.b == 0) return;
  emit(Kind::kAssign);
  expressions(node.b);
}

void Printer::declared(NodeId first) {
  for (NodeId id = first; id != 0; id = tree_[id].next) {
    const Node& node = tree_[id];
    if (id != first) emit(Kind::kComma);
    name(names_.variable(node.a));
    if ((node.flags & (kConst | kClose)) == 0) continue;
    emit(Kind::kLt);
    name((node.flags & kConst) != 0 ? "const" : "close");
    emit(Kind::kGt);
  }
}

void Printer::expressions(NodeId first) {
  for (NodeId id = first; id != 0; id = tree_[id].next) {
    if (id != first) emit(Kind::kComma);
    expression(tree_[id]);
  }
}

void Printer::expression(const Node& node) {
  switch (node.kind) {
    case NodeKind::kConstant:
      return emit(node.op);
    case NodeKind::kNumber:
      return emit(Kind::kNumber, code_.substr(node.a, node.b));
    case NodeKind::kString:
      return string_literal(node);
    case NodeKind::kFunction:
      emit(Kind::kFunction);
      return function(node);
    case NodeKind::kTable:
      return table(node);
    case NodeKind::kUnary:
      emit(node.op);
      return expression(tree_[node.a]);
    case NodeKind::kChain:
      for (NodeId id = node.a; id != 0; id = tree_[id].next) {
        if (id != node.a) emit(tree_[id].lead);
        expression(tree_[id]);
      }
      return;
    default:
      return prefix_expression(node);
  }
}

void Printer::prefix_expression(const Node& node) {
  switch (node.kind) {
    case NodeKind::kLocal:
      name(names_.variable(node.a));
      break;
    case NodeKind::kGlobal:
      name(program_.names.text(node.a));
      break;
    case NodeKind::kParen:
      emit(Kind::kLeftParen);
      expression(tree_[node.a]);
      emit(Kind::kRightParen);
      break;
    default:
      prefix_expression(tree_[node.a]);
      for (NodeId id = node.b; id != 0; id = tree_[id].next) suffix(tree_[id]);
      break;
  }
  prefix_end_ = emitted_;
}

void Printer::suffix(const Node& node) {
  switch (node.kind) {
    case NodeKind::kField:
      emit(Kind::kDot);
      return name(program_.names.text(node.a));
    case NodeKind::kMethod:
      emit(Kind::kColon);
      return name(program_.names.text(node.a));
    case NodeKind::kIndex:
      emit(Kind::kLeftBracket);
      expression(tree_[node.a]);
      return emit(Kind::kRightBracket);
    default:
      break;
  }
  if ((node.flags & kBareArgument) != 0) return expression(tree_[node.a]);
  emit(Kind::kLeftParen);
  expressions(node.a);
  emit(Kind::kRightParen);
}

void Printer::table(const Node& node) {
  emit(Kind::kLeftBrace);
  for (NodeId id = node.a; id != 0; id = tree_[id].next) {
    if (id != node.a) emit(Kind::kComma);
    table_item(tree_[id]);
  }
  emit(Kind::kRightBrace);
}

void Printer::table_item(const Node& node) {
  if (node.kind == NodeKind::kNamedItem) {
    name(program_.names.text(node.a));
  } else if (node.kind == NodeKind::kKeyedItem) {
    emit(Kind::kLeftBracket);
    expression(tree_[node.a]);
    emit(Kind::kRightBracket);
  } else {
    return expression(node);
  }
  emit(Kind::kAssign);
  expression(tree_[node.b]);
}

// From the parameters on; the keyword and a name stand before.
void Printer::function(const Node& node) {
  emit(Kind::kLeftParen);
  declared(node.a);
  if ((node.flags & kVararg) != 0) {
    if (node.a != 0) emit(Kind::kComma);
    emit(Kind::kDots);
  }
  emit(Kind::kRightParen);
  body_and_end(node.b);
}

}  // namespace

std::string print(const Program& program, const Source& source, const NamePlan& names,
                  const PrintOptions& options) {
  return Printer(program, source, names, options.keep_lines).print();
}

}  // namespace core
