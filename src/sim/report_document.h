// What a simulation command recorded, in the form that report.html shows and that `rubato report`
// reads again: DIR/report.json. Long timelines are averaged and long tables cut, so that a page
// stays small; the CSV files have everything.
#pragma once

#include <span>
#include <string>
#include <vector>

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

struct ReportDocument {
  std::string folder;  // that it was read from; empty: it was just made
  ReportContext context;
  std::vector<SimResult> runs;  // their summaries only
  std::string json;             // the whole document, on one line
};

ReportDocument report_document(std::span<const SimResult> runs, const ReportContext& context);

// Reads FOLDER/report.json and checks everything that a page relies on. The error says what is
// wrong, where, and what to do.
Result<ReportDocument> read_report(const std::string& folder);

// The runs of all documents. Where several have the same policy on the same workload, the policy's
// name gets the folder's.
std::vector<SimResult> all_runs(std::span<const ReportDocument> documents);

}  // namespace rubato
