// A test harness of one page: a case registers itself, and fails by throwing.
//
//   TEST(printer_keeps_parentheses) { CHECK_EQ(printed("x=(f())"), "x=(f())\n"); }
//
// Each case prints `ok NAME` or `FAIL NAME: why`; requirements.tsv maps the names
// to requirement ids. A case cannot be skipped.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace test {

struct Case {
  std::string name;
  void (*run)();
};

std::vector<Case>& cases();

struct Registration {
  Registration(const char* name, void (*run)()) { cases().push_back({name, run}); }
};

// Where the programs under test and the golden cases are, from the command line.
struct Settings {
  std::string programs = "../out/core";
  std::string cases = "test/cases";
  bool update_golden = false;
};
Settings& settings();

class Failed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

[[noreturn]] inline void fail(const char* file, int line, const std::string& why) {
  throw Failed(why + " (" + file + ":" + std::to_string(line) + ")");
}

template <typename A, typename B>
void check_eq(const A& got, const B& want, const char* what, const char* file, int line) {
  if (got == want) return;
  std::ostringstream text;
  text << what << ": got [" << got << "], want [" << want << "]";
  fail(file, line, text.str());
}

}  // namespace test

#define TEST(name)                                                      \
  static void test_##name();                                            \
  static const test::Registration register_##name(#name, &test_##name); \
  static void test_##name()

#define CHECK(condition)                                          \
  do {                                                            \
    if (!(condition)) test::fail(__FILE__, __LINE__, #condition); \
  } while (false)

#define CHECK_MESSAGE(condition, message)                      \
  do {                                                         \
    if (!(condition)) test::fail(__FILE__, __LINE__, message); \
  } while (false)

#define CHECK_EQ(got, want) test::check_eq((got), (want), #got, __FILE__, __LINE__)
