// Measurements of a training program: seconds per step by devices, nodes and batch, and the time it
// took to add workers. Profiles are stored by what decides a program's speed (profile_key), so the
// speed of the next job like it is known from its start.
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

// What decides the speed of a job, for people to read: its tenant, the device type, its mode, its
// logical workers, and either the name in its field `profile` or its program, folder, environment
// (names only) and those arguments that matter. All do, except the usual ones for seeds, learning
// rates, names and places of output, such as `--seed 3` or `--out=DIR`. `machine_type` is the
// device type of jobs that ask for none.
nlohmann::json profile_key_parts(const JobRecord& job, const std::string& machine_type);
// Jobs with equal keys share what is measured. Never equal for jobs of two tenants.
std::string profile_key(const JobRecord& job, const std::string& machine_type);

struct ProfilePoint {
  int devices = 0;
  int nodes = 1;           // on which they were; a step across nodes takes longer
  std::int64_t batch = 0;  // samples per step over all workers
  Seconds step_s = 0;
  int reports = 1;  // number of measurements; not stored in JSON
  double at = 0;    // last measurement, seconds since 1970; not stored in JSON
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
    kMoved,  // a point moved by 10 % since the last news about it
    kSize,   // a size was measured for the first time, or often enough to be trusted
  };
  // Records a measurement. Repeated ones are averaged; the new one has a weight of a quarter. The
  // first measurement of a size includes its warm-up and is replaced by the second.
  News note(const ProfilePoint& point);
  void note_logical_workers(int workers) { logical_workers_ = workers; }
  // Records the length of the program; 0: unknown.
  void note_length(std::int64_t total_steps, std::int64_t steps_per_epoch, std::int64_t samples);

  bool empty() const { return points_.empty(); }
  const std::vector<ProfilePoint>& points() const { return points_; }
  int logical_workers() const { return logical_workers_; }
  std::int64_t total_steps() const { return total_steps_; }
  std::int64_t steps_per_epoch() const { return steps_per_epoch_; }
  std::int64_t samples() const { return samples_; }
  // Samples per step of a consistent job; 0 until something was measured.
  std::int64_t batch() const { return points_.empty() ? 0 : points_.front().batch; }

  // Records how long a newcomer took to be ready.
  void note_change(Seconds seconds);
  // The median of the recent values; empty if there are none.
  std::optional<Seconds> resize_cost() const;

  // The largest number of devices that helps: more devices were measured several times to be more
  // than 5% slower. 0 if no such size is known. A slower size counts only for half an hour
  // (kSlowerForgotten), because other jobs or another phase of this one may have been the cause. A
  // size that was measured on several numbers of nodes is as fast as its fastest.
  static constexpr Seconds kSlowerForgotten = 1800;
  int largest_useful(double now) const;
  // Seconds per step on this many devices of so many nodes: a measured value, or an optimistic
  // estimate between and beyond the measured sizes. It rests on sizes that were measured on as many
  // nodes, or else on the nearest number of nodes. 0 if nothing was measured.
  StepTime whole_step(int devices, int nodes, std::int64_t batch) const;

 private:
  int logical_workers_ = 0;
  std::int64_t total_steps_ = 0;
  std::int64_t steps_per_epoch_ = 0;
  std::int64_t samples_ = 0;
  std::vector<ProfilePoint> points_;  // by batch, devices, nodes
  std::vector<Seconds> told_;         // value of each point at its last news
  std::vector<Seconds> changes_;      // newest last
};

// The profile measured by earlier jobs with the same key; empty if there were none.
Profile known_profile(const State& state, const JobRecord& job, const std::string& machine_type);
// The profile stored under a key, whatever version of Rubato made that; empty if there is none.
Profile stored_profile(const State& state, const JobDocument& document, const std::string& key);

// So many devices on so many nodes, as even as possible: what is known of a measured placement.
std::vector<int> split_evenly(int devices, int nodes);

// The profile as a speed model for policies and the simulator. It predicts the seconds of one
// micro-batch, which is the share of one logical worker or, without logical workers, of one device.
// The profile must not be empty.
std::unique_ptr<SpeedModel> speed_of(const Profile& profile);

}  // namespace rubato::control
