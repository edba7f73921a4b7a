// The training thread of a worker: the step loop and the transitions between views.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "elastic/data/adaptive.h"
#include "elastic/data/data_order.h"
#include "elastic/data/prefetcher.h"
#include "elastic/job/audit.h"
#include "elastic/job/job_folder.h"
#include "elastic/job/metrics.h"
#include "elastic/job/records.h"
#include "elastic/memory/active_view.h"
#include "elastic/memory/state_follower.h"
#include "elastic/memory/worker_segment.h"
#include "elastic/worker/coordinator.h"
#include "elastic/worker/program.h"

namespace rubato::elastic {

class Training {
 public:
  struct Context {
    Program* program;
    const JobFolder* folder;
    const JobSettings* settings;
    const WorkerSegment* own;
    const DataOrder* order;
    const AdaptiveTerms* adaptive;  // null: a consistent job
    std::string description;
    std::int64_t total_steps;  // consistent job only
    bool prints;
    std::string model_file;  // empty: nobody wants it
    std::int64_t audit_every = 0;
  };
  // `restored` is the checkpoint that was loaded into the program. Its first part is the state; the
  // others are those that LeaderRecords added.
  Training(const Context& context, Coordinator& coordinator,
           std::optional<LoadedCheckpoint> restored);

  enum class End { kFinished, kLeft, kExcluded, kFailed };
  End run();
  // The final private state of a logical worker.
  std::span<const std::byte> private_state(int logical) const;

 private:
  enum class Outcome { kInterrupted, kGone, kDone, kFailed };

  Status fill_board();
  Status check_length(std::int64_t done, std::int64_t total, const char* unit) const;
  bool follow();  // false: an event is waiting
  bool enter(const std::shared_ptr<const ActiveView>& view);
  Outcome train();
  Outcome end_of_job();
  static std::optional<End> end_of(Outcome outcome);  // nothing: it goes on
  std::function<Status(std::string_view, double)> reporter();
  Status save_model() const;
  bool compute(const ActiveView& view, std::int64_t step);  // false: the program failed
  bool compute(const HostStep& host, std::int64_t step, std::span<const std::byte> before,
               std::span<std::byte> after, double& loss);
  bool diverged(const ActiveView& view, std::int64_t step, bool settled);  // says so
  void offer_prefetch(const ActiveView& view, std::int64_t step);
  StepInfo info(std::int64_t step) const;
  bool done() const;

  // training_adaptive.cpp
  void fill_data_board();
  Status restore_data_board();
  bool compute_adaptive(const ActiveView& view, std::int64_t step);
  static std::vector<int> hosted_elsewhere(const ActiveView& view);
  std::optional<StepInfo> adaptive_info(std::int64_t step) const;
  void offer_adaptive_prefetch(const ActiveView& view, std::int64_t step, const DataState& next);

  // training_audit.cpp
  bool audit_if_due(const ActiveView& view, std::int64_t step);
  bool audit_mini_batch(std::int64_t step, AuditRecord& record);
  void judge_audit(std::int64_t step);

  bool reduce(const ActiveView& view, std::int64_t step);
  bool reduce_alone(const ActiveView& view, std::int64_t step);
  void update(std::int64_t step, const std::function<void()>& apply);
  void update_from_board(std::int64_t step);
  void mirror_state() const;
  Status prepare_buffers(const HostProgram& host);
  void after_step(const ActiveView& view, std::int64_t step);
  void say_epoch(const ActiveView& view, std::int64_t step) const;
  Outcome fail(const std::string& message);

  Context context_;
  Coordinator& coordinator_;
  TrainingPort& port_;
  std::optional<LoadedCheckpoint> restored_;
  std::unique_ptr<StateFollower> follower_;  // newcomer only
  std::shared_ptr<const ActiveView> view_;
  std::unique_ptr<LeaderRecords> records_;  // while this worker leads
  std::shared_ptr<Metrics> metrics_;
  std::int64_t audited_step_ = -1;
  std::int64_t audited_view_ = -1;
  struct Unjudged {
    std::int64_t step = 0;
    std::int64_t view = 0;
    std::vector<int> workers{};
  };
  std::optional<Unjudged> unjudged_;  // an audit that this leader has to judge
  std::vector<std::byte> audit_after_;
  std::int64_t version_ = 0;      // steps applied
  std::int64_t begun_step_ = -1;  // the newest step this worker began to compute
  std::int64_t redone_ = 0;       // steps repeated because of this view
  bool view_reported_ = false;
  std::set<int> bound_buffers_;
  MiniBatch batch_;
  StepShares shares_;                          // adaptive job only
  std::vector<std::vector<std::byte>> after_;  // private states until they are published
  std::vector<double> losses_;                 // adaptive job: of its logical workers in this step
  std::unique_ptr<Prefetcher> prefetcher_;     // if the program wants it
  float scale_ = 1.0F;
  std::chrono::steady_clock::time_point step_ended_;
  // For what a view costs the survivors, see view_works().
  std::chrono::steady_clock::duration commit_time_{};    // leader: for the view after this step
  std::chrono::steady_clock::duration exchange_time_{};  // of this step, without that
  std::chrono::steady_clock::duration usual_exchange_time_{};  // of the step before
  bool trained_before_ = false;
  bool survived_ = false;  // it was a member of the view before this one
};

}  // namespace rubato::elastic
