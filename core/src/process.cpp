// Plain system calls only: open, read, write, ftruncate, close (CONTRACT.md §5).
#include "core/process.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

namespace core {
File::~File() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::ptrdiff_t File::read(char* buffer, std::size_t size) const {
  ssize_t got = 0;
  do got = ::read(descriptor_, buffer, size);
  while (got < 0 && errno == EINTR);
  return got;
}

ExitCode File::write(std::string_view bytes) const {
  while (!bytes.empty()) {
    const ssize_t put = ::write(descriptor_, bytes.data(), bytes.size());
    if (put >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(put));
    } else if (errno == EFBIG || errno == ENOSPC || errno == EDQUOT) {
      return kExitResultLimit;
    } else if (errno != EINTR) {
      return kExitInternal;
    }
  }
  return kExitOk;
}

bool File::cut(std::size_t size) const {
  return ::ftruncate(descriptor_, static_cast<off_t>(size)) == 0;
}

File open_input(const char* path) {
  return File(::open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY));
}

File open_result(const char* path) {
  return File(::open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW));
}

void ignore_file_size_signal() {
  static_cast<void>(std::signal(SIGXFSZ, SIG_IGN));
}

}  // namespace core
