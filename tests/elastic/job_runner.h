// Starts real jobs with the `rubato` program and disturbs them, for tests.
#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "base/file.h"
#include "base/json_text.h"
#include "elastic/job/job_folder.h"
#include "elastic/job/registry_url.h"
#include "elastic/memory/board.h"

namespace rubato::elastic {

// How long tests wait for something that must happen, however busy the machine is. Giving up
// earlier would gain nothing: a test that waits in vain has failed.
inline constexpr std::chrono::seconds kPatience{200};

// The step of the newest durable checkpoint; -1: none. Checkpoints are written in the background,
// so the disk decides how many steps later they appear.
inline std::int64_t newest_checkpoint(const JobFolder& folder) {
  constexpr std::string_view kBefore = "checkpoint-";
  const Result<std::vector<std::string>> names = list_directory(folder.checkpoint_folder());
  std::int64_t newest = -1;
  if (!names.ok()) return newest;
  for (const std::string& name : *names) {
    if (!name.starts_with(kBefore) || !name.ends_with(".rubato")) continue;
    newest = std::max<std::int64_t>(newest, std::atoll(name.c_str() + kBefore.size()));
  }
  return newest;
}

class RunningJob {
 public:
  // `arguments` are those of `rubato run`, without --dir.
  RunningJob(const std::string& rubato, std::string folder, std::vector<std::string> arguments)
      : folder_(std::move(folder)) {
    std::vector<std::string> all{rubato, "run", "--dir", folder_.path()};
    all.insert(all.end(), arguments.begin(), arguments.end());
    std::vector<char*> raw;
    raw.reserve(all.size() + 1);
    for (std::string& part : all) raw.push_back(part.data());
    raw.push_back(nullptr);
    std::filesystem::create_directories(folder_.path());
    const std::string log = folder_.path() + "/launcher.log";
    pid_ = fork();
    if (pid_ == 0) {
      setenv("RUBATO_HOME", (folder_.path() + "/home").c_str(), 1);
      const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
      dup2(out, STDOUT_FILENO);
      dup2(out, STDERR_FILENO);
      execv(raw[0], raw.data());
      _exit(127);
    }
  }
  RunningJob(const RunningJob&) = delete;
  RunningJob& operator=(const RunningJob&) = delete;
  ~RunningJob() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);  // its workers die with it
      wait();
    }
  }

  const JobFolder& folder() const { return folder_; }
  pid_t pid() const { return pid_; }
  bool ended() {
    if (pid_ <= 0) return true;
    if (waitpid(pid_, &status_, WNOHANG) != pid_) return false;
    pid_ = -1;
    return true;
  }
  // The exit code; -1 after a signal.
  int wait() {
    if (pid_ > 0) waitpid(pid_, &status_, 0);
    pid_ = -1;
    return WIFEXITED(status_) ? WEXITSTATUS(status_) : -1;
  }
  // Waits for a condition while the job runs; false if the job ends or kPatience passes first.
  bool until(const std::function<bool()>& condition) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    for (;;) {
      const bool over = ended() || std::chrono::steady_clock::now() > deadline;
      if (condition()) return true;  // also if it became true with the end of the job
      if (over) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  View view() {
    if (!open_registry()) return {};
    Result<View> newest = newest_view(*registry_);
    return newest.ok() ? *newest : View{};
  }
  // Completed steps so far; -1 if there is no job yet.
  std::int64_t step() {
    const View now = view();
    if (now.empty()) return -1;
    if (now.board != board_name_) {
      Result<Board> board = Board::open(now.board);
      if (!board.ok()) return -1;
      board_ = std::make_unique<Board>(std::move(*board));
      board_name_ = now.board;
    }
    return board_->completed() + 1;
  }
  std::int64_t checkpoint() const { return newest_checkpoint(folder_); }
  bool change(const std::function<void(Target&)>& how) {
    if (!open_registry()) return false;
    return change_target(*registry_,
                         [&](Target& target) {
                           how(target);
                           target.at = unix_seconds();
                           return ok_status();
                         })
        .ok();
  }
  nlohmann::json result() const {
    const Result<std::string> text = read_file(folder_.result_file());
    return parse_json(text.ok() ? *text : "{}");
  }
  std::string hash() const { return result().value("state_sha256", ""); }
  std::vector<nlohmann::json> events() const {
    std::vector<nlohmann::json> all;
    const Result<std::string> text = read_file(folder_.events_file());
    std::string_view rest = text.ok() ? std::string_view(*text) : std::string_view();
    for (std::size_t end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
      all.push_back(parse_json(rest.substr(0, end)));
      rest.remove_prefix(end + 1);
    }
    return all;
  }
  // Output of the launcher and the workers, for messages of failed tests.
  std::string logs() const {
    std::string all;
    const auto add = [&](const std::string& path) {
      const Result<std::string> text = read_file(path);
      if (text.ok() && !text->empty()) all += "--- " + path + "\n" + *text;
    };
    add(folder_.path() + "/launcher.log");
    const Result<std::vector<std::string>> names = list_directory(folder_.path() + "/logs");
    if (names.ok()) {
      for (const std::string& name : *names) add(folder_.path() + "/logs/" + name);
    }
    return all;
  }

 private:
  bool open_registry() {
    if (registry_) return true;
    if (!is_file(folder_.settings_file())) return false;
    const Result<JobSettings> settings = folder_.read_settings();
    if (!settings.ok()) return false;
    auto opened = rubato::elastic::open_registry(folder_, *settings);
    if (opened.ok()) registry_ = std::move(*opened);
    return registry_ != nullptr;
  }

  JobFolder folder_;
  pid_t pid_ = -1;
  int status_ = 0;
  std::unique_ptr<Registry> registry_;
  std::unique_ptr<Board> board_;
  std::string board_name_;
};

}  // namespace rubato::elastic
