#include "demo/verdict.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/stats.h"
#include "control/store.h"

namespace rubato::demo {

using nlohmann::json;

void Verdict::promise(bool kept, const std::string& text) {
  broken_ += kept ? 0 : 1;
  fmt::print("  {}  {}\n", kept ? "kept  " : "BROKEN", text);
}

void Verdict::judge_bits(const live::LiveDaemon& daemon, const std::vector<DemoJob>& jobs,
                         live::Undisturbed& undisturbed) {
  int same = 0;
  for (const DemoJob& job : jobs) {
    const auto record = daemon.get("/api/v1/jobs/" + job.id);
    const std::string hash =
        record ? record->value("result", json::object()).value("state_sha256", "none") : "none";
    const std::string expected = undisturbed.hash(job.unpaced);
    if (hash == expected) {
      ++same;
      continue;
    }
    promise(false, fmt::format("same bits: {} has {}, its undisturbed run {}", job.name,
                               hash.substr(0, 16), expected.substr(0, 16)));
  }
  promise(same == static_cast<int>(jobs.size()),
          fmt::format("same bits: {} of {} models equal those of undisturbed runs on one worker",
                      same, jobs.size()));
}

void Verdict::judge_disturbances(const std::vector<control::Event>& events,
                                 const Disturbances& disturbances) {
  const control::History history = control::history_of(events);
  int finished = 0;
  for (const auto& [number, job] : history.jobs) finished += job.finished ? 1 : 0;
  const bool lost = std::any_of(events.begin(), events.end(), [](const control::Event& event) {
    return event.type == "view" && event.body.value("type", "") == "lost";
  });
  promise(disturbances.worker_killed_at > 0 && lost,
          fmt::format("a worker of {} was killed with kill -9; the job trained on",
                      disturbances.worker_of.empty() ? "no job" : disturbances.worker_of));
  promise(disturbances.daemon_back_at > 0,
          fmt::format("the daemon was killed with kill -9, was away for {:.1f} s, and went on",
                      disturbances.daemon_back_at - disturbances.daemon_killed_at));
  promise(finished == static_cast<int>(history.jobs.size()),
          fmt::format("nothing lost: {} of {} jobs finished", finished, history.jobs.size()));
  promise(history.most_held <= kSlots,
          fmt::format("never more than {} slots in use (most: {})", kSlots, history.most_held));
}

// On a machine with other work a process may be kept from its processor for longer than a step at
// any moment, so nine of ten changes is what is promised; the worst is shown.
void Verdict::judge_stalls(const std::vector<control::ViewChange>& changes) {
  std::vector<double> steps;
  for (const control::ViewChange& change : changes) {
    // Of a job that had not yet told how long its steps are nothing can be said.
    if (change.planned && change.step_s > 0) steps.push_back(change.stall_s / change.step_s);
  }
  if (steps.empty()) {
    promise(false, "workers were added to and taken from jobs while they trained");
    return;
  }
  std::sort(steps.begin(), steps.end());
  promise(percentile_sorted(steps, 90) < 1,
          fmt::format("no stop: when workers came or went, the others lost {:.2f} of a step (90th "
                      "percentile of {} changes; worst: {:.2f})",
                      percentile_sorted(steps, 90), steps.size(), steps.back()));
}

std::optional<Comparison> Verdict::judge_gain(const std::string& state_folder,
                                              const std::vector<control::Event>& events) {
  const Result<control::State> state = control::Store::replay(state_folder);
  if (!state.ok()) {
    promise(false, state.error().message);
    return std::nullopt;
  }
  Comparison comparison{.past = control::past_of(*state, events), .rigid = {}};
  auto rigid = control::replay_rigid(comparison.past);
  const auto replayed = control::replay(comparison.past, state->policy, state->policy_settings);
  if (!rigid.ok() || !replayed.ok()) {
    promise(false, (rigid.ok() ? replayed.error() : rigid.error()).message);
    return std::nullopt;
  }
  comparison.rigid = std::move(*rigid);
  const control::History& history = comparison.past.history;
  fmt::print("\n  {:<52} {:>9} {:>14}\n", "", "mean", "slots in use");
  const auto row = [](const std::string& what, double mean_s, double share) {
    fmt::print("  {:<52} {:>7.1f} s {:>12.0f} %\n", what, mean_s, 100 * share);
  };
  row("Rubato, measured", history.mean_completion_s, history.held_share);
  row("Rubato, simulated", replayed->simulated_mean_s, replayed->simulated_share);
  for (const control::RigidReplay& size : comparison.rigid) {
    row(fmt::format("first come, first served, {} slot{} each, simulated", size.devices,
                    size.devices == 1 ? "" : "s"),
        size.replay.simulated_mean_s, size.replay.simulated_share);
  }
  fmt::print("\n  Simulated: with the step and start times measured in this run.\n\n");
  promise(comparison.gain() >= kLeastGain,
          fmt::format("mean completion time {:.2f}x better than the best rigid schedule",
                      comparison.gain()));
  return comparison;
}

}  // namespace rubato::demo
