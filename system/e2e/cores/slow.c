// A core that keeps the contract and takes its time: it sleeps five seconds, then
// copies. Long enough for a worker to be killed in the middle of the run.
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

int main(void) {
  struct timespec wait = {5, 0};
  nanosleep(&wait, 0);
  int in = open("/in/input", O_RDONLY), out = open("/out/result", O_WRONLY);
  if (in < 0 || out < 0) return 70;
  char buffer[65536];
  for (ssize_t n; (n = read(in, buffer, sizeof buffer)) != 0;) {
    if (n < 0) return 70;
    for (ssize_t done = 0; done < n;) {
      ssize_t w = write(out, buffer + done, (size_t)(n - done));
      if (w <= 0) return 5;
      done += w;
    }
  }
  return 0;
}
