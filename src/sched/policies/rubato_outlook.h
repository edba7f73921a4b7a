// What the policy `rubato` knows about jobs without an oracle: measured speeds shared by all jobs
// of an application, and the remaining work from declared epochs and observed progress.
#pragma once

#include <string>
#include <unordered_map>

#include "sched/policies/rubato_speeds.h"
#include "sched/policy.h"

namespace rubato {

// What to expect of one job, until the next decision. Lengths are in seconds on one device of its
// reference type.
struct Outlook {
  const JobState* job = nullptr;
  const SharedSpeeds* speeds = nullptr;  // null: no step was measured of this application yet
  SpeedMemo* memo = nullptr;             // with the job's noise; null only together with `speeds`
  double reference_goodput = 0;          // on one device of the reference type
  Seconds length_s = 0;

  // Nothing is known and something can be learned: the job should run, small, as soon as possible.
  bool unexplored() const { return speeds == nullptr && job->learned != nullptr; }
};

// A part of what a job has left that scales alike.
struct OutlookPart {
  Seconds length_s = 0;       // at the speed that one device of the reference type has now
  SpeedMemo* memo = nullptr;  // with the noise to expect
};

struct OutlookOptions {
  // Length assumed where neither progress nor a finished epoch says more.
  Seconds prior_s = 600;
  // Ideas that can be switched off to see what they contribute.
  bool goodput = true;    // off: all jobs are assumed to scale alike, on all types
  bool remaining = true;  // off: a job is expected to run as long again as it did
  bool shared = true;     // off: every job learns for itself
  bool corrected = true;  // off: speeds are those of the fit
  bool hopeful = true;    // off: no batch is tried that looks worse than another
  bool noise = true;      // off: noise is what the job reported last, at any batch
  bool parts = true;      // off: a job is expected to scale to its end as it does now
};

class OutlookBook {
 public:
  explicit OutlookBook(const OutlookOptions& options) : options_(options) {}

  // Learns from what happened since the last decision; call first.
  void observe(const PolicyInput& input);
  // Notes the state that holds until the next decision; call last.
  void remember(const PolicyInput& input);

  Outlook outlook(const JobState& job, const PolicyInput& input);
  // How much of what a job could use its application has been measured on, in devices and types; 0:
  // on nothing. Grows when it is seen on more devices or on another type.
  int explored(const JobState& job, const Cluster& cluster) const;
  // Speed on `devices` >= 1 of a type, packed, relative to one device of the reference type.
  double speed(const Outlook& outlook, DeviceTypeId type, int devices,
               const Cluster& cluster) const;
  // In this order, at least one: later parts as in jobs of the application that were further.
  std::vector<OutlookPart> parts(const Outlook& outlook, const PolicyInput& input);
  double speed(const Outlook& outlook, const OutlookPart& part, DeviceTypeId type, int devices,
               const Cluster& cluster) const;
  // The batch that an adaptive job should use there; 0: its own choice.
  std::int64_t batch(const Outlook& outlook, DeviceTypeId type, int devices,
                     const Cluster& cluster) const;

 private:
  // Measured by all jobs of an application.
  struct Application {
    Application(const BatchLimits& limits, const OutlookOptions& options)
        : speeds(limits, options.corrected, options.hopeful) {}
    SharedSpeeds speeds;
    GradientNoise first_noise;
    NoiseStages noise;
    std::array<SpeedMemo, NoiseStages::kStages> stage_memos;
    SpeedMemo memo;     // of the jobs that did not start yet
    double work = 0;    // goodput x seconds,
    double epochs = 0;  // and the epochs done with it
  };
  struct Memory {
    std::array<std::size_t, kMaxDeviceTypes> copied{};  // observations passed on to the application
    SpeedMemo memo;
    NoiseReport noise;  // as it was last, in the batch that it had
    Seconds at_s = 0;
    double epochs = 0;
    double goodput = 0;  // 0: it did not train steadily since
  };
  Seconds as_long_again(double service) const;
  NoiseCurve noise(const JobState& job, const Application& app, const PolicyInput& input) const;
  // On packed devices, from a memo.
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
