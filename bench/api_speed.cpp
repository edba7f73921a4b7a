// How fast the API is with 10,000 queued jobs (`make bench-api`): the time to list all of them, and
// durable submissions per second over 8 connections. Uses a real controller with its store on this
// disk, and a real server. All devices are reserved, so that jobs stay queued.
#include <fmt/format.h>
#include <httplib.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <thread>
#include <vector>

#include "api/server.h"
#include "base/file.h"
#include "base/stats.h"
#include "base/text.h"
#include "control/controller.h"

namespace rubato::bench {
namespace {

using api::Server;
using control::Caller;
using control::Controller;
using Clock = std::chrono::steady_clock;

constexpr int kJobs = 10'000;
constexpr int kConnections = 8;
constexpr double kListLimit = 100;    // ms
constexpr double kSubmitLimit = 500;  // per second

double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

template <typename T>
T or_die(Result<T> result) {
  if (result.ok()) return std::move(*result);
  fmt::print(stderr, "api_speed: {}\n", result.error().message);
  std::exit(1);
}

std::string document(int i) {
  return fmt::format(
      R"({{"run": ["/bin/true", "--seed", "{}"], "name": "train-{}", "devices": "1..4", "epochs": 10}})",
      i, i);
}

// Submits `count` jobs over the connections. Returns the total time and the time of each
// submission.
double submit_all(const Server& server, const std::string& token, int count,
                  std::vector<double>& times_ms) {
  std::atomic<int> next{0};
  std::atomic<int> refused{0};
  std::mutex mutex;
  const Clock::time_point begin = Clock::now();
  std::vector<std::thread> threads;
  for (int c = 0; c < kConnections; ++c) {
    threads.emplace_back([&] {
      httplib::Client client(server.url());
      client.set_keep_alive(true);
      client.set_tcp_nodelay(true);
      client.set_read_timeout(60);
      client.set_bearer_token_auth(token);
      for (int i = next++; i < count; i = next++) {
        const Clock::time_point sent = Clock::now();
        const auto answer = client.Post("/api/v1/jobs", document(i), "application/json");
        const double took = ms_since(sent);
        if (!answer || answer->status != 201) ++refused;
        const std::lock_guard lock(mutex);
        times_ms.push_back(took);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const double seconds = ms_since(begin) / 1000;
  if (refused > 0) {
    fmt::print(stderr, "api_speed: {} submissions were refused\n", refused.load());
    std::exit(1);
  }
  return seconds;
}

bool print_row(const char* what, double value, const char* unit, const char* relation, double limit,
               bool kept) {
  fmt::print("{:<44} {:>10.1f} {:<4} limit {} {:<6.0f} {}\n", what, value, unit, relation, limit,
             kept ? "kept" : "NOT KEPT");
  return kept;
}

int run() {
  std::string folder = (std::filesystem::current_path() / "api-speed-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return 1;
  auto controller = or_die(Controller::start(
      {.folder = folder, .supervisor = "/bin/false", .machine = {.type = "cpu", .devices = 4}}));
  or_die(controller->reserve(Caller{.tenant = "", .admin = true}, 4, 86'400));
  auto server = or_die(Server::start(*controller, {}));
  const std::string token(trim(or_die(read_file(folder + "/admin.token"))));

  std::vector<double> submit_ms;
  const double seconds = submit_all(*server, token, kJobs, submit_ms);

  httplib::Client client(server->url());
  client.set_keep_alive(true);
  client.set_tcp_nodelay(true);
  client.set_bearer_token_auth(token);
  std::vector<double> list_ms;
  std::size_t bytes = 0;
  for (int i = 0; i < 110; ++i) {
    const Clock::time_point asked = Clock::now();
    const auto answer = client.Get("/api/v1/jobs?active=true&limit=10000");
    const double took = ms_since(asked);
    if (!answer || answer->status != 200) return 1;
    bytes = answer->body.size();
    if (i >= 10) list_ms.push_back(took);
  }
  // The same while jobs are being submitted.
  std::vector<double> busy_ms;
  std::vector<double> busy_submit_ms;
  std::atomic<bool> over{false};
  double busy_seconds = 0;
  std::thread submitting([&] {
    busy_seconds = submit_all(*server, token, 4000, busy_submit_ms);
    over = true;
  });
  while (!over) {
    const Clock::time_point asked = Clock::now();
    const auto answer = client.Get("/api/v1/jobs?active=true&limit=10000");
    if (answer && answer->status == 200) busy_ms.push_back(ms_since(asked));
  }
  submitting.join();

  const std::vector<double> list = sorted_copy(list_ms);
  const std::vector<double> busy = sorted_copy(busy_ms);
  const std::vector<double> submits = sorted_copy(submit_ms);
  const control::ControllerMetrics metrics = controller->metrics();
  const std::vector<double> rounds = sorted_copy(metrics.round_total_s);
  fmt::print("{} queued jobs, list of {:.1f} MB\n", kJobs, static_cast<double>(bytes) / 1e6);
  bool kept = true;
  const double p99 = percentile_sorted(list, 99);
  print_row("GET /jobs, 10,000 jobs, p50", percentile_sorted(list, 50), "ms", "<", kListLimit,
            percentile_sorted(list, 50) < kListLimit);
  kept = print_row("GET /jobs, 10,000 jobs, p99", p99, "ms", "<", kListLimit, p99 < kListLimit) &&
         kept;
  const double rate = kJobs / seconds;
  kept = print_row("POST /jobs, durable, 8 connections", rate, "/s", ">", kSubmitLimit,
                   rate > kSubmitLimit) &&
         kept;
  fmt::print("{:<44} {:>10.1f} ms\n", "  of one submission, p50", percentile_sorted(submits, 50));
  fmt::print("{:<44} {:>10.1f} ms\n", "  of one submission, p99", percentile_sorted(submits, 99));
  fmt::print("both at once: list p50 {:.1f} ms, p99 {:.1f} ms ({} lists); {:.0f} submissions/s\n",
             percentile_sorted(busy, 50), percentile_sorted(busy, 99), busy.size(),
             4000 / busy_seconds);
  if (!rounds.empty()) {
    fmt::print("scheduling rounds meanwhile: {}, p50 {:.1f} ms, longest {:.1f} ms\n",
               metrics.rounds, 1000 * percentile_sorted(rounds, 50), 1000 * rounds.back());
  }
  server.reset();
  controller.reset();
  remove_tree(folder);
  return kept ? 0 : 1;
}

}  // namespace
}  // namespace rubato::bench

int main() { return rubato::bench::run(); }
