// A training program as measured: how fast it runs on which devices, how its progress depends on
// the batch, and when it is done.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "model/batch.h"
#include "model/cluster.h"
#include "model/efficiency.h"
#include "model/speed.h"

namespace rubato {

// What was recorded while training with one total batch; one entry per epoch.
struct BatchRecord {
  std::vector<double> progress;   // statistical progress so far, in updates of the initial batch
  std::vector<double> iteration;  // real updates so far
  std::vector<GradientNoise> noise;
};

// Immutable and safe to share between threads.
class Application {
 public:
  struct Description {
    std::string name{};
    BatchLimits batch{};
    int epochs = 0;
    int max_devices = 0;                            // 0: as many as the largest batch keeps busy
    bool fixed_batch = false;                       // the batch must not be adapted
    std::map<std::int64_t, BatchRecord> records{};  // by total batch, at least one
    std::vector<std::shared_ptr<const SpeedModel>>
        speed{};  // by device type; null: does not run there
    // By device type: how many times longer computing takes with kernels that give the same bits on
    // every type. Empty: no longer.
    std::vector<double> portable_slowdown{};
  };
  explicit Application(Description description);

  const std::string& name() const { return d_.name; }
  const BatchLimits& batch() const { return d_.batch; }
  int epochs() const { return d_.epochs; }
  bool fixed_batch() const { return d_.fixed_batch; }
  int max_devices() const { return d_.max_devices; }
  // Null if the application was not measured on this type.
  const SpeedModel* speed(DeviceTypeId type) const { return d_.speed[type.index()].get(); }

  double portable_slowdown(DeviceTypeId type) const {
    return d_.portable_slowdown.empty() ? 1.0 : d_.portable_slowdown[type.index()];
  }

  // Progress at which `epoch` epochs are complete (0 for 0): the smallest over all recorded
  // batches.
  double progress_after(int epoch) const {
    return progress_after_[static_cast<std::size_t>(epoch)];
  }
  // Gradient noise during an epoch (from 0), interpolated linearly between the two nearest recorded
  // batches; clamped outside.
  GradientNoise noise(double batch, int epoch) const;
  // Real updates done when epoch index `epoch` is complete, at this total batch; interpolated the
  // same way.
  double iterations_through(double batch, int epoch) const;

 private:
  struct Neighbours {
    const BatchRecord* low;
    const BatchRecord* high;
    double share;  // of `high`
  };
  Neighbours around(double batch) const;

  Description d_;
  std::vector<double> progress_after_;
};

using Applications = std::map<std::string, std::shared_ptr<const Application>, std::less<>>;

// Reads every application of a profile directory for the device types of a cluster. An entry is
// either a folder in the layout of the Pollux and Sia artifacts (placements*.csv, scalability*.csv,
// validation-BATCH.csv) or a file NAME.json in Rubato's own format (docs/workloads.md).
Result<Applications> read_profiles(const std::string& directory, const Cluster& cluster);

}  // namespace rubato
