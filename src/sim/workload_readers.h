// The parts of read_workload(): one reader per kind of file, and what they share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/csv.h"
#include "sim/workload.h"

namespace rubato {

// Numbers outside these ranges are mistakes and could overflow in sums.
inline constexpr NumberRange kTimeRange{0, 1e10};         // seconds since the start
inline constexpr NumberRange kDurationRange{1e-3, 1e10};  // a job that runs for 0 s is not a job
inline constexpr NumberRange kDeviceRange{1, 1e6};
inline constexpr NumberRange kBatchRange{1, 1e12};

// What a file says about a job's size and kind, in any format. Empty or 0: not given.
struct JobRequest {
  std::string_view application;  // either this
  Seconds duration_s = 0;        // or this
  std::string_view device_type;
  std::optional<ElasticMode> mode;
  int min_devices = 0;
  int max_devices = 0;
  int requested_devices = 0;
  std::int64_t batch = 0;  // total
  int logical_workers = 0;
  bool mixes_types = false;
};

// What is wrong with a request. The reader knows the name of the field in its format, and its
// position.
struct JobProblem {
  enum class Field { kApplication, kDeviceType, kMode, kDevices, kBatch, kWorkers, kMixing };
  Field field;
  std::string text;
};

// Turns requests into jobs that can run on the empty cluster.
class JobBuilder {
 public:
  // All three must outlive the builder.
  JobBuilder(const Cluster& cluster, const Applications& applications,
             const WorkloadOptions& options);

  // Sets the job's application, duration, mode, devices, types and batch.
  std::optional<JobProblem> build(const JobRequest& request, WorkloadJob& job) const;

 private:
  std::optional<JobProblem> find_types(const JobRequest& request, WorkloadJob& job) const;
  std::optional<JobProblem> set_trained_size(const JobRequest& request, int pool,
                                             WorkloadJob& job) const;
  std::optional<JobProblem> set_recorded_size(const JobRequest& request, int pool,
                                              WorkloadJob& job) const;
  static std::optional<JobProblem> check_workers(const JobRequest& request);
  // `most`: the devices that the job could have in this cluster.
  std::optional<JobProblem> set_workers(const JobRequest& request, int most,
                                        WorkloadJob& job) const;
  // Devices of the largest of these types: the most that a job can have without mixing types.
  int largest_pool(std::uint32_t types) const;
  // Devices of all these types.
  int whole_pool(std::uint32_t types) const;

  const Cluster& cluster_;
  const Applications& applications_;
  const WorkloadOptions& options_;
  std::uint32_t all_types_;
};

// An error about a file may quote any of its bytes. This writes everything that is not plain text
// as \xNN. The path at the start comes from the caller and stays as it is.
Error printable(Error error, const std::string& path);

// The jobs in file order, without ids.
Result<std::vector<WorkloadJob>> read_trained_csv(const std::string& path,
                                                  const JobBuilder& builder);
Result<std::vector<WorkloadJob>> read_itp_csv(const std::string& path, const JobBuilder& builder);
Result<std::vector<WorkloadJob>> read_philly_csv(const std::string& path,
                                                 const JobBuilder& builder);
Result<std::vector<WorkloadJob>> read_native(const std::string& path, const JobBuilder& builder);

}  // namespace rubato
