// What the registry of a job costs: a read, and a new version, from one writer.
//
//   build/bin/registry_latency file:/tmp/x etcd:http://127.0.0.1:2379/bench
//
// The ratio is that of the median to a write and fsync of 4 KiB in the folder for temporary files,
// which any store pays that survives a power failure.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "elastic/job/registry_url.h"

namespace {

using rubato::elastic::Registry;
using std::chrono::steady_clock;

constexpr int kRounds = 500;

struct Times {
  double median_ms;
  double p99_ms;
};

Times measure(const std::function<bool(int)>& call) {
  std::vector<double> ms;
  for (int i = 0; i < kRounds; ++i) {
    const auto began = steady_clock::now();
    if (!call(i)) return {-1, -1};
    ms.push_back(std::chrono::duration<double, std::milli>(steady_clock::now() - began).count());
  }
  std::sort(ms.begin(), ms.end());
  return {ms[kRounds / 2], ms[kRounds * 99 / 100]};
}

double fsync_ms() {
  std::string path = "/tmp/rubato-bench-XXXXXX";
  const int file = mkstemp(path.data());
  const std::string page(4096, 'x');
  const Times times = measure(
      [&](int) { return write(file, page.data(), page.size()) == 4096 && fdatasync(file) == 0; });
  close(file);
  unlink(path.c_str());
  return times.median_ms;
}

bool print_one(const std::string& url, double limit_ms) {
  const std::string own = rubato::elastic::registry_within(url, "bench", std::to_string(getpid()));
  if (!rubato::elastic::create_registry(own).ok()) return false;
  const auto registry = rubato::elastic::open_registry(own);
  if (!registry.ok()) {
    fmt::print(stderr, "registry_latency: {}\n", registry.error().message);
    return false;
  }
  const std::string view(2000, 'v');  // about ten workers
  const Times swaps = measure([&](int i) {
    const auto won = (*registry)->compare_and_swap("view", i, view);
    if (!won.ok()) fmt::print(stderr, "registry_latency: {}\n", won.error().message);
    return won.ok() && *won;
  });
  const Times reads = measure([&](int) { return (*registry)->get("view").ok(); });
  fmt::print("{:<44} {:>8.2f} {:>8.2f} {:>8.2f} {:>8.2f} {:>8.2f}\n", url, swaps.median_ms,
             swaps.p99_ms, swaps.median_ms / limit_ms, reads.median_ms, reads.p99_ms);
  return swaps.median_ms > 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "registry_latency: expected URLs, as for 'rubato run --registry'\n");
    return 2;
  }
  const double limit_ms = fsync_ms();
  fmt::print("fsync of 4 KiB: {:.2f} ms\n\n{:<44} {:>8} {:>8} {:>8} {:>8} {:>8}\n", limit_ms,
             "registry", "write ms", "p99", "/ fsync", "read ms", "p99");
  bool good = true;
  for (int i = 1; i < argc; ++i) good = print_one(argv[i], limit_ms) && good;
  return good ? 0 : 1;
}
