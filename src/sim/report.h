// Writes simulation results for people and for programs.
#pragma once

#include <span>
#include <string>

#include "base/result.h"
#include "sim/report_bundle.h"
#include "sim/report_document.h"
#include "sim/result.h"

namespace rubato {

// A table for the terminal, at most 100 columns wide, one line per run.
std::string text_table(std::span<const SimResult> runs);
// {"version": 1, ..., "runs": [{...}]}. The same runs give the same bytes, except for wall_s and
// decision_ms_*.
std::string summary_json(std::span<const SimResult> runs, const ReportContext& context);
// One line per job / timeline point of all runs, with columns for policy, workload and seed.
std::string jobs_csv(std::span<const SimResult> runs);
std::string timeline_csv(std::span<const SimResult> runs);
// One page with everything in it (no network, no external files): tables, plots, the jobs and the
// devices of all documents on one time axis. With an empty bundle it has the table and the
// commands, and says what is missing.
std::string html_report(std::span<const ReportDocument> documents, const ReportBundle& bundle);
// A plot of devices in use over time for the terminal, one row of block characters per policy.
std::string text_plot(std::span<const SimResult> runs, int columns);

// Who held which devices, one line per change. Jobs are numbered from 1, in the order of jobs.csv;
// "0:4 2:1" is four devices of the first node and one of the third.
std::string devices_csv(std::span<const SimResult> runs);

// Writes summary.json, jobs.csv, timeline.csv, devices.csv, report.json (report_document.h) and
// report.html into `directory`, which is created if needed.
Status write_reports(const std::string& directory, std::span<const SimResult> runs,
                     const ReportContext& context, const ReportBundle& bundle);

}  // namespace rubato
