// A core that uses what an ordinary C++ program may use: iostreams, exceptions,
// threads with locks, std::async, regular expressions, clocks, random numbers,
// large and small allocations. It keeps the contract and writes a short report.
//
// The launcher's system-call list is held against it both ways: it must run under
// the list, and for each name taken out something that is allowed to need it must
// fail. Another core that does no more than this one therefore drops in.
#include <fcntl.h>
#include <sched.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <future>
#include <iostream>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "core/process.hpp"

namespace {

using Clock = std::chrono::steady_clock;

struct InputFacts {
  std::size_t bytes = 0;
  std::size_t lines = 0;
};

// read, lseek and readv through an iostream's buffer.
InputFacts read_input() {
  std::ifstream in(core::kInputPath, std::ios::binary);
  if (!in) throw std::runtime_error("cannot open the input");
  InputFacts facts;
  std::string line;
  while (std::getline(in, line)) {
    ++facts.lines;
    facts.bytes += line.size() + (in.eof() ? 0 : 1);
  }
  in.clear();
  in.seekg(0, std::ios::end);
  if (static_cast<std::size_t>(in.tellg()) != facts.bytes) {
    throw std::runtime_error("the input's size does not fit its lines");
  }
  return facts;
}

// clone, futex, sched_yield, set_robust_list, exit: eight threads and one lock.
int count_with_threads() {
  constexpr int kThreads = 8;
  constexpr int kRounds = 500;
  std::mutex mutex;
  std::condition_variable everyone_ready;
  int ready = 0;
  int total = 0;
  std::vector<std::jthread> threads;
  threads.reserve(kThreads);
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      std::unique_lock lock(mutex);
      if (++ready == kThreads) everyone_ready.notify_all();
      everyone_ready.wait(lock, [&] { return ready == kThreads; });
      for (int round = 0; round < kRounds; ++round) {
        ++total;
        lock.unlock();
        std::this_thread::yield();
        lock.lock();
      }
    });
  }
  threads.clear();  // joins
  return total;
}

int sum_with_async() {
  const auto part = [](int from) {
    std::vector<int> numbers(1000);
    std::iota(numbers.begin(), numbers.end(), from);
    return std::accumulate(numbers.begin(), numbers.end(), 0);
  };
  auto first = std::async(std::launch::async, part, 0);
  auto second = std::async(std::launch::async, part, 1000);
  return first.get() + second.get();
}

// Exceptions thrown in one thread and caught in another.
std::string carried_exception() {
  auto task = std::async(std::launch::async, []() -> int { throw std::out_of_range("carried"); });
  try {
    task.get();
  } catch (const std::out_of_range& caught) {
    return caught.what();
  }
  throw std::logic_error("the exception was lost");
}

std::size_t match_words(const std::string& text) {
  const std::regex word("[a-z]+", std::regex::icase);
  return static_cast<std::size_t>(
      std::distance(std::sregex_iterator(text.begin(), text.end(), word), std::sregex_iterator()));
}

// random_device reads the processor or getrandom; the call itself is made too.
bool draws_random_numbers() {
  std::random_device device;
  std::array<unsigned char, 16> bytes{};
  const bool drawn =
      ::getrandom(bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size());
  std::mt19937 generator(device());
  return drawn && std::uniform_int_distribution<int>(1, 6)(generator) <= 6;
}

// nanosleep, clock_gettime, a timed wait on a lock.
bool sleeps_and_waits() {
  const Clock::time_point start = Clock::now();
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock lock(mutex);
  const bool timed_out =
      never.wait_for(lock, std::chrono::milliseconds(2)) == std::cv_status::timeout;
  return timed_out && Clock::now() - start >= std::chrono::milliseconds(4);
}

// brk, mmap, mremap, munmap, madvise: small blocks, one that grows, large ones.
std::size_t allocates() {
  std::vector<std::unique_ptr<std::string>> small;
  small.reserve(2000);
  for (int i = 0; i < 2000; ++i) small.push_back(std::make_unique<std::string>(200, 'x'));
  // NOLINTBEGIN(cppcoreguidelines-no-malloc,cppcoreguidelines-owning-memory): realloc of a
  // large block is the one way to mremap, which a C library inside a core may use.
  void* grown = std::malloc(std::size_t{1} << 20);
  for (std::size_t size = std::size_t{2} << 20; size <= std::size_t{32} << 20; size *= 2) {
    void* larger = std::realloc(grown, size);
    if (larger == nullptr) {
      std::free(grown);
      throw std::bad_alloc();
    }
    grown = larger;
    std::memset(grown, 1, 4096);
  }
  std::free(grown);
  // NOLINTEND(cppcoreguidelines-no-malloc,cppcoreguidelines-owning-memory)
  return small.size();
}

// Signals: a handler, a mask, one signal to this thread.
std::atomic<int>& signals_seen() {
  static std::atomic<int> count{0};
  return count;
}

bool handles_signals() {
  struct sigaction action {};
  action.sa_handler = [](int) { ++signals_seen(); };
  sigset_t set;
  sigset_t before;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  if (::sigaction(SIGUSR1, &action, nullptr) != 0) return false;
  if (::pthread_sigmask(SIG_BLOCK, &set, &before) != 0) return false;
  if (std::raise(SIGUSR1) != 0) return false;
  const bool held_back = signals_seen() == 0;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return held_back && signals_seen() == 1;
}

// What a program asks about its host at start: processors, name, its own ids.
bool looks_around() {
  utsname name{};
  struct stat input {};
  return ::uname(&name) == 0 && std::thread::hardware_concurrency() > 0 && ::getpid() > 0 &&
         ::stat(core::kInputPath, &input) == 0 && S_ISREG(input.st_mode);
}

void require(bool held, const char* what) {
  if (!held) throw std::runtime_error(what);
}

std::string report() {
  const InputFacts facts = read_input();
  require(count_with_threads() == 4000, "threads lost a count");
  require(sum_with_async() == 1999000, "async summed wrongly");
  require(carried_exception() == "carried", "the exception changed");
  require(match_words("three small Words") == 3, "the expression matched wrongly");
  require(draws_random_numbers(), "no random numbers");
  require(sleeps_and_waits(), "the clock ran wrongly");
  require(allocates() == 2000, "allocation failed");
  require(handles_signals(), "a signal was lost");
  require(looks_around(), "the host did not answer");
  std::ostringstream text;
  text << "exerciser: " << facts.bytes << " bytes, " << facts.lines << " lines; "
       << "threads async exceptions regex random clocks memory signals ok\n";
  return text.str();
}

core::ExitCode run() {
  core::ignore_file_size_signal();
  try {
    const std::string text = report();
    // The iostream way to write in place: "r+", neither created nor truncated.
    std::fstream out(core::kResultPath, std::ios::in | std::ios::out | std::ios::binary);
    if (!out) return core::kExitUsage;
    out << text << std::flush;
    return out ? core::kExitOk : core::kExitResultLimit;
  } catch (const std::bad_alloc&) {
    return core::kExitOutOfMemory;
  } catch (const std::exception& caught) {
    std::cerr << "exerciser: " << caught.what() << std::endl;
    return core::kExitInternal;
  }
}

}  // namespace

int main(int argc, char** /*argv*/) {
  return argc == 1 ? run() : core::kExitUsage;
}
