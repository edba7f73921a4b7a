// What the policy `rubato` knows about jobs without an oracle: measured speeds, shared by all jobs
// of an application, and the remaining work, from declared epochs and observed progress.
#pragma once

#include <string>
#include <unordered_map>

#include "sched/policies/rubato_speeds.h"
#include "sched/policy.h"

namespace rubato {

// The forecast for one job, valid until the next decision. Lengths are in seconds on one device of
// its reference type.
struct Outlook {
  const JobState* job = nullptr;
  const SharedSpeeds* speeds = nullptr;  // null: no step of this application has been measured yet
  SpeedMemo* memo = nullptr;             // with the job's noise; null only if `speeds` is null
  double reference_goodput = 0;          // on one device of the reference type
  Seconds length_s = 0;
  bool guessed = false;    // nothing but its age says how long it is
  double epochs_left = 0;  // unless guessed
  // Nothing is known but something can be learned: the job should run soon, on few devices.
  bool unexplored = false;
};

// A part of a job's remaining work that scales in one way.
struct OutlookPart {
  Seconds length_s = 0;       // at the current speed of one device of the reference type
  SpeedMemo* memo = nullptr;  // with the expected noise
};

struct OutlookOptions {
  // Length to assume if neither progress nor a finished epoch says more.
  Seconds prior_s = 600;
  // Ideas that can be switched off to see what they contribute.
  bool goodput = true;    // off: all jobs are assumed to scale alike, on all types
  bool remaining = true;  // off: a job is expected to run as long again as it has run
  bool shared = true;     // off: every job learns by itself
  bool corrected = true;  // off: speeds are those of the fit
  bool hopeful = true;    // off: no batch is tried that looks worse than another
  bool noise = true;      // off: noise is what the job reported last, at any batch
  bool parts = true;      // off: a job is expected to scale as it does now until its end
};

class OutlookBook {
 public:
  explicit OutlookBook(const OutlookOptions& options) : options_(options) {}

  // Learns from what happened since the last decision. Every decision must call this first.
  void observe(const PolicyInput& input);
  // Records the state that holds until the next decision. Every decision must call this last.
  void remember(const PolicyInput& input);

  Outlook outlook(const JobState& job, const PolicyInput& input);
  // How much of what a job could use has been measured for its application, in devices plus types;
  // 0: nothing. Grows when the application is seen on more devices or on another type.
  int explored(const JobState& job, const Cluster& cluster) const;
  // Speed on `devices` >= 1 of a type, packed, relative to one device of the reference type.
  double speed(const Outlook& outlook, DeviceTypeId type, int devices,
               const Cluster& cluster) const;
  // The parts of the job in order, at least one. Later parts are taken from jobs of the application
  // that were further along.
  std::vector<OutlookPart> parts(const Outlook& outlook, const PolicyInput& input);
  double speed(const Outlook& outlook, const OutlookPart& part, DeviceTypeId type, int devices,
               const Cluster& cluster) const;
  // The batch that an adaptive job should use there; 0: the job chooses.
  std::int64_t batch(const Outlook& outlook, DeviceTypeId type, int devices,
                     const Cluster& cluster) const;

 private:
  // What all jobs of an application measured together.
  struct Application {
    Application(const BatchLimits& limits, const OutlookOptions& options)
        : speeds(limits, options.corrected, options.hopeful) {}
    SharedSpeeds speeds;
    GradientNoise first_noise;
    NoiseStages noise;
    std::array<SpeedMemo, NoiseStages::kStages> stage_memos;
    SpeedMemo memo;       // of the jobs that have not started yet
    int told_epochs = 0;  // epochs of a job that says them; for those that do not say it yet
    double work = 0;      // goodput x seconds
    double epochs = 0;    // epochs completed in `work`
  };
  struct Memory {
    std::size_t revision = 0;  // of what the job learned that was passed on to the application
    SpeedMemo memo;
    NoiseReport noise;  // the last report, with the batch the job had
    Seconds at_s = 0;
    double epochs = 0;
    double goodput = 0;  // 0: it has not trained steadily since
  };
  Seconds as_long_again(double service) const;
  NoiseCurve noise(const JobState& job, const Application& app, const PolicyInput& input) const;
  // Goodput on packed devices, from a memo.
  static double known_goodput(const Outlook& outlook, SpeedMemo& memo, DeviceTypeId type,
                              int devices, const Cluster& cluster);
  // Jobs with equal keys learn together.
  std::string key(const JobState& job) const;

  OutlookOptions options_;
  std::unordered_map<std::string, Application> applications_;
  std::unordered_map<JobId, Memory> memory_;
};

// The first type that the job allows.
DeviceTypeId reference_type(const JobSpec& spec, const Cluster& cluster);

}  // namespace rubato
