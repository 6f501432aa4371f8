// The cases of test/cases: faults that users of other tools reported, named after
// the report, and traps of our own. Each is
//   - printed and compared with NAME.golden (names in alphabetical order);
//   - compared with its source by stripped bytecode, lines kept, byte for byte;
//   - run by lua5.4 before and after: same output, same exit status (COR-04);
//   - put through the core once more: its output must behave like the source too.
// `core-test --update-golden` writes the .golden files; read the difference.
#include <algorithm>
#include <filesystem>

#include "harness.hpp"
#include "program.hpp"
#include "texts.hpp"

namespace {

namespace fs = std::filesystem;

std::vector<std::string> case_names() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(test::settings().cases)) {
    if (entry.path().extension() == ".lua") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  if (names.size() < 45) throw test::Failed("cases are missing in " + test::settings().cases);
  return names;
}

std::string source_of(const std::string& name) {
  return test::read_file(test::settings().cases + "/" + name + ".lua");
}

void check_behaves_alike(const std::string& name, const std::string& before,
                         const std::string& after) {
  const test::Run first = test::run_program({"lua5.4", "-"}, before);
  const test::Run second = test::run_program({"lua5.4", "-"}, after);
  CHECK_MESSAGE(first.status == second.status && first.signal == second.signal,
                name + ": the exit status changed to " + std::to_string(second.status));
  CHECK_MESSAGE(first.output == second.output, name + ": the output changed from [" + first.output +
                                                   "] to [" + second.output + "]");
}

}  // namespace

TEST(golden_cases_print_as_recorded) {
  for (const std::string& name : case_names()) {
    const std::string path = test::settings().cases + "/" + name + ".golden";
    const std::string printed = test::plain(source_of(name));
    if (test::settings().update_golden) test::write_file(path, printed);
    CHECK_MESSAGE(
        printed == test::read_file(path),
        name + " prints as [" + printed + "], recorded is [" + test::read_file(path) + "]");
  }
}

TEST(golden_cases_compile_to_the_same_bytecode) {
  for (const std::string& name : case_names()) {
    const std::string source = source_of(name);
    const std::string code = test::bytecode(source);
    CHECK_MESSAGE(!code.empty(), name + " is not Lua");
    CHECK_MESSAGE(code == test::bytecode(test::plain(source, true)),
                  name + ": the bytecode differs");
  }
}

TEST(golden_cases_run_alike_before_and_after) {
  for (const std::string& name : case_names()) {
    const std::string source = source_of(name);
    const core::Outcome outcome = core::obfuscate(source);
    CHECK(outcome.status == core::Status::kOk);
    check_behaves_alike(name, source, outcome.text);
  }
}

TEST(golden_cases_run_alike_after_a_second_pass) {
  for (const std::string& name : case_names()) {
    const std::string source = source_of(name);
    const core::Outcome once = core::obfuscate(source);
    const core::Outcome twice = core::obfuscate(once.text);
    CHECK_MESSAGE(twice.status == core::Status::kOk, name + ": the output is refused");
    CHECK_MESSAGE(twice.text.size() <= once.text.size(), name + ": a second pass grows");
    check_behaves_alike(name, source, twice.text);
  }
}

TEST(golden_cases_are_never_larger) {
  for (const std::string& name : case_names()) {
    const std::string source = source_of(name);
    const core::Outcome outcome = core::obfuscate(source);
    CHECK_MESSAGE(outcome.text.size() <= source.size() + 1, name + " grew");
  }
}

// The runner itself must see a difference, or the cases above prove nothing.
TEST(golden_runner_sees_a_difference) {
  bool seen = false;
  try {
    check_behaves_alike("control", "print(1)", "print(2)");
  } catch (const test::Failed&) {
    seen = true;
  }
  CHECK(seen);
  seen = false;
  try {
    check_behaves_alike("control", "print(1)", "print(1) os.exit(3)");
  } catch (const test::Failed&) {
    seen = true;
  }
  CHECK(seen);
}
