// The system-call list of CONTRACT.md §5, as a filter for the calling process.
#pragma once

namespace test {

// Everything that is not on the list kills the process. False if it cannot be set.
bool confine_to_contract();

// What is not on the list, proven by a child that tries it: its signal, 0 if none.
int signal_of_forbidden_call();

}  // namespace test
