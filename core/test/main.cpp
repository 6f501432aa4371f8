// Runs all cases in the order of their names; ends with `N passed, N failed`.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>

#include "harness.hpp"
#include "program.hpp"

namespace test {

std::vector<Case>& cases() {
  static std::vector<Case> all;
  return all;
}

Settings& settings() {
  static Settings all;
  return all;
}

}  // namespace test

namespace {

constexpr const char* kUsage =
    "usage: core-test --requirements FILE [--programs DIR] [--cases DIR] [--only NAME] "
    "[--in-process] "
    "[--update-golden]\n";

// One line, whatever the failure quotes.
std::string flat(std::string text) {
  for (char& c : text) {
    if (c < ' ' || c > '~') c = '.';
  }
  return text.substr(0, 1500);
}

// A sanitizer sees only the code in this process: --in-process leaves out the cases
// whose subject is a shipped program, which `make test` runs.
bool runs_shipped_programs(const test::Case& test) {
  return test.name.starts_with("contract_") || test.name.starts_with("growth_");
}

bool run_one(const test::Case& test) {
  std::string why;
  try {
    test.run();
  } catch (const std::exception& caught) {
    why = flat(caught.what());
    if (why.empty()) why = "failed without a message";
  }
  if (why.empty()) {
    std::printf("ok %s\n", test.name.c_str());
  } else {
    std::printf("FAIL %s: %s\n", test.name.c_str(), why.c_str());
  }
  std::fflush(stdout);
  return why.empty();
}

}  // namespace

int main(int argc, char** argv) {
  std::string only;
  std::string requirements;
  bool in_process = false;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--programs" && i + 1 < argc) {
      test::settings().programs = argv[++i];
    } else if (flag == "--cases" && i + 1 < argc) {
      test::settings().cases = argv[++i];
    } else if (flag == "--only" && i + 1 < argc) {
      only = argv[++i];
    } else if (flag == "--requirements" && i + 1 < argc) {
      requirements = test::read_file(argv[++i]);
    } else if (flag == "--in-process") {
      in_process = true;
    } else if (flag == "--update-golden") {
      test::settings().update_golden = true;
    } else {
      std::fputs(kUsage, stderr);
      return 2;
    }
  }
  std::vector<test::Case>& all = test::cases();
  for (const test::Case& test : all) {
    if (requirements.find("\n" + test.name + "\t") != std::string::npos) continue;
    std::printf("FAIL %s: it is not in requirements.tsv\n", test.name.c_str());
    return 1;
  }
  std::sort(all.begin(), all.end(),
            [](const test::Case& a, const test::Case& b) { return a.name < b.name; });
  int passed = 0;
  int failed = 0;
  for (const test::Case& test : all) {
    if (!only.empty() && test.name != only) continue;
    if (in_process && runs_shipped_programs(test)) continue;
    ++(run_one(test) ? passed : failed);
  }
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed == 0 && passed > 0 ? 0 : 1;
}
