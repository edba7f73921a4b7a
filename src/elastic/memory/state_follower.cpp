#include "elastic/memory/state_follower.h"

#include <algorithm>
#include <utility>

namespace rubato::elastic {

StateFollower::StateFollower(Program& program, const Board& board, const WorkerSegment& own,
                             Info info)
    : program_(program), board_(board), own_(own), info_(std::move(info)) {
  unit_version_.resize(program.shape().unit_bytes.size());
  update_.resize(unit_version_.size());
  restart();
  restarts_ = 0;
}

void StateFollower::restart() {
  std::fill(unit_version_.begin(), unit_version_.end(), -1);
  missing_ = unit_version_.size();
  newest_copy_ = 0;
  next_unit_ = 0;
  next_step_ = board_.completed() + 1;
  updated_ = false;
  ++restarts_;
}

bool StateFollower::complete() const {
  return missing_ == 0 && std::all_of(unit_version_.begin(), unit_version_.end(),
                                      [&](std::int64_t v) { return v == next_step_; });
}

bool StateFollower::apply_next() {
  const std::int64_t step = next_step_;
  bool any = false;
  for (std::size_t i = 0; i < unit_version_.size(); ++i) {
    update_[i] = unit_version_[i] == step ? 1 : 0;
    any = any || update_[i] != 0;
  }
  if (any) {
    const std::optional<StepInfo> info = info_(step);
    if (board_.gradient_step(step) != step || !info) {
      restart();  // overwritten, or never stored
      return true;
    }
    program_.apply(*info, board_.gradient(step), update_);
    read_barrier();
    if (board_.gradient_step(step) != step) {
      restart();
      return true;
    }
  }
  for (std::size_t i = 0; i < unit_version_.size(); ++i) {
    if (update_[i] != 0) unit_version_[i] = step + 1;
  }
  updated_ = updated_ || any;
  ++next_step_;
  return true;
}

bool StateFollower::advance(const Donor* donor) {
  // A step that a lost worker completed on its own is done again after all, perhaps differently.
  if (std::max(next_step_, newest_copy_) > board_.completed() + 1) restart();
  if (next_step_ <= board_.completed()) return apply_next();
  if (missing_ == 0 || donor == nullptr) return false;
  while (unit_version_[next_unit_] >= 0) next_unit_ = (next_unit_ + 1) % unit_version_.size();
  const std::size_t unit = next_unit_;
  const auto version = donor->copy_unit(unit, own_.unit(unit));
  // The donor has not yet applied what was applied here; it soon will.
  if (!version || *version < std::max(next_step_, unit_version_[0])) return false;
  program_.unit_replaced(unit);
  unit_version_[unit] = *version;
  newest_copy_ = std::max(newest_copy_, *version);
  --missing_;
  return true;
}

}  // namespace rubato::elastic
