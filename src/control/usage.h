// Device time of jobs, for accounts (docs/usage.md states what counts). The events alone decide it:
//
//   held     the devices that the job's processes occupied (event `held`)
//   trained  of these, the devices whose workers were members of the job's current view (event
//            `view`), while the job was not stalled. All held time of an ordinary program, which
//            has no views, is trained.
//
// Time belongs to the day (UTC) on which it passed. Time that runs backwards counts as none.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "control/state.h"

namespace rubato::control {

inline constexpr double kSecondsPerDay = 86'400;
using Day = std::int64_t;  // days since 1970-01-01, UTC
Day day_of(double at);
// "2026-11-16"
std::optional<Day> parse_day(std::string_view text);
std::string day_text(Day day);

struct DeviceTime {
  double held_s = 0;
  double trained_s = 0;
  DeviceTime& operator+=(const DeviceTime& other) {
    held_s += other.held_s;
    trained_s += other.trained_s;
    return *this;
  }
};
using DeviceTimeByDay = std::map<Day, DeviceTime>;

// One job that has held devices, until it has ended and holds none.
class UsageMeter {
 public:
  UsageMeter() = default;
  // `ordinary`: the owner said that the program does not use the runtime.
  UsageMeter(double at, bool ordinary) : since_(at), first_day_(day_of(at)), ordinary_(ordinary) {}

  // Takes notice of an event of the job. Returns the device time up to it.
  DeviceTimeByDay note(const Event& event);
  // The device time since the last event, if nothing happens until `now`.
  DeviceTimeByDay until(double now) const;
  // Nothing follows: it has ended and holds nothing.
  bool over() const { return ended_ && held_ == 0; }
  // True once for a job that has ended without ever having spoken to the runtime: it was an
  // ordinary program, and all that it held since first_day() was trained.
  bool take_ordinary() { return ended_ && !spoke_ && !std::exchange(ordinary_, true); }
  Day first_day() const { return first_day_; }
  int held() const { return held_; }

  // from_json(to_json()) is the same.
  nlohmann::json to_json() const;
  static Result<UsageMeter> from_json(const nlohmann::json& object);

 private:
  DeviceTimeByDay between(double from, double to, double idle_from) const;
  double training() const;

  double since_ = 0;
  Day first_day_ = 0;
  int held_ = 0;
  int members_ = 0;  // of the current view
  bool ordinary_ = false;
  bool spoke_ = false;  // to the runtime
  bool stalled_ = false;
  bool ended_ = false;
};

}  // namespace rubato::control
