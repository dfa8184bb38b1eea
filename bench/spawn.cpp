// bench_spawn REPORT COPIES PROGRAM [ARGUMENTS...]: starts that many copies at once, waits for all
// of them, and writes what it took as JSON: wall_ms, and peak_rss_mb of the largest process.
//
// A small program of its own, because Linux counts the memory of whoever calls exec into the new
// program's peak: started from Python, nothing would weigh less than Python.
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

extern char** environ;

int main(int argc, char** argv) {
  const int copies = argc < 4 ? 0 : std::atoi(argv[2]);
  if (copies < 1) {
    std::fprintf(stderr, "usage: %s REPORT COPIES PROGRAM [ARGUMENTS...]\n", argv[0]);
    return 2;
  }
  const auto begin = std::chrono::steady_clock::now();
  for (int copy = 0; copy < copies; ++copy) {
    pid_t pid = 0;
    const int error = posix_spawnp(&pid, argv[3], nullptr, nullptr, argv + 3, environ);
    if (error != 0) {
      std::fprintf(stderr, "cannot start %s: %s\n", argv[3], std::strerror(error));
      return 2;
    }
  }
  int worst = 0;
  long peak_kib = 0;
  for (int copy = 0; copy < copies; ++copy) {
    int status = 0;
    rusage usage{};
    wait4(-1, &status, 0, &usage);
    worst = std::max(worst, WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    peak_kib = std::max(peak_kib, usage.ru_maxrss);
  }
  const std::chrono::duration<double, std::milli> wall = std::chrono::steady_clock::now() - begin;
  std::ofstream(argv[1]) << nlohmann::json{{"wall_ms", wall.count()},
                                           {"peak_rss_mb", static_cast<double>(peak_kib) / 1024}};
  return worst;
}
