#include "elastic/records.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/sha256.h"

namespace rubato::elastic {

namespace {

using std::chrono::steady_clock;

}  // namespace

void BackgroundCheckpoint::begin(std::int64_t step, const std::string& description,
                                 const WorkerSegment& state, const Board& board) {
  if (busy()) return;
  if (thread_.joinable()) thread_.join();
  busy_ = true;
  copied_ = false;
  // The slots of this parity are overwritten already while the next step computes; they are small.
  const int logical_workers = board.shape().logical_workers;
  auto copies = std::make_unique<std::vector<std::vector<std::byte>>>();
  copies->emplace_back();
  for (int logical = 0; logical < logical_workers; ++logical) {
    const std::span<std::byte> bytes = board.private_state(logical, step);
    copies->emplace_back(bytes.begin(), bytes.end());
  }
  thread_ = std::thread(
      [this, step, description, bytes = state.state(), parts = std::move(copies)]() mutable {
        parts->front().assign(bytes.begin(), bytes.end());
        copied_.store(true, std::memory_order_release);
        copied_.notify_all();
        CheckpointParts checkpoint{.step = step, .description = description};
        for (const auto& part : *parts) checkpoint.parts.emplace_back(part);
        const Status written = folder_.write(checkpoint);
        problem_ = written.ok() ? "" : written.error().message;
        busy_.store(false, std::memory_order_release);
      });
}

void BackgroundCheckpoint::wait_copied() { copied_.wait(false, std::memory_order_acquire); }

std::string BackgroundCheckpoint::finish() {
  if (thread_.joinable()) thread_.join();
  return problem_;
}

Result<std::unique_ptr<LeaderRecords>> LeaderRecords::open(const Context& context,
                                                           std::int64_t next_step) {
  Result<CheckpointFolder> folder = CheckpointFolder::open(context.folder->checkpoint_folder(),
                                                           context.settings->checkpoint_keep);
  if (!folder.ok()) return folder.error();
  auto records = std::unique_ptr<LeaderRecords>(new LeaderRecords(context, std::move(*folder)));
  if (!context.settings->ledger.empty()) {
    Status opened = records->open_ledger(next_step);
    if (!opened.ok()) return opened.error();
  }
  return records;
}

// Lines may be missing: the leader before died between the end of a step and its line, or a former
// one has cut them off. The samples of a step are a pure function.
Status LeaderRecords::open_ledger(std::int64_t next_step) {
  Result<Ledger> ledger = Ledger::open(context_.settings->ledger, next_step);
  if (!ledger.ok()) return ledger.error();
  ledger_ = std::move(*ledger);
  MiniBatch batch;
  while (ledger_->next_step() < next_step) {
    const std::int64_t step = ledger_->next_step();
    std::vector<std::vector<std::int64_t>> samples;
    for (int logical = 0; logical < context_.settings->logical_workers; ++logical) {
      context_.order->share(step, logical, batch);
      samples.emplace_back(batch.samples.begin(), batch.samples.end());
    }
    Status appended = ledger_->append(step, context_.order->epoch_of(step), samples);
    if (!appended.ok()) return appended;
  }
  return ok_status();
}

Status LeaderRecords::append_ledger(std::int64_t step) {
  const Board& board = *context_.board;
  std::vector<std::vector<std::int64_t>> samples;
  for (int logical = 0; logical < context_.settings->logical_workers; ++logical) {
    const auto count = static_cast<std::size_t>(board.slot(logical, step + 1).samples);
    const std::span<std::int64_t> ids = board.samples(logical, step + 1).subspan(0, count);
    samples.emplace_back(ids.begin(), ids.end());
  }
  Status appended = ledger_->append(step, context_.order->epoch_of(step), samples);
  if (!appended.ok() || ledger_->intact()) return appended;
  return open_ledger(step + 1);
}

Status LeaderRecords::step_done(std::int64_t step) {
  if (ledger_) {
    Status appended = append_ledger(step);
    if (!appended.ok()) return appended;
  }
  if (checkpoint_due(step)) {
    last_checkpoint_ = steady_clock::now();
    checkpoint_.begin(step + 1, context_.description, *context_.state, *context_.board);
  }
  return ok_status();
}

bool LeaderRecords::checkpoint_due(std::int64_t step) const {
  if (checkpoint_.busy()) return false;
  const JobSettings& settings = *context_.settings;
  if (settings.checkpoint_every_steps > 0) {
    return (step + 1) % settings.checkpoint_every_steps == 0;
  }
  const double passed =
      std::chrono::duration<double>(steady_clock::now() - last_checkpoint_).count();
  return settings.checkpoint_every_s > 0 && passed >= settings.checkpoint_every_s;
}

void LeaderRecords::checkpoint_now(std::int64_t step) {
  checkpoint_.finish();
  checkpoint_.begin(step, context_.description, *context_.state, *context_.board);
  const std::string problem = checkpoint_.finish();
  if (!problem.empty()) {
    static_cast<void>(context_.folder->append_event({{"type", "error"}, {"message", problem}}));
  }
}

void LeaderRecords::view_works(const ActiveView& view, std::int64_t steps_redone) const {
  std::int64_t stall_us = 0;
  for (std::size_t i = 0; i < view.view.members.size(); ++i) {
    stall_us = std::max(stall_us, view.block->rows[i].stall_us.load());
  }
  nlohmann::json hosts = nlohmann::json::array();
  for (const Member& member : view.view.members) {
    hosts.push_back({member.hosts.begin, member.hosts.end});
  }
  static_cast<void>(
      context_.folder->append_event({{"type", "view"},
                                     {"at", unix_seconds()},
                                     {"view", view.view.number},
                                     {"cause", view.view.cause},
                                     {"workers", view.view.members.size()},
                                     {"members", view.view.ids()},
                                     {"hosts", hosts},
                                     {"leader", view.view.leader},
                                     {"step", view.view.first_step},
                                     {"prepare_s", view.view.prepare_s},
                                     {"stall_ms", static_cast<double>(stall_us) / 1e3},
                                     {"steps_redone", steps_redone}}));
}

Status LeaderRecords::write_result(const View& view) {
  if (ledger_ && !ledger_->intact()) {
    Status opened = open_ledger(context_.total_steps);
    if (!opened.ok()) return opened;
  }
  const Board& board = *context_.board;
  const std::int64_t end = context_.total_steps;
  Sha256 hash;
  hash.update(context_.state->state());
  double loss = 0;
  double weight = 0;
  for (int logical = 0; logical < context_.settings->logical_workers; ++logical) {
    hash.update(board.private_state(logical, end));
    const SlotHeader& slot = board.slot(logical, end);
    loss += slot.loss * static_cast<double>(slot.samples);
    weight += static_cast<double>(slot.samples);
  }
  const std::string problem = checkpoint_.finish();
  if (!problem.empty()) {
    static_cast<void>(context_.folder->append_event({{"type", "error"}, {"message", problem}}));
  }
  const nlohmann::json result = {{"name", context_.settings->name},
                                 {"state_sha256", to_hex(hash.finish())},
                                 {"steps", end},
                                 {"epochs", end / context_.order->steps_per_epoch()},
                                 {"logical_workers", context_.settings->logical_workers},
                                 {"samples", context_.order->options().samples},
                                 {"views", view.number},
                                 {"final_loss", weight > 0 ? loss / weight : 0.0}};
  return write_file(context_.folder->result_file(), result.dump(2) + "\n");
}

std::string describe_job(const ProgramShape& shape, const DataOrder::Options& data,
                         std::int64_t total_steps) {
  std::size_t state = 0;
  for (const std::size_t unit : shape.unit_bytes) state += unit;
  return fmt::format(
      "gradient_floats={} units={} state_bytes={} private_bytes={} samples={} batch={} seed={} "
      "shuffle={} logical_workers={} steps={}",
      shape.gradient_floats, shape.unit_bytes.size(), state, shape.private_bytes, data.samples,
      data.batch, data.seed, data.shuffle, data.logical_workers, total_steps);
}

}  // namespace rubato::elastic
