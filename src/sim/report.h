// Writes simulation results for people and for programs.
#pragma once

#include <span>
#include <string>

#include "base/result.h"
#include "sim/result.h"

namespace rubato {

// What a reader needs to know to repeat the runs.
struct ReportContext {
  std::string command;  // as typed
  std::string cluster;
  std::string round;  // "event" or seconds
  double resize_cost_s = 0;
};

// A table for the terminal, at most 100 columns wide, one line per run.
std::string text_table(std::span<const SimResult> runs);
// {"version": 1, ..., "runs": [{...}]}. The same runs give the same bytes, except for wall_s and
// decision_ms_*.
std::string summary_json(std::span<const SimResult> runs, const ReportContext& context);
// One line per job / timeline point of all runs, with columns for policy, workload and seed.
std::string jobs_csv(std::span<const SimResult> runs);
std::string timeline_csv(std::span<const SimResult> runs);
// A self-contained page with plots (no network, no external files).
std::string html_report(std::span<const SimResult> runs, const ReportContext& context);
// A plot of devices in use over time for the terminal, one row of block characters per policy.
std::string text_plot(std::span<const SimResult> runs, int columns);

// Writes summary.json, jobs.csv, timeline.csv and report.html into `directory`, which is created if
// needed.
Status write_reports(const std::string& directory, std::span<const SimResult> runs,
                     const ReportContext& context);

}  // namespace rubato
