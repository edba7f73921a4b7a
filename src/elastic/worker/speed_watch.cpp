#include "elastic/worker/speed_watch.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

namespace rubato::elastic {

std::optional<membership::Speeds> SpeedWatch::look(const Board& board, const View& view) {
  if (view_ != view.number) {
    view_ = view.number;
    stragglers_.keep_only(view.ids());
  }
  const std::int64_t step = board.completed();
  if (step <= judged_step_ || view.members.size() < 2) return std::nullopt;
  const ViewBlock& block = board.block(view.number);
  std::int64_t next = std::max(judged_step_, view.first_step) + 1;
  next = std::max(next, step - static_cast<std::int64_t>(kTimedSteps) + 1);
  judged_step_ = step;
  membership::Speeds speeds;
  for (; next <= step; ++next) {
    std::vector<StragglerWatch::Sample> samples;
    double step_s = 0;
    for (std::size_t i = 0; i < view.members.size(); ++i) {
      const Member& member = view.members[i];
      const std::optional<std::int64_t> spent = block.rows[i].compute_us(next);
      if (!spent) break;  // overwritten meanwhile, or from another view
      const double seconds = static_cast<double>(*spent) * 1e-6;
      samples.push_back({member.address.id, seconds / member.hosts.size()});
      step_s = std::max(step_s, seconds);
    }
    if (samples.size() < view.members.size()) continue;
    const StragglerWatch::Verdict verdict = stragglers_.observe(samples, step_s);
    for (const StragglerWatch::Verdict::Flag& flag : verdict.flagged) {
      record_({{"type", "straggler"},
               {"worker", flag.worker},
               {"step", next},
               {"view", view.number},
               {"slowdown", flag.slowdown}});
    }
    for (const int worker : verdict.cleared) {
      record_({{"type", "recovered"}, {"worker", worker}, {"step", next}, {"view", view.number}});
    }
    speeds.rebalance = speeds.rebalance || !verdict.empty();
  }
  for (const Member& member : view.members) {
    const int worker = member.address.id;
    speeds.seconds[worker] = stragglers_.seconds(worker);
    if (stragglers_.flagged(worker)) speeds.slow.push_back(worker);
  }
  return speeds;
}

}  // namespace rubato::elastic
