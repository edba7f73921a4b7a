#include "elastic/launch/ordinary_program.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstring>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/file.h"
#include "base/json_text.h"

namespace rubato::elastic {

namespace {

using std::chrono::steady_clock;
using State = TryRecord::State;

constexpr double kLongestRetryPause = 60;
constexpr int kLinesOfLog = 5;
// How long to wait for room on a full disk before the end of a program remains unrecorded.
constexpr auto kPatienceWithDisk = std::chrono::minutes(10);
constexpr auto kDiskLook = std::chrono::milliseconds(100);

double seconds_since(steady_clock::time_point then) {
  return std::chrono::duration<double>(steady_clock::now() - then).count();
}

// What has happened cannot be taken back: waits until it can be written.
Status write_at_last(const JobFolder& folder, const TryRecord& record) {
  const auto began = steady_clock::now();
  for (;;) {
    Status written = write_tries(folder, record);
    if (written.ok() || steady_clock::now() - began > kPatienceWithDisk ||
        !is_directory(folder.path())) {
      return written;
    }
    std::this_thread::sleep_for(kDiskLook);
  }
}

}  // namespace

Result<std::optional<LaunchResult>> OrdinaryProgram::resume() {
  Result<TryRecord> before = read_tries(folder_);
  if (!before.ok()) return before.error();
  record_ = *before;
  if (record_.state == State::kRunning) {
    record_.state = State::kEnded;
    record_.exit_code.reset();
    record_.signal.reset();
    Status written = write_tries(folder_, record_);
    if (!written.ok()) return written.error();
  }
  if (record_.state != State::kEnded) return std::optional<LaunchResult>();
  return conclude();
}

Status OrdinaryProgram::begin(int worker) {
  TryRecord next = record_;
  if (next.state != State::kStopped) ++next.tries;
  next.state = State::kRunning;
  next.worker = worker;
  Status written = write_tries(folder_, next);
  if (!written.ok()) return written;
  record_ = next;
  started_ = Clock::now();
  return ok_status();
}

void OrdinaryProgram::not_started() {
  record_.state = State::kStopped;
  static_cast<void>(write_at_last(folder_, record_));
}

void OrdinaryProgram::stop(const WorkerProcesses& processes) {
  const auto send = [&](int signal) {
    for (const WorkerProcess& process : processes.all()) {
      WorkerProcesses::send_to_group(process, signal);
    }
  };
  if (!stop_since_) {
    // From now on the program's end says nothing about the program.
    TryRecord stopped = record_;
    stopped.state = State::kStopped;
    if (!write_tries(folder_, stopped).ok()) return;  // tried again
    if (processes.has_ended()) return;                // by itself, meanwhile: that counts
    record_ = stopped;
    stop_since_ = Clock::now();
    send(SIGTERM);
  }
  if (seconds_since(*stop_since_) >= rules_.grace_s) send(SIGKILL);
}

Result<std::optional<LaunchResult>> OrdinaryProgram::ended(int status) {
  record_.run_s += seconds_since(started_);
  const bool stopped = record_.state == State::kStopped;
  stop_since_.reset();
  if (!stopped) {
    record_.state = State::kEnded;
    record_.exit_code.reset();
    record_.signal.reset();
    if (WIFEXITED(status)) record_.exit_code = WEXITSTATUS(status);
    if (WIFSIGNALED(status)) record_.signal = WTERMSIG(status);
  }
  Status written = write_at_last(folder_, record_);
  if (!written.ok()) return written.error();
  if (stopped) return std::optional<LaunchResult>();
  return conclude();
}

Result<std::optional<LaunchResult>> OrdinaryProgram::conclude() {
  const bool succeeded = record_.exit_code == 0;
  if (!rules_.stated) {
    static_cast<void>(folder_.append_event(
        {{"type", "warning"}, {"at", unix_seconds()}, {"message", kNotARubatoProgram}}));
  }
  if (succeeded) {
    Result<LaunchResult> result = finished();
    if (!result.ok()) return result.error();
    return std::optional<LaunchResult>(std::move(*result));
  }
  if (record_.tries > rules_.retries) return std::optional<LaunchResult>(failed());
  const double pause = std::min(std::ldexp(rules_.retry_after_s, std::min(record_.tries - 1, 30)),
                                kLongestRetryPause);
  next_start_ = Clock::now() +
                std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(pause));
  static_cast<void>(folder_.append_event(
      {{"type", "failed"},
       {"reason", fmt::format("{} (try {} of {}); the next try follows in {:.3g} s", how_it_ended(),
                              record_.tries, rules_.retries + 1, pause)}}));
  return std::optional<LaunchResult>();
}

Result<LaunchResult> OrdinaryProgram::finished() const {
  nlohmann::json result = {
      {"mode", "opaque"}, {"exit_code", 0}, {"tries", record_.tries}, {"run_s", record_.run_s}};
  if (!rules_.stated) result["hint"] = kNotARubatoProgram;
  Status written = write_file(folder_.result_file(), indented_json(result) + "\n");
  if (!written.ok()) return written.error();
  return LaunchResult{LaunchResult::State::kFinished, ""};
}

LaunchResult OrdinaryProgram::failed() const {
  std::string message = how_it_ended();
  if (rules_.retries > 0) {
    message += fmt::format(" (try {} of {})", record_.tries, rules_.retries + 1);
  }
  const std::string lines = last_lines(folder_.log_file(record_.worker), kLinesOfLog);
  if (!lines.empty()) message += "; the end of its log:\n" + lines;
  if (!rules_.stated)
    message += fmt::format("{}{}", lines.empty() ? "; " : "\n", kNotARubatoProgram);
  return {LaunchResult::State::kFailed, message};
}

std::string OrdinaryProgram::how_it_ended() const {
  if (record_.exit_code) return fmt::format("the program ended with code {}", *record_.exit_code);
  if (record_.signal) {
    return fmt::format("the program was killed by signal {} ({})", *record_.signal,
                       strsignal(*record_.signal));
  }
  return "its supervisor was killed or the machine restarted while the program ran, so nobody saw "
         "how it ended; only 'retries' start it again";
}

}  // namespace rubato::elastic
