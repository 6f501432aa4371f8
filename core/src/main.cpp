// The shipped core: no arguments, no environment, two files, one exit code.
#include "core/run.hpp"

int main(int argc, char** /*argv*/) {
  if (argc != 1) return core::kExitUsage;
  return core::run_core(core::kInputPath, core::kResultPath);
}
