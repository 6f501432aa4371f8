// Other programs, run by the tests: Lua, its compiler, and the cores.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace test {

struct Run {
  int status = -1;  // exit code, or -1 when a signal ended it
  int signal = 0;   // that signal
  std::string output;
  double cpu_seconds = 0;
};

// Runs argv[0] (found by PATH) with `input` on stdin; stderr is dropped.
Run run_program(const std::vector<std::string>& argv, std::string_view input);

// The limits of the contract, for run_shipped; 0 = the machine's own.
struct Bounds {
  std::uint64_t result_bytes = 0;   // RLIMIT_FSIZE
  std::uint64_t address_space = 0;  // RLIMIT_AS
  bool confined = false;            // under the system-call list of CONTRACT.md §5
  bool with_argument = false;
  bool without_input = false;
  bool without_result = false;
};

// Runs a program of settings().programs as the launcher does: alone in a root that
// holds /in/input and an empty /out/result, without arguments. `output` is the result.
Run run_shipped(const std::string& program, std::string_view input, const Bounds& bounds = {});

// A folder that removes itself.
class Folder {
 public:
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string read_file(const std::string& path);
void write_file(const std::string& path, std::string_view bytes);

// Stripped bytecode of a text by luac5.4, or empty if it does not compile.
std::string bytecode(std::string_view text);

}  // namespace test
