// The parser's class, shared by its three source files: parser.cpp (tokens and
// entry), parser_statements.cpp and parser_expressions.cpp.
#pragma once

#include <string>

#include "core/lexer.hpp"
#include "core/parser.hpp"

namespace core {

// An expression as parsed: its node, and what Lua's code generator would hold for it.
struct Expression {
  NodeId node = 0;
  Operand operand;
  bool is_call = false;     // a function call, not in parentheses
  bool assignable = false;  // a variable, a field or an index
  VariableId variable = 0;  // the plain local it is, if any
  std::uint32_t offset = 0;
};

class Parser {
 public:
  Parser(std::string_view code, Program& program, bool log_tokens);
  void parse_chunk();

 private:
  // Tokens. advance() consumes a significant token; drop() one that layer 0 omits.
  void advance();
  void drop();
  void shift();
  Kind look_ahead();
  bool accept(Kind kind);
  void expect(Kind kind);
  // As check_match: `closer` for the `opener` that stood at `offset`.
  void expect_closer(Kind closer, Kind opener, std::uint32_t offset);
  NameId take_name();  // consumes a name; the caller feeds the fingerprint
  [[noreturn]] void refuse_near(const std::string& message) const;
  [[noreturn]] static void refuse_at(std::uint32_t offset, std::string message);
  [[noreturn]] void refuse_expected(Kind kind) const;
  [[nodiscard]] bool block_ends(bool with_until) const;

  // Counts one level of nesting for as long as it lives.
  class Level {
   public:
    explicit Level(Parser& parser);
    ~Level() { --parser_.level_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Parser& parser_;
  };

  // Names. Each consumes the name and feeds the fingerprint.
  NodeId declare_local();
  NameId field_name();
  LabelId label_name();
  Expression variable_reference();

  // Statements
  NodeId block();  // in a scope of its own
  NodeId statement_list();
  void statements(NodeList& list);
  void statement(NodeList& list);
  NodeId if_statement();
  NodeId arm_block();
  NodeId condition_expression();
  NodeId while_statement();
  NodeId do_statement();
  NodeId for_statement();
  NodeId for_numeric();
  NodeId for_generic();
  NodeId for_body(unsigned hidden, unsigned named);
  NodeId repeat_statement();
  NodeId function_statement();
  NodeId local_function();
  NodeId local_statement();
  std::uint8_t attribute();
  void label_statement(NodeList& list);
  NodeId return_statement();
  NodeId goto_statement();
  NodeId break_statement();
  NodeId expression_statement();
  NodeId assignment(NodeList& targets, const Expression& target, unsigned count);
  void require_writable(const Expression& target) const;

  // Expressions
  struct ExpressionList {
    NodeId first = 0;
    unsigned count = 0;
    Expression last;
  };
  ExpressionList expression_list();  // all but the last are put in registers
  Expression expression() { return sub_expression(0); }
  Expression sub_expression(unsigned limit);
  Expression simple_expression();
  Expression primary_expression();
  Expression suffixed_expression();
  bool suffix(NodeList& suffixes, Expression& value);  // false if there is none
  Expression index_key();
  NodeId call_arguments();
  Expression table_constructor();
  NodeId table_item(unsigned& gathered);
  Expression function_body(bool method, std::uint32_t opener);
  bool parameters(NodeList& list, unsigned& count);  // true if they end in "..."
  NodeId add(const Node& node) { return program_.tree.add(node); }

  Lexer lexer_;
  Program& program_;
  Token token_;
  Token ahead_;
  bool has_ahead_ = false;
  bool log_tokens_;
  bool in_vararg_ = true;
  unsigned level_ = 0;
  std::string scratch_;
  Scopes scopes_;
};

}  // namespace core
