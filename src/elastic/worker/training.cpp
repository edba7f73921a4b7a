#include "elastic/worker/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <string>
#include <utility>

#include "base/file.h"
#include "elastic/data/exchange.h"
#include "elastic/model/model_file.h"

namespace rubato::elastic {

namespace {

using std::chrono::steady_clock;

constexpr auto kTimeToFreeMemory = std::chrono::seconds(10);

std::int64_t microseconds(steady_clock::duration duration) {
  return std::chrono::duration_cast<std::chrono::microseconds>(duration).count();
}

class PortGuard final : public ExchangeGuard {
 public:
  explicit PortGuard(TrainingPort& port) : port_(port) {}
  bool interrupted() const override { return port_.interrupted(); }
  bool publish(const std::function<void()>& write) override { return port_.publish(write); }

 private:
  TrainingPort& port_;
};

}  // namespace

Training::Training(const Context& context, Coordinator& coordinator,
                   std::optional<LoadedCheckpoint> restored)
    : context_(context),
      coordinator_(coordinator),
      port_(coordinator.port()),
      restored_(std::move(restored)),
      metrics_(std::make_shared<Metrics>(*context.folder)) {
  version_ = restored_ ? restored_->step : 0;
  if (context.program->wants_prefetch()) {
    prefetcher_ = std::make_unique<Prefetcher>(*context.program);
  }
}

StepInfo Training::info(std::int64_t step) const {
  if (context_.adaptive != nullptr) {
    const std::optional<StepInfo> known = adaptive_info(step);
    RUBATO_CHECK(known.has_value(), "the facts of a step this member took part in are missing");
    const DataState after = port_.data_board().state(step + 1);
    StepInfo facts = *known;
    facts.ends_epoch = after.epoch != facts.epoch || context_.adaptive->partitions().done(after);
    return facts;
  }
  return {.step = step,
          .epoch = context_.order->epoch_of(step),
          .steps_per_epoch = context_.order->steps_per_epoch(),
          .ends_epoch = (step + 1) % context_.order->steps_per_epoch() == 0 ||
                        step + 1 == context_.total_steps,
          .private_state = port_.board().private_state(0, step + 1).data()};
}

bool Training::done() const {
  if (context_.adaptive == nullptr) return version_ >= context_.total_steps;
  return view_ && context_.adaptive->partitions().done(port_.data_board().state(version_));
}

Training::Outcome Training::fail(const std::string& message) {
  fmt::print(stderr, "rubato: {}\n", message);
  return Outcome::kFailed;
}

std::span<const std::byte> Training::private_state(int logical) const {
  return port_.board().private_state(logical, version_);
}

std::optional<Training::End> Training::end_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::kInterrupted:
      return std::nullopt;
    case Outcome::kDone:
      return End::kFinished;
    case Outcome::kGone:
      return End::kLeft;
    case Outcome::kFailed:
      return End::kFailed;
  }
  return std::nullopt;
}

Training::End Training::run() {
  bool observing = false;
  for (;;) {
    if (observing && !port_.pending() && follow()) {
      observing = false;
      if (const auto end = end_of(train())) return *end;
      continue;
    }
    const auto event = port_.wait_event(std::chrono::milliseconds(observing ? 0 : 1000));
    if (!event) continue;
    switch (*event) {
      case TrainingPort::Event::kFound:
        if (const Status filled = fill_board(); !filled.ok()) {
          fail(filled.error().message);
          return End::kFailed;
        }
        port_.filled();
        break;
      case TrainingPort::Event::kObserve:
        follower_ = std::make_unique<StateFollower>(
            *context_.program, port_.board(), *context_.own,
            [this](std::int64_t step) -> std::optional<StepInfo> {
              return context_.adaptive != nullptr ? adaptive_info(step) : info(step);
            });
        observing = true;
        break;
      case TrainingPort::Event::kStart: {
        auto view = port_.started_view();
        if (!view) break;
        observing = false;
        if (!enter(view)) return End::kFailed;
        if (const auto end = end_of(train())) return *end;
        break;
      }
      case TrainingPort::Event::kFinished:
        return done() ? End::kFinished : End::kLeft;
      case TrainingPort::Event::kLeave:
        fmt::print(stderr, "rubato: this worker leaves: {}\n", port_.reason());
        return End::kExcluded;
    }
  }
}

// The private state of all logical workers before the first step: from the checkpoint, or initial.
Status Training::fill_board() {
  const Board& board = port_.board();
  context_.own->update(version_, [] {});
  if (context_.adaptive == nullptr) {
    const Status length = check_length(version_, context_.total_steps, "steps");
    if (!length.ok()) return length.error();
  }
  if (context_.adaptive != nullptr && restored_) return restore_data_board();
  if (context_.adaptive != nullptr) {
    fill_data_board();
    return ok_status();
  }
  for (int logical = 0; logical < context_.settings->logical_workers; ++logical) {
    const std::span<std::byte> state = board.private_state(logical, version_);
    if (!restored_) {
      context_.program->initial_private(state);
      continue;
    }
    const auto& saved = restored_->parts[static_cast<std::size_t>(logical) + 1];
    std::copy_n(saved.begin(), state.size(), state.begin());
  }
  return ok_status();
}

// A training may be continued with another length, unless it is already longer.
Status Training::check_length(std::int64_t done, std::int64_t total, const char* unit) const {
  if (done <= total) return ok_status();
  const std::string message = fmt::format(
      "{}: {} {} are trained already, but only {} are asked for; ask for at least as many, or "
      "choose another folder",
      context_.folder->checkpoint_folder(), done, unit, total);
  static_cast<void>(write_file(context_.folder->hopeless_file(), message + "\n"));
  return invalid_input(message);
}

// Follows the job's state until this worker is admitted (true) or an event is waiting (false).
bool Training::follow() {
  const Board& board = port_.board();
  bool said_ready = false;
  for (;;) {
    if (port_.pending()) return false;
    // A program that warms up by updates does so, unless the others wait for this worker to begin.
    const bool warm =
        !context_.program->warms_up_by_update() || follower_->updated() || !port_.sees_training();
    if (warm && follower_->complete() && port_.sees_view()) {
      if (!said_ready) {
        said_ready = true;
        port_.ready();
      }
      if (auto view = port_.admitted_at(follower_->version())) return enter(view);
    }
    if (said_ready && !follower_->complete()) {  // it starts over and needs copies again
      said_ready = false;
      port_.ready(false);
    }
    const std::shared_ptr<const Donor> donor = port_.donor();
    if (follower_->advance(donor.get())) continue;
    const std::int64_t seen = board.completed();
    const auto until = steady_clock::now() + std::chrono::milliseconds(2);
    board.wait([&] { return board.completed() != seen; },
               [&] { return steady_clock::now() >= until || port_.pending(); });
  }
}

// Other workers read only the roots; partial sums need no shared memory. After a failure, the
// memory of the lost workers is free once all survivors have dropped the view before.
Status Training::prepare_buffers(const HostProgram& host) {
  for (const HostRoot& root : host.roots) {
    if (bound_buffers_.contains(root.buffer)) continue;
    Status reserved = context_.own->reserve_buffer(root.buffer, kTimeToFreeMemory);
    if (!reserved.ok()) return reserved;
    bound_buffers_.insert(root.buffer);
    context_.program->bind_buffer(root.buffer, context_.own->buffer(root.buffer));
  }
  return ok_status();
}

// Brings the state to the first step of the view and makes it the current one.
bool Training::enter(const std::shared_ptr<const ActiveView>& view) {
  const std::int64_t first = view->view.first_step;
  context_.program->settle();  // settle an interrupted step now, before slots are reused
  if (follower_) {
    while (follower_->version() < first && follower_->advance(nullptr)) {
    }
    if (!follower_->complete()) {
      fail("the state did not arrive in time");
      return false;
    }
    version_ = follower_->version();
    // On a device, the units' memory is not up to date: nobody may copy it before it is mirrored.
    if (context_.program->state_in_host_memory()) context_.own->update(version_, [] {});
    follower_.reset();
  }
  // The last step was complete, but this worker was interrupted before it could apply it.
  if (version_ == first - 1) {
    update_from_board(version_);
    // A leader that remains leader has not recorded it either; a new leader finds the gap by
    // itself.
    if (records_ && view->leads()) after_step(*view_, version_ - 1);
  }
  if (version_ != first) {
    fail(fmt::format("view {} starts at step {}, but the state here is at {}", view->view.number,
                     first, version_));
    return false;
  }
  // A newcomer that missed the last gradient copies the state, and nobody continues before it has.
  if (view_ &&
      std::any_of(view->view.members.begin(), view->view.members.end(), [&](const Member& member) {
        return view_->view.find(member.address.id) == nullptr;
      })) {
    mirror_state();
  }
  redone_ = begun_step_ >= first ? begun_step_ - first + 1 : 0;
  if (view->view.cause == "restart") {
    redone_ = std::max<std::int64_t>(0, port_.steps_before_restart() - first);
  }
  scale_ = 1.0F / static_cast<float>(view->view.logical_workers());
  view_ = view;
  if (const Status prepared = prepare_buffers(view->host); !prepared.ok()) {
    fail(prepared.error().message);
    return false;
  }
  const bool leads = view->leads();
  if (leads && !records_ && !coordinator_.newest_leads(view->view)) {
    // Excluded on another node, but has not noticed yet: its successor writes the files now.
    port_.board().wait([&] { return port_.pending(); }, [] { return false; });
    return true;
  }
  if (leads && !records_) {
    Result<std::unique_ptr<LeaderRecords>> records = LeaderRecords::open(
        {.folder = context_.folder,
         .settings = context_.settings,
         .description = context_.description,
         .board = &port_.board(),
         .state = context_.own,
         .order = context_.order,
         .data = context_.adaptive != nullptr ? &port_.data_board() : nullptr,
         .total_steps = context_.adaptive != nullptr ? 0 : context_.total_steps,
         .total_samples = context_.adaptive != nullptr
                              ? context_.adaptive->partitions().options().total_samples
                              : 0,
         .tensors = context_.program->tensors()},
        version_);
    if (!records.ok()) {
      fail(records.error().message);
      return false;
    }
    records_ = std::move(*records);
  }
  if (!leads) {
    records_.reset();
    metrics_->tell_now();
  }
  view_reported_ = false;
  const bool adaptive = context_.adaptive != nullptr;
  context_.program->entered(
      {.leads = leads,
       .workers = static_cast<int>(view->view.members.size()),
       .hosts = view->view.members[static_cast<std::size_t>(view->position)].hosts,
       .total_steps = adaptive ? 0 : context_.total_steps,
       .order = adaptive ? nullptr : context_.order,
       .report = leads ? reporter() : nullptr});
  if (!trained_before_) step_ended_ = steady_clock::now();  // a newcomer was not kept waiting
  survived_ = trained_before_;
  trained_before_ = true;
  view->row().stall_us = microseconds(steady_clock::now() - step_ended_ + commit_time_);
  commit_time_ = {};
  port_.entered(view);
  return true;
}

// Outlives the training: programs report what they find out about the finished model.
std::function<Status(std::string_view, double)> Training::reporter() {
  return [metrics = metrics_](std::string_view name, double value) {
    return metrics->report(name, value);
  };
}

bool Training::compute(const ActiveView& view, std::int64_t step) {
  if (context_.adaptive != nullptr) return compute_adaptive(view, step);
  const Board& board = port_.board();
  if (prefetcher_) offer_prefetch(view, step + 1);
  for (const HostStep& host : view.host.steps) {
    if (port_.interrupted()) return true;
    context_.order->share(step, host.logical, batch_);
    SlotHeader& after = board.slot(host.logical, step + 1);
    if (!compute(host, step, board.private_state(host.logical, step),
                 board.private_state(host.logical, step + 1), after.loss)) {
      return false;
    }
    after.samples = static_cast<std::int64_t>(batch_.samples.size());
    std::copy(batch_.samples.begin(), batch_.samples.end(),
              board.samples(host.logical, step + 1).begin());
  }
  return true;
}

// Forward and backward pass of batch_.
bool Training::compute(const HostStep& host, std::int64_t step, std::span<const std::byte> before,
                       std::span<std::byte> after, double& loss) {
  try {
    context_.program->compute(batch_, before, after, loss, host.buffer, host.accumulate);
    for (const HostStep::Merge& merge : host.merges) {
      context_.program->merge(merge.into, merge.from);
    }
    return true;
  } catch (const std::exception& error) {
    // One line, because the launcher repeats the last line.
    std::string what = error.what();
    what.resize(std::min(what.size(), what.find('\n')));
    fail(fmt::format("step {}, logical worker {}: the training program failed: {}", step,
                     host.logical, what));
    return false;
  }
}

// Whether the loss of a mini-batch that this worker computed is not a number. If the losses are
// still on a device, it looks only now and then.
bool Training::diverged(const ActiveView& view, std::int64_t step, bool settled) {
  constexpr std::int64_t kSettleEvery = 64;
  if (!context_.program->stops_at_nan()) return false;
  if (!settled && !context_.program->state_in_host_memory()) {
    if (step % kSettleEvery != 0) return false;
    context_.program->settle();
  }
  for (const HostStep& host : view.host.steps) {
    const double loss = port_.board().slot(host.logical, step + 1).loss;
    if (std::isfinite(loss)) continue;
    const std::string message = fmt::format(
        "step {}, logical worker {}: the loss is {}, so the training cannot go on; try a "
        "lower learning rate, or clip the gradient",
        step, host.logical, loss);
    fail(message);
    // Whoever tried again would get here again.
    static_cast<void>(write_file(context_.folder->hopeless_file(), message + "\n"));
    return true;
  }
  return false;
}

void Training::offer_prefetch(const ActiveView& view, std::int64_t step) {
  if (step >= context_.total_steps) return;
  prefetcher_->offer([order = context_.order, step,
                      hosts = view.view.members[static_cast<std::size_t>(view.position)].hosts](
                         std::vector<std::int64_t>& samples) {
    MiniBatch batch;
    for (int logical = hosts.begin; logical < hosts.end; ++logical) {
      order->share(step, logical, batch);
      samples.insert(samples.end(), batch.samples.begin(), batch.samples.end());
    }
  });
}

void Training::update(std::int64_t step, const std::function<void()>& apply) {
  if (records_) records_->before_update();
  version_ = step + 1;
  metrics_->reached(version_);
  if (context_.program->state_in_host_memory()) {
    context_.own->update(version_, apply);
  } else {
    apply();
  }
}

// Updates with the gradient on the board.
void Training::update_from_board(std::int64_t step) {
  update(step, [&] { context_.program->apply(info(step), port_.board().gradient(step), {}); });
  if (port_.board().copiers() > 0) mirror_state();
}

// If the state lives on a device, the host has a copy only when one is needed. A worker that copies
// it may compute the next step, so the private states must arrive no later than the copy.
void Training::mirror_state() const {
  context_.program->settle();
  if (context_.program->state_in_host_memory() || context_.own->version() == version_) return;
  context_.own->update(version_, [&] {
    for (std::size_t unit = 0; unit < context_.program->shape().unit_bytes.size(); ++unit) {
      context_.program->store_unit(unit);
    }
  });
}

// Turns partial sums into an updated state. False: interrupted, and the state is unchanged.
bool Training::reduce(const ActiveView& view, std::int64_t step) {
  for (const HostRoot& root : view.host.roots) context_.program->publish(root.buffer);
  PortGuard guard(port_);
  if (!exchange(port_.board(), view, step, scale_, guard)) return false;
  update_from_board(step);
  return true;
}

// The same if nobody else observes the step. Its private states and losses need not be on the
// board: if this worker dies, the job continues from a checkpoint. A newcomer can become a member
// only after copying a state that mirror_state() left or applying updates that went through the
// board; both put them there.
bool Training::reduce_alone(const ActiveView& view, std::int64_t step) {
  MemberRow& row = view.row();
  if (!port_.publish([&] {
        row.arrived = step;
        row.reduced = step;
      })) {
    return false;
  }
  if (!view.block->goes_on_after(step)) return false;
  if (!port_.publish([&] { mark_completed(port_.board(), step); })) return false;
  update(step, [&] {
    context_.program->apply_buffer(info(step), view.host.roots.front().buffer, scale_);
  });
  return true;
}

void Training::after_step(const ActiveView& view, std::int64_t step) {
  if (!records_) return;
  const bool checkpoint = records_->checkpoint_due(step);
  if (checkpoint) mirror_state();
  const Status done = records_->step_done(step, checkpoint);
  if (!done.ok()) fmt::print(stderr, "rubato: {}\n", done.error().message);
  if (!view_reported_) {
    view_reported_ = true;
    // Everybody waits for everybody, so this worker's waiting stands for the others', too.
    const auto waited =
        survived_ ? std::max(exchange_time_ - usual_exchange_time_, steady_clock::duration::zero())
                  : steady_clock::duration::zero();
    records_->view_works(view, redone_, microseconds(waited));
  }
  metrics_->tell();
  judge_audit(step);
  say_epoch(view, step);
}

void Training::say_epoch(const ActiveView& view, std::int64_t step) const {
  if (!context_.prints) return;
  std::int64_t epoch = 0;
  std::string of_how_many;
  if (context_.adaptive != nullptr) {
    epoch = port_.data_board().facts(step)->epoch;
    if (port_.data_board().state(step + 1).epoch == epoch && !done()) return;
  } else {
    epoch = context_.order->epoch_of(step);
    if (context_.order->epoch_of(step + 1) == epoch && !done()) return;
    of_how_many = fmt::format("/{}", context_.total_steps);
  }
  context_.program->settle();
  // The same loss as in result.json and in the progress that the daemon shows.
  const double loss = mean_loss(port_.board(), view.view.logical_workers(), step).value_or(0);
  fmt::print("epoch {} step {}{} loss {:.5f} workers {}\n", epoch + 1, step + 1, of_how_many, loss,
             view.view.members.size());
  std::fflush(stdout);
}

Training::Outcome Training::train() {
  while (!done()) {
    const ActiveView& view = *view_;
    const std::int64_t step = version_;
    if (port_.interrupted()) return Outcome::kInterrupted;
    if (!audit_if_due(view, step)) return Outcome::kFailed;
    if (port_.interrupted()) return Outcome::kInterrupted;
    const auto began = steady_clock::now();
    begun_step_ = step;
    port_.begins(step);
    if (!compute(view, step)) return Outcome::kFailed;
    if (port_.interrupted()) return Outcome::kInterrupted;
    const bool alone = view.alone() && port_.board().watchers() == 0;
    if (!alone) context_.program->settle();
    if (diverged(view, step, !alone)) return Outcome::kFailed;
    view.row().note_compute(step, microseconds(steady_clock::now() - began));
    const auto computed = steady_clock::now();
    port_.before_arrival(step);
    commit_time_ = steady_clock::now() - computed;
    if (!(alone ? reduce_alone(view, step) : reduce(view, step))) return Outcome::kInterrupted;
    exchange_time_ = steady_clock::now() - computed - commit_time_;
    after_step(view, step);
    usual_exchange_time_ = exchange_time_;
    step_ended_ = steady_clock::now();
    view.row().step_us = microseconds(step_ended_ - began);

    TrainingPort::Next next = port_.after_step(view, step);
    switch (next.kind) {
      case TrainingPort::Next::Kind::kSame:
        break;
      case TrainingPort::Next::Kind::kSwitch:
        if (!enter(next.view)) return Outcome::kFailed;
        break;
      case TrainingPort::Next::Kind::kGone:
        metrics_->tell_now();
        if (next.job_stops && records_) {
          mirror_state();
          records_->checkpoint_now(version_);
        }
        return Outcome::kGone;
      case TrainingPort::Next::Kind::kInterrupted:
        return Outcome::kInterrupted;
    }
  }
  return end_of_job();
}

// The leader writes the result. The others wait until they hear of it, because the leader might
// die.
Training::Outcome Training::end_of_job() {
  mirror_state();
  if (!view_->leads() || !records_) return Outcome::kInterrupted;
  metrics_->finish();
  if (!context_.model_file.empty()) {
    // Whoever wants more of the final state than the model, or in another format, finds it there.
    records_->checkpoint_now(version_);
    const Status saved = save_model();
    if (!saved.ok()) return fail(saved.error().message);
  }
  const Status written = records_->write_result(view_->view, version_);
  if (!written.ok()) return fail(written.error().message);
  port_.finish();
  return Outcome::kDone;
}

Status Training::save_model() const {
  Program& program = *context_.program;
  try {
    if (program.saves_model()) {
      program.save_model(context_.model_file, private_state(0));
      return ok_status();
    }
  } catch (const std::exception& error) {
    return Error{ErrorCode::kIo, fmt::format("{}: {}", context_.model_file, error.what())};
  }
  const std::vector<TensorPlace> places = program.tensors();
  if (places.empty()) return ok_status();
  const NamedTensors tensors(places, [&](const TensorPlace& place) -> std::span<const std::byte> {
    if (place.unit < 0) return private_state(0);
    return context_.own->unit(static_cast<std::size_t>(place.unit));
  });
  return write_model_file(context_.model_file, ModelFormat::kTorch, tensors.all());
}

}  // namespace rubato::elastic
