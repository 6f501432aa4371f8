// Tokens in, refusals out. advance() is the one place where a significant token
// is consumed: it feeds the fingerprint and, when asked, the log of positions.
#include "core/parser.hpp"

#include "core/literal.hpp"
#include "core/source.hpp"
#include "parser_impl.hpp"

namespace core {

Parser::Parser(std::string_view code, Program& program, bool log_tokens)
    : lexer_(code), program_(program), log_tokens_(log_tokens), scopes_(program.names, &token_) {
  shift();
}

void Parser::shift() {
  if (has_ahead_) {
    token_ = ahead_;
    has_ahead_ = false;
  } else {
    token_ = lexer_.next();
  }
}

void Parser::drop() {
  shift();
}

void Parser::advance() {
  if (log_tokens_) program_.token_offsets.push_back(token_.begin);
  if (token_.kind != Kind::kName) {
    program_.fingerprint.add(static_cast<std::uint64_t>(token_.kind));
    if (token_.kind == Kind::kNumber) {
      program_.fingerprint.add(lexer_.text(token_));
    } else if (token_.kind == Kind::kString) {
      scratch_.clear();
      decode_literal(lexer_.text(token_), scratch_);
      program_.fingerprint.add(scratch_);
    }
  }
  shift();
}

Kind Parser::look_ahead() {
  if (!has_ahead_) {
    ahead_ = lexer_.next();
    has_ahead_ = true;
  }
  return ahead_.kind;
}

bool Parser::accept(Kind kind) {
  if (token_.kind != kind) return false;
  advance();
  return true;
}

void Parser::expect(Kind kind) {
  if (token_.kind != kind) refuse_expected(kind);
  advance();
}

void Parser::expect_closer(Kind closer, Kind opener, std::uint32_t offset) {
  if (token_.kind != closer) {
    const Source source{{}, lexer_.code()};
    const std::uint32_t line = source.locate(offset).line;
    if (line == source.locate(token_.begin).line) refuse_expected(closer);
    refuse_near("'" + std::string(spelling(closer)) + "' expected (to close '" +
                std::string(spelling(opener)) + "' at line " + std::to_string(line) + ")");
  }
  advance();
}

NameId Parser::take_name() {
  if (token_.kind != Kind::kName) refuse_expected(Kind::kName);
  const NameId name = program_.names.intern(lexer_.text(token_));
  advance();
  return name;
}

bool Parser::block_ends(bool with_until) const {
  switch (token_.kind) {
    case Kind::kElse:
    case Kind::kElseif:
    case Kind::kEnd:
    case Kind::kEof:
      return true;
    case Kind::kUntil:
      return with_until;
    default:
      return false;
  }
}

void Parser::refuse_at(std::uint32_t offset, std::string message) {
  throw Refusal{FailureKind::kNotLua, offset, std::move(message)};
}

void Parser::refuse_near(const std::string& message) const {
  constexpr std::size_t kMaxQuoted = 40;
  const std::string text = token_.kind == Kind::kEof
                               ? std::string(spelling(Kind::kEof))
                               : "'" + printable(lexer_.text(token_), kMaxQuoted) + "'";
  refuse_at(token_.begin, message + " near " + text);
}

void Parser::refuse_expected(Kind kind) const {
  const std::string word(spelling(kind));
  refuse_near(kind == Kind::kName || kind == Kind::kEof ? word + " expected"
                                                        : "'" + word + "' expected");
}

Parser::Level::Level(Parser& parser) : parser_(parser) {
  if (++parser_.level_ > kMaxLevels) {
    --parser_.level_;
    throw Refusal{FailureKind::kLimit, parser_.token_.begin,
                  "too many nested levels (limit " + std::to_string(kMaxLevels) + ")"};
  }
}

void Parser::parse_chunk() {
  scopes_.open_function();
  program_.body = statement_list();
  if (token_.kind != Kind::kEof) refuse_expected(Kind::kEof);
  scopes_.close_function();
  program_.scopes = scopes_.finish();
}

Program parse(std::string_view code, HashKey key, bool log_tokens) {
  Program program(key);
  try {
    Parser(code, program, log_tokens).parse_chunk();
  } catch (const Refusal& refusal) {
    program.failure.kind = refusal.kind;
    program.failure.message = printable(refusal.message, kMaxMessageBytes);
    program.failure_offset = refusal.offset;
  }
  return program;
}

}  // namespace core
