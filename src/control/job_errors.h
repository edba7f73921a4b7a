// What is wrong with a job's files, told once per job and kind however often it happens, and how
// many lines of a job the log takes. Both keep a job from growing the log of the daemon.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace rubato::control {

class JobErrors {
 public:
  // Kinds that the log has already, as JobRecord::errors.
  void know(const nlohmann::json& errors);
  // Something of this kind was found `count` times. Told at its first time; `place` is where in the
  // job's folder, `message` what is wrong, what was expected and what follows.
  void note(const std::string& kind, const std::string& place, const std::string& message,
            std::int64_t count = 1);
  // The job is over: kinds that were found several times are told once more, with their number.
  void sum_up();
  // Bodies of the event `error` that were not taken yet: kind, place, message, count.
  std::vector<nlohmann::json> take();
  bool empty() const { return unsaid_.empty(); }

 private:
  struct Kind {
    std::string place;
    std::string message;
    std::int64_t count = 0;
    std::int64_t told = 0;
  };
  void say(const std::string& name, Kind& kind);

  std::map<std::string, Kind> kinds_;
  std::vector<std::string> unsaid_;  // their kinds
};

// How many lines of a job are recorded: kLineBurst at once and kLinesPerSecond in the long run. A
// line longer than kLineUnit bytes counts as several.
class LineBudget {
 public:
  static constexpr double kLineBurst = 1000;
  static constexpr double kLinesPerSecond = 1;
  static constexpr std::int64_t kLineUnit = 512;

  // Whether a line of this length may be recorded now.
  bool take(std::int64_t bytes, std::chrono::steady_clock::time_point now);

 private:
  double left_ = kLineBurst;
  std::chrono::steady_clock::time_point at_{};
};

}  // namespace rubato::control
