// Small simulation results for the tests of reports.
#pragma once

#include <string>

#include "sim/report.h"

namespace rubato {

inline const std::string kHostileName = "</script><b>&\"";
inline const ReportContext kReportContext{"rubato sim --policy fifo,sia", "1x8:v100", "60", 30};

inline JobResult job_result(const std::string& name, Seconds submit_s, Seconds start_s,
                            Seconds finish_s) {
  JobResult result;
  result.name = name;
  result.requested_devices = 2;
  result.submit_s = submit_s;
  result.start_s = start_s;
  result.finish_s = finish_s;
  result.queue_s = start_s - submit_s;
  result.resizes = 1;
  result.lost_device_s = 5;
  result.fairness = 1.5;
  return result;
}

inline SimResult run_result(const std::string& policy, const std::string& workload,
                            double slowness = 1) {
  SimResult result;
  result.summary.policy = policy;
  result.summary.workload = workload;
  result.summary.seed = 7;
  result.jobs = {job_result("a", 0, 0, 100 * slowness), job_result("b", 10, 20, 400 * slowness)};
  // a: two devices from the start; b: two from second 20.
  result.changes = {{0, 0, {{NodeId(0), 2}}},
                    {20, 1, {{NodeId(0), 2}}},
                    {100 * slowness, 0, {}},
                    {400 * slowness, 1, {}}};
  result.node_events = {{50, NodeId(0), true}, {60, NodeId(0), false}};
  result.timeline = {{0, 8, 2, 1.5, 1, 0}, {20, 8, 4, 3, 2, 1}, {400 * slowness, 8, 0, 0, 0, 0}};
  summarize_jobs(result.jobs, result.summary);
  result.summary.allocated_ratio = 0.5;
  result.summary.useful_ratio = 0.375;
  return result;
}

}  // namespace rubato
