#include "control/steady_time.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json_text.h"

namespace rubato::control {

namespace {

std::string boot_of_this_computer() {
  const Result<std::string> text = read_file("/proc/sys/kernel/random/boot_id");
  return text.ok() ? text->substr(0, text->find('\n')) : "";
}

// What the file of an earlier process says. Empty, missing or damaged: nothing.
struct SavedClock {
  std::string boot{};
  double elapsed = 0;
  double now = 0;
  double steady = 0;
};

SavedClock read_clock(const std::string& file) {
  const Result<std::string> text = read_file(file);
  if (!text.ok()) return {};
  const nlohmann::json saved = parse_json(*text);
  try {
    return {.boot = saved.at("boot").get<std::string>(),
            .elapsed = saved.at("elapsed").get<double>(),
            .now = saved.at("now").get<double>(),
            .steady = saved.at("steady").get<double>()};
  } catch (const nlohmann::json::exception&) {
    return {};
  }
}

}  // namespace

TimeSource computer_time() {
  return {.wall =
              [] {
                return std::chrono::duration<double>(
                           std::chrono::system_clock::now().time_since_epoch())
                    .count();
              },
          .elapsed =
              [] {
                timespec now{};
                clock_gettime(CLOCK_BOOTTIME, &now);
                return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
              },
          .boot = boot_of_this_computer()};
}

SteadyTime::SteadyTime(TimeSource source, double at_least, const std::string& file)
    : source_(std::move(source)),
      now_(std::max(source_.wall(), at_least)),
      elapsed_(source_.elapsed()) {
  steady_ahead_ = now_ - elapsed_;
  if (file.empty()) return;
  const SavedClock saved = read_clock(file);
  if (saved.steady > 0) {
    const double passed = saved.boot == source_.boot ? elapsed_ - saved.elapsed : now_ - saved.now;
    steady_ahead_ = saved.steady + std::max(0.0, passed) - elapsed_;
  }
  // If it cannot be written, the one before goes on to be right, unless the computer restarts.
  static_cast<void>(write_file(file, nlohmann::json{{"boot", source_.boot},
                                                    {"elapsed", elapsed_},
                                                    {"now", now_},
                                                    {"steady", steady_ahead_ + elapsed_}}
                                         .dump()));
}

double SteadyTime::steady() const {
  const MutexLock lock(mutex_);
  return steady_ahead_ + std::max(elapsed_, source_.elapsed());
}

double SteadyTime::now() const {
  const MutexLock lock(mutex_);
  const double elapsed = source_.elapsed();
  const double passed = std::max(0.0, elapsed - elapsed_);
  const double difference = source_.wall() - (now_ + passed);
  now_ += passed + std::clamp(difference, -kCatchUp * passed, kCatchUp * passed);
  elapsed_ = std::max(elapsed_, elapsed);
  return now_;
}

}  // namespace rubato::control
