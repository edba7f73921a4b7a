// Recorded or generated workloads: which jobs arrive when and (for the simulator only) how much
// work they contain. docs/workloads.md describes the formats.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/application.h"
#include "model/job.h"
#include "model/scaling_law.h"

namespace rubato {

enum class WorkloadFormat { kAuto, kPollux, kItp, kPhilly, kSia, kNative };
std::string_view to_string(WorkloadFormat format);
std::optional<WorkloadFormat> parse_workload_format(std::string_view text);

// A job together with the truth about it. Either `application` is set (the job trains for the
// application's epochs) or `duration_s` (it runs that long on its requested devices).
struct WorkloadJob {
  JobSpec spec;
  std::shared_ptr<const Application> application;
  Seconds duration_s = 0;
  // Indices of earlier jobs: it arrives when all have ended, and not before its submit time.
  std::vector<std::size_t> after{};
};

// Jobs ordered by submit time (ties in file order), with ids 0, 1, 2, ... in that order.
struct Workload {
  std::string name;  // the file's name without folder and extension
  WorkloadFormat format = WorkloadFormat::kNative;
  std::vector<WorkloadJob> jobs;
};

struct WorkloadOptions {
  WorkloadFormat format = WorkloadFormat::kAuto;
  // Elastic range for jobs with only a recorded duration and no range of their own, as factors of
  // the requested size: 0 < low <= 1 <= high. 1..1 keeps them rigid.
  double elastic_low = 1.0;
  double elastic_high = 1.0;
};

// Reads one file. Every job must be able to run on the empty cluster, on devices of one type. A
// range that exceeds the cluster is cut. Any error refuses the whole file, with file:line:column
// and what was expected. A file without jobs is an error.
Result<Workload> read_workload(const std::string& path, const Cluster& cluster,
                               const Applications& applications, const WorkloadOptions& options);

// Detects the format from the file's content; never returns kAuto. Tells a caller whether profiles
// are needed at all.
Result<WorkloadFormat> detect_format(const std::string& path);
// Whether files of this format can name applications. A profile directory must then describe them
// (native files may do without).
bool needs_profiles(WorkloadFormat format);

}  // namespace rubato
