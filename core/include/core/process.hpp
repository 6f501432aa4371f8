// The process side of the contract (CONTRACT.md): fixed files, exit codes, signals.
//
// Shared by every core in this folder, so that they cannot drift apart.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace core {

inline constexpr const char* kInputPath = "/in/input";
inline constexpr const char* kResultPath = "/out/result";

enum ExitCode : int {
  kExitOk = 0,
  kExitUsage = 2,         // arguments were given, or the two files are not there
  kExitInvalidInput = 3,  // see the diagnostic in the result
  kExitInputLimit = 4,    // see the diagnostic in the result
  kExitResultLimit = 5,   // the bound on the result, or the disk, was reached
  kExitOutOfMemory = 6,
  kExitInternal = 70,
};

// An open file that closes itself; no copies.
class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  [[nodiscard]] bool is_open() const { return descriptor_ >= 0; }
  // Up to `size` bytes into `buffer`: how many, 0 at the end, -1 on an error.
  [[nodiscard]] std::ptrdiff_t read(char* buffer, std::size_t size) const;
  // All of `bytes`: kExitOk, kExitResultLimit or kExitInternal.
  [[nodiscard]] ExitCode write(std::string_view bytes) const;
  // Sets the length; false on an error.
  [[nodiscard]] bool cut(std::size_t size) const;

 private:
  int descriptor_;
};

[[nodiscard]] File open_input(const char* path);
// The result exists already: opened in place, never created, never replaced.
[[nodiscard]] File open_result(const char* path);

// Makes a write past RLIMIT_FSIZE fail with EFBIG instead of killing the process.
void ignore_file_size_signal();

}  // namespace core
