#include "control/history.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <set>

#include "control/json_fields.h"

namespace rubato::control {

namespace {

int count_in(const nlohmann::json& body, const char* name) {
  return static_cast<int>(whole_in(body, name));
}

// Where granted devices are; events of early versions do not say it.
JobPlacement granted_nodes(const nlohmann::json& body, int devices) {
  const Result<JobPlacement> nodes = placement_from_json(body.value("nodes", nlohmann::json()));
  return nodes.ok() ? *nodes : unnamed_placement(devices);
}

// Reads the log event by event and accumulates the time between events.
class Reader {
 public:
  History read(std::span<const Event> events) {
    for (const Event& event : events) {
      pass(event.at);
      take(event);
    }
    double sum = 0;
    int finished = 0;
    for (const auto& [number, job] : history_.jobs) {
      if (!job.finished) continue;
      sum += job.ended_at - job.submitted_at;
      ++finished;
    }
    history_.mean_completion_s = finished > 0 ? sum / finished : 0;
    history_.makespan_s = std::max(0.0, last_end_ - first_submission_);
    history_.held_share = there_ > 0 ? held_there_ / there_ : 0;
    history_.held_share_while_waiting = there_waiting_ > 0 ? held_waiting_ / there_waiting_ : 0;
    return history_;
  }

 private:
  void pass(double to) {
    const double passed = to - at_;
    if (at_ > 0 && passed > 0 && active_ > 0) {
      const double there = passed * std::max(0, history_.devices - reserved_total_);
      const double held = passed * held_total_;
      there_ += there;
      held_there_ += std::min(held, there);
      if (!waiting_.empty()) {
        there_waiting_ += there;
        held_waiting_ += std::min(held, there);
        history_.waiting_s += passed;
      }
    }
    at_ = std::max(at_, to);
  }

  void take(const Event& event) {
    if (event.type == "started" || event.type == "nodes") {
      history_.devices = count_in(event.body, "devices");
      history_.nodes = nodes_of_event(event.body);
    }
    if (event.type == "reserved") {
      reserved_[count_in(event.body, "number")] = count_in(event.body, "devices");
    }
    if (event.type == "released") reserved_.erase(count_in(event.body, "number"));
    reserved_total_ = 0;
    for (const auto& [number, devices] : reserved_) reserved_total_ += devices;
    if (event.job == 0) return;
    if (event.type == "held") return hold(event);
    // Of a job that was submitted before the log begins, too little is known.
    if (event.type != "submitted" && !history_.jobs.contains(event.job)) return;
    JobHistory& job = history_.jobs[event.job];
    if (event.type == "submitted") {
      job.submitted_at = event.at;
      if (first_submission_ == 0) first_submission_ = event.at;
      ++active_;
      waiting_.insert(event.job);
    } else if (event.type == "resumed") {
      waiting_.insert(event.job);
    } else if (event.type == "granted") {
      const int devices = count_in(event.body, "devices");
      const JobPlacement nodes = granted_nodes(event.body, devices);
      JobPlacement& before = granted_[event.job];
      if (devices > 0) {
        if (job.started_at == 0) job.started_at = event.at;
        if (!before.empty() && before != nodes) ++job.resizes;
        job.most_nodes = std::max(job.most_nodes, static_cast<int>(nodes.size()));
        waiting_.erase(event.job);
      } else {
        waiting_.insert(event.job);
      }
      before = nodes;
    } else if (event.type == "placed") {
      granted_[event.job] = granted_nodes(event.body, 0);
    } else if (event.type == "paused") {
      waiting_.erase(event.job);
    } else if (event.type == "finished" || event.type == "failed" || event.type == "cancelled") {
      job.ended_at = event.at;
      job.finished = event.type == "finished";
      waiting_.erase(event.job);
      --active_;
      last_end_ = event.at;
    }
  }

  void hold(const Event& event) {
    const int devices = count_in(event.body, "devices");
    held_total_ += devices - held_[event.job];
    held_[event.job] = devices;
    history_.most_held = std::max(history_.most_held, held_total_);
  }

  History history_;
  double at_ = 0;
  double first_submission_ = 0;
  double last_end_ = 0;
  int active_ = 0;
  std::set<JobNumber> waiting_;
  std::map<JobNumber, JobPlacement> granted_;
  std::map<JobNumber, int> held_;
  std::map<int, int> reserved_;
  int held_total_ = 0;
  int reserved_total_ = 0;
  double there_ = 0, held_there_ = 0;
  double there_waiting_ = 0, held_waiting_ = 0;
};

}  // namespace

History history_of(std::span<const Event> events) { return Reader().read(events); }

namespace {

// Seconds per step in a learned profile, for the nearest measured number of workers.
double step_of(const nlohmann::json& profile, int workers) {
  if (!profile.is_object()) return 0;
  double step_s = 0;
  int nearest = std::numeric_limits<int>::max();
  for (const nlohmann::json& point : profile.value("points", nlohmann::json::array())) {
    const int distance = std::abs(count_in(point, "devices") - workers);
    if (distance >= nearest) continue;
    nearest = distance;
    step_s = number_in(point, "step_s");
  }
  return step_s;
}

}  // namespace

std::vector<ViewChange> view_changes_of(std::span<const Event> events) {
  std::vector<ViewChange> changes;
  std::map<JobNumber, int> workers;
  std::map<JobNumber, nlohmann::json> profiles;
  for (const Event& event : events) {
    if (event.type == "learned")
      profiles[event.job] = event.body.value("profile", nlohmann::json());
    if (event.type != "view" || event.body.value("type", "") != "view") continue;
    const std::string cause = event.body.value("cause", "");
    int& before = workers[event.job];
    const int after = count_in(event.body, "workers");
    if (before > 0 && after > 0 && cause != "start" && cause != "restart" && cause != "stop") {
      changes.push_back({.job = event.job,
                         .cause = cause,
                         .planned = cause != "failure",
                         .workers = after,
                         .prepare_s = number_in(event.body, "prepare_s"),
                         .stall_s = number_in(event.body, "stall_ms") / 1000,
                         .step_s = step_of(profiles[event.job], before)});
    }
    before = after;
  }
  return changes;
}

}  // namespace rubato::control
