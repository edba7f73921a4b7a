#include "control/job_progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/stats.h"
#include "control/job_files.h"
#include "control/json_fields.h"
#include "elastic/job/job_folder.h"
#include "elastic/memory/data_board.h"

namespace rubato::control {

namespace {

using std::chrono::steady_clock;

constexpr auto kTellEvery = std::chrono::milliseconds(500);
constexpr std::size_t kRecentSteps = 31;
constexpr int kViewsPerLook = 64;
constexpr std::size_t kLongestToken = 64;

}  // namespace

std::string memory_prefix(const std::string& folder) {
  const Result<nlohmann::json> settings = read_job_object(folder, "job.json", kMostSettingsBytes);
  const std::string token = settings.ok() ? text_of(*settings, "token") : "";
  const bool sound =
      !token.empty() && token.size() <= kLongestToken &&
      token.find_first_not_of("0123456789abcdefghijklmnopqrstuvwxyz") == std::string::npos;
  return sound ? "rubato." + token + "." : "";
}

void JobProgress::started(const nlohmann::json& event) {
  total_steps_ = whole_in(event, "total_steps");
  total_samples_ = whole_in(event, "total_samples");
  data_set_ = whole_in(event, "samples");
  steps_per_epoch_ = whole_in(event, "steps_per_epoch");
  logical_batch_ = whole_in(event, "batch");
  logical_workers_ = static_cast<int>(whole_in(event, "logical_workers"));
}

// Advances to the newest view by looking for successors of the last one. True if there is one.
bool JobProgress::follow_views(elastic::Registry& registry) {
  if (view_.number == 0) {
    Result<elastic::View> newest = elastic::newest_view(registry);
    if (!newest.ok() && newest.error().code == ErrorCode::kInvalidInput) {
      problem_ = newest.error().message;
    }
    if (!newest.ok() || newest->number == 0) return false;
    view_ = std::move(*newest);
    return true;
  }
  bool another = false;
  for (int looks = 0; looks < kViewsPerLook; ++looks) {
    const std::int64_t number = view_.number + 1;
    const Result<std::optional<std::string>> record = registry.at(elastic::kViewRecord, number);
    if (record.ok() && !record->has_value()) return another;
    Result<elastic::View> view =
        record.ok() ? elastic::parse_view(parse_untrusted(**record)) : record.error();
    if (view.ok() && view->number != number) {
      view = invalid_input("view in the registry: its number differs from its version");
    }
    if (!view.ok()) {
      if (view.error().code == ErrorCode::kInvalidInput) problem_ = view.error().message;
      return another;
    }
    if (view->members.size() != view_.members.size()) step_s_.clear();
    view_ = std::move(*view);
    another = true;
  }
  return another;
}

bool JobProgress::open_board() {
  if (board_ && board_name_ == view_.board) return true;
  board_.reset();
  data_board_.reset();
  const std::string prefix = memory_prefix(folder_);
  if (prefix.empty() || !view_.board.starts_with(prefix)) {
    problem_ = fmt::format(
        "the view names the shared memory '{}'; expected a name that begins with "
        "'{}'",
        plain_text(view_.board, 100), prefix);
    return false;
  }
  Result<elastic::BoardGlance> board = elastic::BoardGlance::open(view_.board);
  // Its founder is still creating it, or it was just removed.
  if (!board.ok()) return false;
  board_.emplace(std::move(*board));
  board_name_ = view_.board;
  sampled_ = -1;
  return true;
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
  if (!open_board() || !sample_step()) return false;
  const auto now = steady_clock::now();
  const bool tell =
      view_.members.size() != workers || (steps_ != told_steps_ && now - told_at_ >= kTellEvery);
  if (!tell) return false;
  told_steps_ = steps_;
  told_at_ = now;
  count_samples(completed_);
  loss_ = completed_ < 0 ? std::nullopt : board_->mean_loss(view_.logical_workers(), completed_);
  return true;
}

void JobProgress::count_samples(std::int64_t completed) {
  if (total_samples_ == 0 || completed < 0) return;
  if (!data_board_) {
    Result<elastic::DataBoardGlance> opened =
        elastic::DataBoardGlance::open(elastic::DataBoard::name_for(board_name_));
    if (!opened.ok()) return;
    data_board_.emplace(std::move(*opened));
  }
  const std::optional<elastic::StepFacts> facts = data_board_->facts(completed);
  if (facts) samples_done_ = std::min(total_samples_, facts->used + facts->batch);
}

bool JobProgress::sample_step() {
  const std::optional<elastic::BoardGlance::Progress> progress = board_->progress();
  if (!progress) {
    problem_ = fmt::format(
        "the shared memory '{}' was shortened, or counts its steps below -1 or "
        "above 2^53; expected a board",
        board_name_);
    board_.reset();
    return false;
  }
  completed_ = progress->completed;
  steps_ = completed_ + 1;
  const int leader = view_.position(view_.leader);
  // Skips the first steps of a view and steps during which newcomers are loading.
  if (leader < 0 || completed_ <= sampled_ || completed_ <= view_.first_step + 1 ||
      progress->watchers > 0) {
    return true;
  }
  const std::optional<std::int64_t> step_us = board_->step_us(view_.number, leader);
  if (!step_us) return true;
  sampled_ = completed_;
  step_s_.push_back(static_cast<double>(*step_us) * 1e-6);
  if (step_s_.size() > kRecentSteps) step_s_.pop_front();
  return true;
}

void JobProgress::ended() {
  board_.reset();
  data_board_.reset();
  board_name_.clear();
  view_ = {};
  completed_ = -1;
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
