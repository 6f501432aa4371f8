// The syntax tree: 16-byte nodes in an arena, linked by 32-bit numbers.
//
// Everything that can be long is a flat list, never a deep tree: `a+b+c+...` is
// one kChain, `a.b.c()()` is one kSuffixed, elseif arms are a list. The depth of
// the tree is therefore bounded by the nesting Lua itself allows (kMaxLevels in
// parser.hpp), and walking it recursively is safe. There are no destructors and
// no per-node allocation; the tree dies with its pages.
//
// A node belongs to at most one list; `next` is the following sibling.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

#include "core/token.hpp"

namespace core {

using NodeId = std::uint32_t;  // 0 = none

enum class NodeKind : std::uint8_t {
  // Expressions                a                        b                  op / flags
  kConstant,  //                                                      op: nil true false ...
  kNumber,    // offset in the source     length
  kString,    // offset in the source     length of the literal
  kFunction,  // first parameter          first statement    kVararg
  kLocal,     // VariableId
  kGlobal,    // NameId
  kParen,     // inner expression
  kUnary,     // operand                                     op: the operator
  kChain,     // first operand; each later operand has `lead` = its operator, left to right
  kTable,     // first item: an expression, kNamedItem or kKeyedItem
  kSuffixed,  // primary expression       first suffix
  // Table items
  kNamedItem,  // NameId                   value
  kKeyedItem,  // key                      value
  // Suffixes
  kField,   // NameId
  kIndex,   // key
  kMethod,  // NameId; the call follows as the next suffix
  kCall,    // first argument                              kBareArgument
  // Declared names
  kDeclared,  // VariableId               for loops: first expression    kConst, kClose
  // Statements (a kSuffixed that ends in a call is one too)
  kLocalVars,      // first kDeclared          first expression
  kAssign,         // first target             first expression
  kDo,             // first statement
  kWhile,          // condition                first statement
  kRepeat,         // first statement          condition
  kIf,             // first kArm
  kArm,            // condition (0 = else)     first statement
  kForNumeric,     // kDeclared (b = start, limit, step)          first statement
  kForGeneric,     // first kDeclared (b = expressions)           first statement
  kFunctionStat,   // name: kLocal, kGlobal or kSuffixed          kFunction
  kLocalFunction,  // kDeclared                kFunction
  kReturn,         // first expression
  kBreak,
  kGoto,   // NameId of the label
  kLabel,  // NameId of the label
  kEmpty,  // a ';' that must stay (see Parser::arm_block)
};

enum NodeFlag : std::uint8_t {
  kVararg = 1,        // kFunction: parameters end in "..."
  kBareArgument = 2,  // kCall: one string or table argument without parentheses
  kConst = 4,         // kDeclared: <const>
  kClose = 8,         // kDeclared: <close>
};

struct Node {
  NodeKind kind = NodeKind::kEmpty;
  Kind op = Kind::kEof;    // operator or constant of this node
  Kind lead = Kind::kEof;  // as an operand of a kChain: the operator before it
  std::uint8_t flags = 0;
  std::uint32_t a = 0;
  std::uint32_t b = 0;
  NodeId next = 0;
};

static_assert(sizeof(Node) == 16, "ten megabytes of hostile text must fit the memory bound");
static_assert(std::is_trivially_destructible_v<Node>);

// Pages of nodes; a node never moves, and freeing is by page.
class Tree {
 public:
  Tree() { add({}); }  // node 0 means "none"

  NodeId add(const Node& node) {
    if (size_ % kPage == 0) pages_.push_back(std::make_unique<Node[]>(kPage));
    pages_.back()[size_ % kPage] = node;
    return static_cast<NodeId>(size_++);
  }
  Node& operator[](NodeId id) { return pages_[id / kPage][id % kPage]; }
  const Node& operator[](NodeId id) const { return pages_[id / kPage][id % kPage]; }
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  static constexpr std::size_t kPage = 4096;
  std::vector<std::unique_ptr<Node[]>> pages_;
  std::size_t size_ = 0;
};

// Appends nodes to one list.
class NodeList {
 public:
  explicit NodeList(Tree& tree) : tree_(&tree) {}

  void append(NodeId node) {
    if (first_ == 0) {
      first_ = node;
    } else {
      (*tree_)[last_].next = node;
    }
    last_ = node;
  }
  [[nodiscard]] NodeId first() const { return first_; }
  [[nodiscard]] bool empty() const { return first_ == 0; }

 private:
  Tree* tree_;
  NodeId first_ = 0;
  NodeId last_ = 0;
};

}  // namespace core
