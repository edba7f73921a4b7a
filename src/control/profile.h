// What was measured of a training program while it ran: seconds of a step by devices and batch, and
// what it took to give it other workers.
// Kept by program (profile_key), so that the next job of the same program is known from its start.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "control/job_document.h"
#include "control/state.h"
#include "model/speed.h"

namespace rubato::control {

// Jobs with the same key take the same time: program, arguments, mode, logical workers.
std::string profile_key(const JobDocument& document);

struct ProfilePoint {
  int devices = 0;
  std::int64_t batch = 0;  // samples of a step, over all workers
  Seconds step_s = 0;
  int reports = 1;  // how often it was measured
  double at = 0;    // when it was last, seconds since 1970; not kept in JSON, as `reports`
};

class Profile {
 public:
  Profile() = default;
  // `logical_workers`: of a consistent or rigid job; 0 for an adaptive one, and while the program
  // has not said its number.
  explicit Profile(int logical_workers) : logical_workers_(logical_workers) {}
  static Result<Profile> from_json(const nlohmann::json& json);
  nlohmann::json to_json() const;

  enum class News {
    kNone,
    kMoved,  // a point moved by a tenth since the last news of it
    kSize,   // a size was measured for the first time, or often enough to be trusted
  };
  // A measurement; repeated ones are averaged, the new one counting a quarter.
  News note(const ProfilePoint& point);
  void note_logical_workers(int workers) { logical_workers_ = workers; }
  // What was learned of the program's length; 0: unknown.
  void note_length(std::int64_t total_steps, std::int64_t steps_per_epoch, std::int64_t samples);

  bool empty() const { return points_.empty(); }
  const std::vector<ProfilePoint>& points() const { return points_; }
  int logical_workers() const { return logical_workers_; }
  std::int64_t total_steps() const { return total_steps_; }
  std::int64_t steps_per_epoch() const { return steps_per_epoch_; }
  std::int64_t samples() const { return samples_; }
  // Samples of a step of a consistent job; 0 while nothing was measured.
  std::int64_t batch() const { return points_.empty() ? 0 : points_.front().batch; }

  // A newcomer was prepared in so many seconds.
  void note_change(Seconds seconds);
  // The median of the recent ones; nothing when there was none.
  std::optional<Seconds> resize_cost() const;

  // More devices than this were measured, several times, to be slower than fewer by more than a
  // twentieth; 0: no such size is known. What was measured half an hour ago (kSlowerForgotten) is
  // forgotten: other jobs, or another phase of this one, may have been the reason.
  static constexpr Seconds kSlowerForgotten = 1800;
  int largest_useful(double now) const;
  // Seconds of a step on so many devices: measured, or, between and beyond, an optimistic guess.
  // 0 when nothing was measured.
  StepTime whole_step(int devices, std::int64_t batch) const;

 private:
  int logical_workers_ = 0;
  std::int64_t total_steps_ = 0;
  std::int64_t steps_per_epoch_ = 0;
  std::int64_t samples_ = 0;
  std::vector<ProfilePoint> points_;  // by batch, devices
  std::vector<Seconds> told_;         // of each point when there was news of it
  std::vector<Seconds> changes_;      // newest last
};

// What earlier jobs of the same program have shown; an empty profile if there was none.
Profile known_profile(const State& state, const JobDocument& document);

// The profile as the speed model that policies and the simulator ask: the seconds of one
// micro-batch. With logical workers a micro-batch is one logical worker's share, otherwise one
// device's. The profile must not be empty.
std::unique_ptr<SpeedModel> speed_of(const Profile& profile);

}  // namespace rubato::control
