// Writes simulation results for people and for programs.
#pragma once

#include <span>
#include <string>

#include "base/result.h"
#include "sim/result.h"

namespace rubato {

// Everything about how the runs were made that a reader needs to repeat them.
struct ReportContext {
  std::string command;  // as typed
  std::string cluster;
  std::string round;  // "event" or seconds
  double resize_cost_s = 0;
};

// A table of at most 100 columns, one line per run, for the terminal.
std::string text_table(std::span<const SimResult> runs);
// {"version": 1, ..., "runs": [{...}]}; the same bytes for the same runs except for wall_s and
// decision_ms_*.
std::string summary_json(std::span<const SimResult> runs, const ReportContext& context);
// One line per job / timeline point of all runs, with policy, workload and seed columns.
std::string jobs_csv(std::span<const SimResult> runs);
std::string timeline_csv(std::span<const SimResult> runs);
// A self-contained page (no network, no external files) with plots.
std::string html_report(std::span<const SimResult> runs, const ReportContext& context);
// A plot of devices in use over time for the terminal, one row of block characters per policy.
std::string text_plot(std::span<const SimResult> runs, int columns);

// Writes summary.json, jobs.csv, timeline.csv and report.html into `directory` (created if needed).
Status write_reports(const std::string& directory, std::span<const SimResult> runs,
                     const ReportContext& context);

}  // namespace rubato
