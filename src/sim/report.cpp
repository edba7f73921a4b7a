#include "sim/report.h"

#include <fmt/format.h>

#include <array>
#include <iterator>
#include <utility>

#include "base/file.h"
#include "sim/report_parts.h"

namespace rubato {

namespace {

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

// The cells that identify the run of a line.
std::string csv_run(const SimSummary& summary) {
  return fmt::format("{},{},{}", csv_cell(summary.policy), csv_cell(summary.workload),
                     summary.seed);
}

std::string csv_time(bool known, Seconds time_s) { return known ? fmt::format("{}", time_s) : ""; }

}  // namespace

std::string summary_json(std::span<const SimResult> runs, const ReportContext& context) {
  nlohmann::ordered_json document;
  document["version"] = 1;
  document["tool"] = "rubato";
  document["command"] = context.command;
  document["cluster"] = context.cluster;
  document["round"] = context.round;
  document["resize_cost_s"] = context.resize_cost_s;
  document["runs"] = nlohmann::ordered_json::array();
  for (const SimResult& run : runs) document["runs"].push_back(summary_object(run.summary));
  // Names come from files. Broken UTF-8 in them must not make dump() throw.
  return document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string jobs_csv(std::span<const SimResult> runs) {
  std::string csv =
      "policy,workload,seed,job,application,tenant,requested_devices,submit_s,start_s,finish_s,"
      "jct_s,dropped,queue_s,device_s,lost_device_s,resizes,fairness\n";
  for (const SimResult& run : runs) {
    const std::string prefix = csv_run(run.summary);
    for (const JobResult& job : run.jobs) {
      fmt::format_to(std::back_inserter(csv), "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n",
                     prefix, csv_cell(job.name), csv_cell(job.application), csv_cell(job.tenant),
                     job.requested_devices, job.submit_s, csv_time(job.start_s >= 0, job.start_s),
                     csv_time(job.finished(), job.finish_s), csv_time(job.finished(), job.jct_s()),
                     job.dropped ? 1 : 0, job.queue_s, job.device_s, job.lost_device_s, job.resizes,
                     job.fairness);
    }
  }
  return csv;
}

std::string timeline_csv(std::span<const SimResult> runs) {
  std::string csv = "policy,workload,seed,time_s,usable,allocated,useful,running,waiting\n";
  for (const SimResult& run : runs) {
    const std::string prefix = csv_run(run.summary);
    for (const TimelinePoint& point : run.timeline) {
      fmt::format_to(std::back_inserter(csv), "{},{},{},{},{},{},{}\n", prefix, point.time_s,
                     point.usable, point.allocated, point.useful, point.running, point.waiting);
    }
  }
  return csv;
}

std::string devices_csv(std::span<const SimResult> runs) {
  std::string csv = "policy,workload,seed,time_s,job_number,job,devices,nodes\n";
  for (const SimResult& run : runs) {
    const std::string prefix = csv_run(run.summary);
    for (const DeviceChange& change : run.changes) {
      std::string nodes;
      int devices = 0;
      for (const NodeShare& share : change.shares) {
        nodes += fmt::format("{}{}:{}", nodes.empty() ? "" : " ", share.node.value, share.devices);
        devices += share.devices;
      }
      fmt::format_to(std::back_inserter(csv), "{},{},{},{},{},{}\n", prefix, change.time_s,
                     change.job + 1, csv_cell(run.jobs[change.job].name), devices, nodes);
    }
  }
  return csv;
}

Status write_reports(const std::string& directory, std::span<const SimResult> runs,
                     const ReportContext& context, const ReportBundle& bundle) {
  if (is_file(directory)) {
    return invalid_input(directory + ": is a file; expected a directory for the reports");
  }
  const ReportDocument document = report_document(runs, context);
  const std::array<std::pair<std::string, std::string>, 6> files = {{
      {directory + "/summary.json", summary_json(runs, context)},
      {directory + "/jobs.csv", jobs_csv(runs)},
      {directory + "/timeline.csv", timeline_csv(runs)},
      {directory + "/devices.csv", devices_csv(runs)},
      {directory + "/report.json", document.json + "\n"},
      {directory + "/report.html", html_report(std::span(&document, 1), bundle)},
  }};
  for (const auto& [path, content] : files) {
    if (is_directory(path)) return invalid_input(path + ": is a directory; expected a file");
  }
  if (Status made = make_directories(directory); !made) return made;
  for (const auto& [path, content] : files) {
    if (Status written = write_file(path, content); !written) return written;
  }
  return ok_status();
}

}  // namespace rubato
