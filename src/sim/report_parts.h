// Parts that all reports share: groups of comparable runs, readable names and numbers, shortened
// timelines.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/result.h"

namespace rubato {

// Runs that can be compared: they have the same workload and seed.
struct RunGroup {
  std::string title;  // the workload, plus the seed if the workload ran with several
  std::vector<const SimResult*> runs;  // in the order given
  std::vector<std::string> labels;  // per run: its policy, or "sia (2)" if a policy appears again
};

// In the order of first appearance. The groups point into `runs`.
std::vector<RunGroup> group_runs(std::span<const SimResult> runs);
// Index within the group of the run with the lowest mean JCT. Only the runs that finished the most
// jobs are considered, because leaving jobs behind lowers the mean. None if no job finished.
std::optional<std::size_t> best_run(const RunGroup& group);

// Calls visit(name, field) for each number of the summary, with its name in summary.json.
template <typename Summary, typename Visit>
void visit_summary(Summary& summary, const Visit& visit) {
  visit("jobs", summary.jobs);
  visit("jobs_finished", summary.jobs_finished);
  visit("jobs_dropped", summary.jobs_dropped);
  visit("mean_jct_s", summary.mean_jct_s);
  visit("p50_jct_s", summary.p50_jct_s);
  visit("p90_jct_s", summary.p90_jct_s);
  visit("p99_jct_s", summary.p99_jct_s);
  visit("mean_queue_s", summary.mean_queue_s);
  visit("p99_queue_s", summary.p99_queue_s);
  visit("makespan_s", summary.makespan_s);
  visit("allocated_ratio", summary.allocated_ratio);
  visit("useful_ratio", summary.useful_ratio);
  visit("resizes", summary.resizes);
  visit("resize_lost_device_s", summary.resize_lost_device_s);
  visit("mean_fairness", summary.mean_fairness);
  visit("worst_fairness", summary.worst_fairness);
  visit("serving_wait_max_s", summary.serving_wait_max_s);
  visit("rounds", summary.decisions.rounds);
  visit("decision_ms_mean", summary.decisions.total_ms_mean);
  visit("decision_ms_p99", summary.decisions.total_ms_p99);
  visit("algorithm_ms_mean", summary.decisions.algorithm_ms_mean);
  visit("algorithm_ms_p99", summary.decisions.algorithm_ms_p99);
  visit("wall_s", summary.wall_s);
}
// The summary with the field names of summary.json.
nlohmann::ordered_json summary_object(const SimSummary& summary);

// Longer labels are cut.
inline constexpr std::size_t kLongestLabel = 20;

std::string human_duration(Seconds seconds);  // "3.2s", "45m12s", "2h05m", "3d04h"
std::string human_milliseconds(double ms);    // "0.12ms", "12.3ms", "1.2s"

// Makes text safe to show on one line of a terminal: control characters and broken UTF-8 become
// '?'.
std::string printable(std::string_view text);
std::size_t code_points(std::string_view text);
// `text` (printable) in exactly `width` code points: cut with an ellipsis or padded with blanks.
std::string fit_left(std::string_view text, std::size_t width);
std::string fit_right(std::string_view text, std::size_t width);

// A stretch of a timeline: averages weighted by time, and the extremes that the averages hide.
struct TimelineBucket {
  Seconds begin_s = 0;
  Seconds covered_s = 0;  // how much of the stretch the timeline covers; 0: all values are 0
  double usable = 0, allocated = 0, useful = 0, running = 0, waiting = 0;
  int allocated_low = 0, allocated_high = 0;
  int waiting_low = 0, waiting_high = 0;
};

// Divides [begin_s, end_s) into `count` equal stretches. The state at a point lasts until the next
// point. The last point only marks the end. States of zero duration are ignored.
std::vector<TimelineBucket> bucket_timeline(std::span<const TimelinePoint> timeline,
                                            Seconds begin_s, Seconds end_s, std::size_t count);

}  // namespace rubato
