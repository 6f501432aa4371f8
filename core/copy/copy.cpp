// The smallest core: the result is the input. It streams, so its memory does not
// depend on the size: that is what the large-file tests need, and it shows that an
// image which keeps CONTRACT.md drops in (COR-02). It has no input limit.
#include <array>

#include "core/process.hpp"

namespace {

core::ExitCode run() {
  core::ignore_file_size_signal();
  const core::File input = core::open_input(core::kInputPath);
  const core::File result = core::open_result(core::kResultPath);
  if (!input.is_open() || !result.is_open()) return core::kExitUsage;

  static std::array<char, std::size_t{1} << 20> buffer;
  bool any = false;
  for (;;) {
    const std::ptrdiff_t got = input.read(buffer.data(), buffer.size());
    if (got < 0) return core::kExitInternal;
    if (got == 0) break;
    any = true;
    const core::ExitCode code = result.write({buffer.data(), static_cast<std::size_t>(got)});
    if (code == core::kExitOk) continue;
    return result.cut(0) ? code : core::kExitInternal;
  }
  // A result with exit 0 has at least one byte (contract, section 2).
  return any ? core::kExitOk : core::kExitInvalidInput;
}

}  // namespace

int main(int argc, char** /*argv*/) {
  return argc == 1 ? run() : core::kExitUsage;
}
