#include "control/job_progress.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/json_text.h"
#include "base/stats.h"
#include "elastic/job_folder.h"

namespace rubato::control {

namespace {

using std::chrono::steady_clock;

constexpr auto kTellEvery = std::chrono::milliseconds(500);
constexpr std::size_t kRecentSteps = 31;

}  // namespace

void JobProgress::started(const nlohmann::json& event) {
  const auto number = [&](const char* name) {
    const auto found = event.find(name);
    return found != event.end() && found->is_number_integer() ? found->get<std::int64_t>() : 0;
  };
  total_steps_ = number("total_steps");
  total_samples_ = number("total_samples");
  data_set_ = number("samples");
  steps_per_epoch_ = number("steps_per_epoch");
  logical_batch_ = number("batch");
  logical_workers_ = static_cast<int>(number("logical_workers"));
}

// Advances to the newest view by looking for successors of the last one. True if there is one.
bool JobProgress::follow_views(elastic::Registry& registry) {
  std::int64_t number = view_.number;
  if (number == 0) {
    Result<elastic::View> newest = elastic::newest_view(registry);
    if (!newest.ok() || newest->number == 0) return false;
    view_ = std::move(*newest);
    return true;
  }
  bool another = false;
  for (;;) {
    const Result<std::optional<std::string>> record = registry.at(elastic::kViewRecord, number + 1);
    if (!record.ok() || !record->has_value()) return another;
    Result<elastic::View> view = elastic::parse_view(parse_json(**record));
    if (!view.ok()) return another;
    number += 1;
    if (view->members.size() != view_.members.size()) step_s_.clear();
    view_ = std::move(*view);
    another = true;
  }
}

bool JobProgress::look(elastic::Registry& registry) {
  const std::size_t workers = view_.members.size();
  const bool another = follow_views(registry);
  if (view_.empty()) {
    board_.reset();
    data_board_.reset();
    board_name_.clear();
    return another && workers > 0;
  }
  if (!board_ || board_name_ != view_.board) {
    board_.reset();
    Result<elastic::Board> board = elastic::Board::open(view_.board);
    if (!board.ok()) return false;  // its founder is still creating it, or it was just removed
    board_.emplace(std::move(*board));
    board_name_ = view_.board;
    data_board_.reset();
    sampled_ = -1;
  }
  sample_step();
  const auto now = steady_clock::now();
  const bool tell =
      view_.members.size() != workers || (steps_ != told_steps_ && now - told_at_ >= kTellEvery);
  if (!tell) return false;
  told_steps_ = steps_;
  told_at_ = now;
  const std::int64_t completed = board_->completed();
  count_samples(completed);
  loss_ = completed < 0 ? std::nullopt
                        : elastic::mean_loss(*board_, view_.logical_workers(), completed);
  return true;
}

void JobProgress::count_samples(std::int64_t completed) {
  if (total_samples_ == 0 || completed < 0) return;
  if (!data_board_) {
    Result<elastic::DataBoard> opened =
        elastic::DataBoard::open(elastic::DataBoard::name_for(board_name_));
    if (!opened.ok()) return;
    data_board_.emplace(std::move(*opened));
  }
  const std::optional<elastic::StepFacts> facts = data_board_->facts(completed);
  if (facts) samples_done_ = std::min(total_samples_, facts->used + facts->batch);
}

void JobProgress::sample_step() {
  const std::int64_t completed = board_->completed();
  steps_ = completed + 1;
  const elastic::ViewBlock& block = board_->block(view_.number);
  const int leader = view_.position(view_.leader);
  // Skips the first steps of a view and steps during which newcomers are loading.
  if (leader < 0 || completed <= sampled_ || completed <= view_.first_step + 1 ||
      block.view != view_.number || board_->watchers() > 0) {
    return;
  }
  const std::int64_t step_us = block.rows[static_cast<std::size_t>(leader)].step_us;
  if (step_us <= 0) return;
  sampled_ = completed;
  step_s_.push_back(static_cast<double>(step_us) * 1e-6);
  if (step_s_.size() > kRecentSteps) step_s_.pop_front();
}

void JobProgress::ended() {
  board_.reset();
  data_board_.reset();
  board_name_.clear();
  view_ = {};
}

nlohmann::json JobProgress::body() const {
  nlohmann::json body = {{"step", steps_}, {"workers", view_.members.size()}};
  if (total_samples_ > 0) {
    if (view_.batch > 0) {
      const std::int64_t left = total_samples_ - samples_done_;
      body["batch"] = view_.batch;
      body["total_steps"] = steps_ + (left + view_.batch - 1) / view_.batch;
      body["steps_per_epoch"] = (data_set_ + view_.batch - 1) / view_.batch;
      body["logical_workers"] = view_.logical_workers();
    }
    body["samples_done"] = samples_done_;
    if (data_set_ > 0) {
      body["epoch"] = samples_done_ / data_set_;
      body["epochs"] = (total_samples_ + data_set_ - 1) / data_set_;
    }
  } else {
    if (total_steps_ > 0) body["total_steps"] = total_steps_;
    if (steps_per_epoch_ > 0) {
      body["steps_per_epoch"] = steps_per_epoch_;
      body["epoch"] = steps_ / steps_per_epoch_;
      body["epochs"] = (total_steps_ + steps_per_epoch_ - 1) / steps_per_epoch_;
    }
    if (logical_workers_ > 0) {
      body["logical_workers"] = logical_workers_;
      body["batch"] = logical_batch_ * logical_workers_;
    }
  }
  if (loss_) body["loss"] = *loss_;
  if (!step_s_.empty()) {
    const std::vector<double> recent(step_s_.begin(), step_s_.end());
    body["step_s"] = percentile_sorted(sorted_copy(recent), 50);
  }
  return body;
}

}  // namespace rubato::control
