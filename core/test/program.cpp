// Children are made by fork and exec; the shipped core is run under chroot, in a
// user namespace of its own where the tests are not root.
#include "program.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "confine.hpp"
#include "harness.hpp"

namespace test {
namespace {

constexpr int kCannotStart = 127;
constexpr int kTimeoutMs = 120000;

struct Pipe {
  int read_end = -1;
  int write_end = -1;

  Pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw Failed("cannot make a pipe");
    read_end = ends[0];
    write_end = ends[1];
  }
  ~Pipe() {
    close_read();
    close_write();
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  void close_read() { shut(read_end); }
  void close_write() { shut(write_end); }

 private:
  static void shut(int& end) {
    if (end >= 0) ::close(end);
    end = -1;
  }
};

void exchange(Pipe& to_child, Pipe& from_child, std::string_view input, std::string& output,
              pid_t child) {
  ::fcntl(to_child.write_end, F_SETFL, O_NONBLOCK);
  if (input.empty()) to_child.close_write();
  char buffer[1 << 16];
  for (;;) {
    pollfd ends[2] = {{from_child.read_end, POLLIN, 0}, {to_child.write_end, POLLOUT, 0}};
    if (::poll(ends, 2, kTimeoutMs) == 0) {
      ::kill(child, SIGKILL);
      throw Failed("a program did not end in time");
    }
    if ((ends[1].revents & (POLLOUT | POLLERR)) != 0) {
      const ssize_t put = ::write(to_child.write_end, input.data(), input.size());
      if (put > 0) input.remove_prefix(static_cast<std::size_t>(put));
      if (input.empty() || (put < 0 && errno != EAGAIN)) to_child.close_write();
    }
    if ((ends[0].revents & (POLLIN | POLLHUP)) != 0) {
      const ssize_t got = ::read(from_child.read_end, buffer, sizeof buffer);
      if (got <= 0) return;
      output.append(buffer, static_cast<std::size_t>(got));
    }
  }
}

void wait_for(pid_t child, Run& run) {
  int status = 0;
  rusage usage{};
  while (::wait4(child, &status, 0, &usage) < 0) {
    if (errno != EINTR) throw Failed("cannot wait for a child");
  }
  if (WIFEXITED(status)) run.status = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) run.signal = WTERMSIG(status);
  run.cpu_seconds = static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                    static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

void set_limit(__rlimit_resource resource, std::uint64_t value) {
  if (value == 0) return;
  const rlimit limit{value, value};
  if (::setrlimit(resource, &limit) != 0) ::_exit(kCannotStart);
}

// Root may chroot; anybody else gets a user namespace to be root in first.
void enter_root(const std::string& path) {
  if (::geteuid() != 0 && ::unshare(CLONE_NEWUSER) != 0) ::_exit(kCannotStart);
  if (::chroot(path.c_str()) != 0 || ::chdir("/") != 0) ::_exit(kCannotStart);
}

[[noreturn]] void become_core(const std::string& root, const Bounds& bounds) {
  enter_root(root);
  for (int fd = 0; fd < 3; ++fd) ::close(fd);
  if (bounds.confined && !confine_to_contract()) ::_exit(kCannotStart);
  set_limit(RLIMIT_FSIZE, bounds.result_bytes);
  set_limit(RLIMIT_AS, bounds.address_space);
  char name[] = "/core";
  char extra[] = "--help";
  char* argv[] = {name, bounds.with_argument ? extra : nullptr, nullptr};
  char* environment[] = {nullptr};
  ::execve(name, argv, environment);
  ::_exit(kCannotStart);
}

}  // namespace

Run run_program(const std::vector<std::string>& argv, std::string_view input) {
  std::signal(SIGPIPE, SIG_IGN);
  Pipe to_child;
  Pipe from_child;
  std::vector<char*> arguments;
  arguments.reserve(argv.size() + 1);
  for (const std::string& argument : argv) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  const pid_t child = ::fork();
  if (child < 0) throw Failed("cannot fork");
  if (child == 0) {
    ::dup2(to_child.read_end, 0);
    ::dup2(from_child.write_end, 1);
    const int null = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
    ::dup2(null, 2);
    ::execvp(arguments[0], arguments.data());
    ::_exit(kCannotStart);
  }
  to_child.close_read();
  from_child.close_write();
  Run run;
  exchange(to_child, from_child, input, run.output, child);
  wait_for(child, run);
  if (run.status == kCannotStart) throw Failed("cannot run " + argv[0]);
  return run;
}

Run run_shipped(const std::string& program, std::string_view input, const Bounds& bounds) {
  namespace fs = std::filesystem;
  const Folder root;
  fs::create_directories(root.path() + "/in");
  fs::create_directories(root.path() + "/out");
  fs::copy_file(settings().programs + "/" + program, root.path() + "/core");
  if (!bounds.without_input) write_file(root.path() + "/in/input", input);
  if (!bounds.without_result) write_file(root.path() + "/out/result", "");
  const pid_t child = ::fork();
  if (child < 0) throw Failed("cannot fork");
  if (child == 0) become_core(root.path(), bounds);
  Run run;
  wait_for(child, run);
  if (run.status == kCannotStart) {
    throw Failed("cannot run the core under chroot: needs root, or user namespaces for everyone");
  }
  if (fs::exists(root.path() + "/out/result")) run.output = read_file(root.path() + "/out/result");
  std::size_t entries = 0;
  for (const auto& entry : fs::recursive_directory_iterator(root.path())) {
    if (entry.is_regular_file()) ++entries;
  }
  const std::size_t expected =
      3U - (bounds.without_input ? 1U : 0U) - (bounds.without_result ? 1U : 0U);
  if (entries != expected) throw Failed("the core made or removed files");
  return run;
}

Folder::Folder() {
  const char* base = std::getenv("TMPDIR");
  path_ = std::string(base != nullptr ? base : "/tmp") + "/core-test-XXXXXX";
  if (::mkdtemp(path_.data()) == nullptr) throw Failed("cannot make a folder at " + path_);
}

Folder::~Folder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw Failed("cannot read " + path);
  std::ostringstream bytes;
  bytes << in.rdbuf();
  return bytes.str();
}

void write_file(const std::string& path, std::string_view bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!out.flush()) throw Failed("cannot write " + path);
}

std::string bytecode(std::string_view text) {
  const Run run = run_program({"luac5.4", "-s", "-o", "-", "-"}, text);
  return run.status == 0 ? run.output : std::string();
}

}  // namespace test
