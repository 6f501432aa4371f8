// One run of the obfuscating core over two files.
#pragma once

#include "core/process.hpp"

namespace core {

// Never throws; the return value is the exit code of the contract.
[[nodiscard]] ExitCode run_core(const char* input_path, const char* result_path);

}  // namespace core
