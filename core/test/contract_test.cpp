// The shipped files under the contract: alone in a root, no arguments, the two
// fixed paths, limits set from outside, exit codes and the diagnostic (COR-01).
#include <csignal>

#include "confine.hpp"
#include "core/failure.hpp"
#include "core/pipeline.hpp"
#include "core/process.hpp"
#include "harness.hpp"
#include "program.hpp"
#include "texts.hpp"

using test::Bounds;
using test::Run;
using test::run_shipped;

namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

void check_diagnostic(const Run& run, const std::string& expected) {
  CHECK_EQ(run.output, expected + "\n");
  CHECK(run.output.size() <= core::kMaxDiagnosticBytes);
}

}  // namespace

TEST(contract_result_is_that_of_the_pipeline) {
  const std::string source = "local first, second = 1, 2 return first + second\n";
  const Run run = run_shipped("core", source);
  CHECK_EQ(run.status, core::kExitOk);
  CHECK_EQ(run.output, core::obfuscate(source).text);
}

TEST(contract_same_input_same_bytes) {
  const std::string source = test::read_file(test::settings().cases + "/varargs.lua");
  const std::string once = run_shipped("core", source).output;
  for (int i = 0; i < 3; ++i) CHECK_EQ(run_shipped("core", source).output, once);
  CHECK(run_shipped("core", source + "-- other\n").output != once);  // another seed
}

TEST(contract_empty_program_has_a_result) {
  const Run run = run_shipped("core", "");
  CHECK_EQ(run.status, core::kExitOk);
  CHECK_EQ(run.output, "\n");
}

TEST(contract_invalid_input_is_3_with_a_diagnostic) {
  const Run run = run_shipped("core", "local x\nx = = 2\n");
  CHECK_EQ(run.status, core::kExitInvalidInput);
  check_diagnostic(run, R"json({"line":2,"column":5,"message":"unexpected symbol near '='"})json");
  check_diagnostic(run_shipped("core", test::repeat("\xFF", 100)),
                   R"json({"line":1,"column":1,"message":"unexpected symbol near '?'"})json");
}

TEST(contract_deep_input_is_4_with_a_diagnostic) {
  const Run run = run_shipped("core", "x=" + test::repeat("(", 10000));
  CHECK_EQ(run.status, core::kExitInputLimit);
  check_diagnostic(
      run, R"json({"line":1,"column":200,"message":"too many nested levels (limit 198)"})json");
}

TEST(contract_large_input_is_4) {
  const Run edge = run_shipped("core", "--" + test::repeat("x", core::kDefaultMaxInput - 2));
  CHECK_EQ(edge.status, core::kExitOk);
  const Run beyond = run_shipped("core", "--" + test::repeat("x", core::kDefaultMaxInput - 1));
  CHECK_EQ(beyond.status, core::kExitInputLimit);
  check_diagnostic(
      beyond, R"json({"line":1,"column":1,"message":"input is larger than 10485760 bytes"})json");
}

TEST(contract_result_beyond_its_bound_is_5_and_empty) {
  Bounds bounds;
  bounds.result_bytes = 4096;
  const std::string fits = "x='" + test::repeat("y", 4000) + "'";
  CHECK_EQ(run_shipped("core", fits, bounds).status, core::kExitOk);
  const Run run = run_shipped("core", "x='" + test::repeat("y", 5000) + "'", bounds);
  CHECK_EQ(run.status, core::kExitResultLimit);
  CHECK_EQ(run.output, "");
  // A diagnostic that does not fit does not change the code.
  bounds.result_bytes = 8;
  const Run refused = run_shipped("core", "= =", bounds);
  CHECK_EQ(refused.status, core::kExitInvalidInput);
  CHECK_EQ(refused.output, "");
}

TEST(contract_refused_memory_is_6) {
  Bounds bounds;
  bounds.address_space = 24 * kMiB;
  const Run run = run_shipped("core", test::repeat("f()", 1000000), bounds);
  CHECK_EQ(run.status, core::kExitOutOfMemory);
  CHECK_EQ(run.output, "");
  // Every size between failing at once and succeeding: never a crash, never a part.
  for (std::uint64_t mib = 4; mib <= 96; mib += 4) {
    bounds.address_space = mib * kMiB;
    const Run step = run_shipped("core", test::repeat("f(a,b)", 200000), bounds);
    const bool whole = step.status == core::kExitOk && step.output.size() > 1200000;
    CHECK_MESSAGE(whole || (step.status == core::kExitOutOfMemory && step.output.empty()),
                  std::to_string(mib) + " MiB: exit " + std::to_string(step.status) + " signal " +
                      std::to_string(step.signal));
  }
}

TEST(contract_usage_is_2) {
  for (const char* program : {"core", "copy", "exerciser"}) {
    Bounds bounds;
    bounds.with_argument = true;
    CHECK_EQ(run_shipped(program, "x=1", bounds).status, core::kExitUsage);
    CHECK_EQ(run_shipped(program, "x=1", bounds).output, "");
  }
  Bounds bounds;
  bounds.without_input = true;
  CHECK_EQ(run_shipped("core", "", bounds).status, core::kExitUsage);
  bounds.without_input = false;
  bounds.without_result = true;  // never created: run_shipped counts the files
  CHECK_EQ(run_shipped("core", "x=1", bounds).status, core::kExitUsage);
  CHECK_EQ(run_shipped("copy", "x=1", bounds).status, core::kExitUsage);
}

TEST(contract_core_keeps_to_its_own_system_calls) {
  CHECK_EQ(test::signal_of_forbidden_call(), SIGSYS);  // the filter bites
  Bounds bounds;
  bounds.confined = true;
  std::string source = "local function f(a, b) return a .. b end\n";
  source += test::repeat("f('x', 1)\n", 300000);
  CHECK_EQ(run_shipped("core", source, bounds).status, core::kExitOk);
  CHECK_EQ(run_shipped("core", "x = = 1", bounds).status, core::kExitInvalidInput);
  CHECK_EQ(run_shipped("copy", "anything", bounds).status, core::kExitOk);
  bounds.address_space = 24 * kMiB;  // an exception under the same list
  CHECK_EQ(run_shipped("core", test::repeat("f()", 1000000), bounds).status,
           core::kExitOutOfMemory);
  bounds.address_space = 0;
  CHECK_EQ(run_shipped("exerciser", "x", bounds).signal, SIGSYS);  // it starts threads
}

TEST(contract_copy_streams_any_size) {
  const std::string large = test::repeat("0123456789abcdef", std::size_t{4} << 20);
  const Run run = run_shipped("copy", large);
  CHECK_EQ(run.status, core::kExitOk);
  CHECK(run.output == large);
  Bounds bounds;
  bounds.address_space = 32 * kMiB;
  CHECK_EQ(run_shipped("copy", large, bounds).status, core::kExitOk);
  bounds.result_bytes = kMiB;
  const Run cut = run_shipped("copy", large, bounds);
  CHECK_EQ(cut.status, core::kExitResultLimit);
  CHECK_EQ(cut.output, "");
  CHECK_EQ(run_shipped("copy", "").status, core::kExitInvalidInput);
}

TEST(contract_exerciser_reports) {
  const Run run = run_shipped("exerciser", "one\ntwo");
  CHECK_EQ(run.status, core::kExitOk);
  CHECK(run.output.starts_with("exerciser: 7 bytes, 2 lines; threads"));
}
