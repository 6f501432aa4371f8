// A core that uses what CONTRACT.md section 5 promises: iostreams, exceptions,
// threads with locks, std::async, regular expressions, clocks, random numbers,
// large and small allocations, signal handlers, positioned reads and writes. It
// checks each answer, keeps the contract and writes a short report.
//
// The launcher's system-call list is held against it both ways: it must run under
// the list, and for each name taken out something that is allowed to need it must
// fail. Another core that does no more than this one therefore drops in.
#include <fcntl.h>
#include <sched.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ctime>
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

// openat, read and lseek through an iostream's buffer.
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

// clock_nanosleep and a timed wait on a lock. A core that the host stops and lets
// go on comes back through restart_syscall, and sleeps no shorter for it; the sleep
// is long enough for that to happen.
bool sleeps_and_waits() {
  constexpr std::chrono::milliseconds kPause(25);
  const Clock::time_point start = Clock::now();
  std::this_thread::sleep_for(kPause);
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock lock(mutex);
  const bool timed_out = never.wait_for(lock, kPause) == std::cv_status::timeout;
  return timed_out && Clock::now() - start >= 2 * kPause;
}

// The clock of processor time, unlike the others, is a system call: clock_gettime.
bool counts_processor_time() {
  const std::clock_t before = std::clock();
  std::uint64_t mixed = 1;
  std::clock_t now = before;
  while (before >= 0 && now - before < CLOCKS_PER_SEC / 1000) {
    for (int i = 0; i < 1000; ++i) mixed = mixed * 6364136223846793005U + 1;
    now = std::clock();
  }
  return before >= 0 && mixed != 0;
}

// ioctl TCGETS: what a stream asks about a device before it reads. Standard input
// is there and at its end.
bool standard_input_is_empty() {
  return std::cin.peek() == std::char_traits<char>::eof();
}

// writev: a stream that holds a little and is given a lot.
bool streams_large_blocks() {
  const std::string large(std::size_t{1} << 16, 'L');
  {
    std::fstream out(core::kResultPath, std::ios::in | std::ios::out | std::ios::binary);
    out << "small";
    out.write(large.data(), static_cast<std::streamsize>(large.size()));
    if (!out.flush()) return false;
  }
  std::ifstream in(core::kResultPath, std::ios::binary);
  std::ostringstream back;
  back << in.rdbuf();
  return back.str() == "small" + large;
}

// pwrite64, pread64: threads that share one descriptor, each at its own place.
bool writes_at_places(int result) {
  constexpr int kThreads = 4;
  constexpr std::size_t kBlock = 4096;
  std::atomic<int> right{0};
  {
    std::vector<std::jthread> threads;
    threads.reserve(kThreads);
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&right, result, i] {
        const std::string block(kBlock, static_cast<char>('a' + i));
        const off_t place = static_cast<off_t>(kBlock) * (kThreads - 1 - i);
        std::string back(kBlock, ' ');
        if (::pwrite(result, block.data(), kBlock, place) == static_cast<ssize_t>(kBlock) &&
            ::pread(result, back.data(), kBlock, place) == static_cast<ssize_t>(kBlock) &&
            back == block) {
          ++right;
        }
      });
    }
  }
  return right == kThreads;
}

// fstat by its own number, as glibc 2.39 and later spell it; glibc 2.36 asks by
// newfstatat.
off_t size_of(int descriptor) {
  struct stat facts {};
  return ::syscall(SYS_fstat, descriptor, &facts) == 0 ? facts.st_size : -1;
}

// ftruncate: the result grows by a hole, and ends empty.
bool resizes(int result) {
  constexpr off_t kGrown = 100000;
  return ::ftruncate(result, kGrown) == 0 && size_of(result) == kGrown &&
         ::ftruncate(result, 0) == 0 && size_of(result) == 0;
}

bool edits_in_place() {
  const int result = ::open(core::kResultPath, O_RDWR | O_CLOEXEC);
  if (result < 0) return false;
  const bool right = writes_at_places(result) && resizes(result);
  return ::close(result) == 0 && right;
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

// sigaltstack: a handler with a stack of its own, as for the overflow of the other.
std::atomic<std::uintptr_t>& handler_place() {
  static std::atomic<std::uintptr_t> place{0};
  return place;
}

bool handles_on_own_stack() {
  std::vector<char> room(std::size_t{1} << 16);
  stack_t own{};
  stack_t before{};
  own.ss_sp = room.data();
  own.ss_size = room.size();
  if (::sigaltstack(&own, &before) != 0) return false;
  struct sigaction action {};
  action.sa_flags = SA_ONSTACK;
  action.sa_handler = [](int) {
    const char here = 0;
    handler_place() = reinterpret_cast<std::uintptr_t>(&here);
  };
  if (::sigaction(SIGUSR2, &action, nullptr) != 0 || std::raise(SIGUSR2) != 0) return false;
  const auto start = reinterpret_cast<std::uintptr_t>(room.data());
  const bool inside = handler_place() >= start && handler_place() < start + room.size();
  return ::sigaltstack(&before, nullptr) == 0 && inside;
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
  require(counts_processor_time(), "the processor's clock stands");
  require(handles_signals(), "a signal was lost");
  require(handles_on_own_stack(), "a handler ran on the wrong stack");
  require(standard_input_is_empty(), "standard input is not at its end");
  require(streams_large_blocks(), "a stream lost what it was given");
  require(edits_in_place(), "the result cannot be edited in place");
  require(looks_around(), "the host did not answer");
  std::ostringstream text;
  text << "exerciser: " << facts.bytes << " bytes, " << facts.lines << " lines; "
       << "threads async exceptions regex random clocks memory signals ok\n";
  return text.str();
}

// The checks of files need more room in the result than the report does.
core::ExitCode make_room() {
  const core::File result = core::open_result(core::kResultPath);
  if (!result.is_open()) return core::kExitUsage;
  constexpr std::size_t kRoom = 100000;
  return result.cut(kRoom) && result.cut(0) ? core::kExitOk : core::kExitResultLimit;
}

core::ExitCode run() {
  core::ignore_file_size_signal();
  if (const core::ExitCode code = make_room(); code != core::kExitOk) return code;
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
