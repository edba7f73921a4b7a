#include "elastic/job/records.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json_text.h"
#include "base/sha256.h"
#include "elastic/model/model_export.h"

namespace rubato::elastic {

namespace {

using std::chrono::steady_clock;

// Counts offsets from the beginning of the whole shared state, which is one part of a checkpoint.
std::vector<TensorPlace> in_state(std::vector<TensorPlace> places, const WorkerSegment& state) {
  for (TensorPlace& place : places) {
    if (place.unit < 0) continue;
    const std::span<std::byte> unit = state.unit(static_cast<std::size_t>(place.unit));
    place.offset += static_cast<std::size_t>(unit.data() - state.state().data());
    place.unit = 0;
  }
  return places;
}

std::string without_digits(std::string text) {
  std::erase_if(text, [](char c) { return c >= '0' && c <= '9'; });
  return text;
}

}  // namespace

void BackgroundCheckpoint::begin(std::int64_t step, const std::string& description,
                                 const WorkerSegment& state, Parts others) {
  if (busy()) return;
  if (thread_.joinable()) thread_.join();
  busy_ = true;
  copied_ = false;
  auto copies = std::make_unique<Parts>(std::move(others));
  thread_ = std::thread(
      [this, step, description, bytes = state.state(), parts = std::move(copies)]() mutable {
        parts->emplace(parts->begin(), bytes.begin(), bytes.end());
        copied_.store(true, std::memory_order_release);
        copied_.notify_all();
        CheckpointParts checkpoint{.step = step, .description = description};
        for (const auto& part : *parts) checkpoint.parts.emplace_back(part);
        const Status written = folder_.write(checkpoint);
        if (written.ok()) told_.clear();
        // The same problem of another step is no news.
        if (!written.ok() && told_.insert(without_digits(written.error().message)).second) {
          tell_(written.error().message);
        }
        busy_.store(false, std::memory_order_release);
      });
}

void BackgroundCheckpoint::wait_copied() { copied_.wait(false, std::memory_order_acquire); }

void BackgroundCheckpoint::finish() {
  if (thread_.joinable()) thread_.join();
}

LeaderRecords::LeaderRecords(const Context& context, CheckpointFolder folder)
    : context_(context),
      checkpoint_(std::move(folder), [job = *context.folder](const std::string& problem) {
        static_cast<void>(job.append_event({{"type", "error"}, {"message", problem}}));
      }) {}

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
  if (!context.tensors.empty()) {
    Status described = write_tensor_map(
        *context.folder, {.description = context.description,
                          .state_bytes = context.state->state().size(),
                          .private_bytes = context.board->private_state(0, next_step).size(),
                          .private_part = context.data != nullptr ? 2U : 1U,
                          .tensors = in_state(context.tensors, *context.state)});
    if (!described.ok()) return described.error();
  }
  const DataOrder& order = *context.order;
  static_cast<void>(
      context.folder->append_event({{"type", "started"},
                                    {"at", unix_seconds()},
                                    {"step", next_step},
                                    {"total_steps", context.total_steps},
                                    {"total_samples", context.total_samples},
                                    {"steps_per_epoch", order.steps_per_epoch()},
                                    {"batch", order.options().batch},
                                    {"samples", order.options().samples},
                                    {"logical_workers", context.settings->logical_workers}}));
  return records;
}

// Lines may be missing: the previous leader died between the end of a step and its line, or a
// former leader has cut lines off. The samples of a step are a pure function. For an adaptive job,
// only those of the last step are known.
Status LeaderRecords::open_ledger(std::int64_t next_step) {
  Result<Ledger> ledger = Ledger::open(context_.settings->ledger, next_step);
  if (!ledger.ok()) return ledger.error();
  ledger_ = std::move(*ledger);
  MiniBatch batch;
  while (ledger_->next_step() < next_step) {
    const std::int64_t step = ledger_->next_step();
    if (context_.data != nullptr) {
      if (step < next_step - 1 || !context_.data->facts(step)) {
        return invalid_input(fmt::format("{}: lacks steps {}..{}; use a new file",
                                         context_.settings->ledger, step, next_step - 1));
      }
      Status appended = append_ledger(step);
      if (!appended.ok()) return appended;
      continue;
    }
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

int LeaderRecords::logical_workers_before(std::int64_t step) const {
  return context_.data != nullptr ? context_.data->state(step).logical_workers()
                                  : context_.settings->logical_workers;
}

BackgroundCheckpoint::Parts LeaderRecords::private_parts(std::int64_t step) const {
  BackgroundCheckpoint::Parts parts;
  if (context_.data != nullptr) {
    const std::vector<std::int64_t> words = to_words(context_.data->state(step));
    const auto bytes = std::as_bytes(std::span(words));
    parts.emplace_back(bytes.begin(), bytes.end());
  }
  for (int logical = 0; logical < logical_workers_before(step); ++logical) {
    const std::span<std::byte> bytes = context_.board->private_state(logical, step);
    parts.emplace_back(bytes.begin(), bytes.end());
  }
  return parts;
}

Status LeaderRecords::append_ledger(std::int64_t step) {
  const Board& board = *context_.board;
  std::vector<std::vector<std::int64_t>> samples;
  std::size_t first = 0;
  for (int logical = 0; logical < logical_workers_before(step + 1); ++logical) {
    const auto count = static_cast<std::size_t>(board.slot(logical, step + 1).samples);
    const std::span<std::int64_t> all = context_.data != nullptr
                                            ? context_.data->samples(step).subspan(first)
                                            : board.samples(logical, step + 1);
    if (count > all.size()) {
      return invalid_input(fmt::format("step {}, logical worker {}: {} samples cannot be", step,
                                       logical, static_cast<std::int64_t>(count)));
    }
    const std::span<std::int64_t> ids = all.first(count);
    samples.emplace_back(ids.begin(), ids.end());
    first += count;
  }
  Status appended = ledger_->append(step, epoch_of(step), samples);
  if (!appended.ok() || context_.data != nullptr || ledger_->intact()) return appended;
  return open_ledger(step + 1);
}

std::int64_t LeaderRecords::epoch_of(std::int64_t step) const {
  return context_.data != nullptr ? context_.data->facts(step)->epoch
                                  : context_.order->epoch_of(step);
}

Status LeaderRecords::step_done(std::int64_t step, bool checkpoint) {
  if (ledger_) {
    Status appended = append_ledger(step);
    if (!appended.ok()) return appended;
  }
  if (checkpoint) {
    last_checkpoint_ = steady_clock::now();
    checkpoint_.begin(step + 1, context_.description, *context_.state, private_parts(step + 1));
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
  checkpoint_.begin(step, context_.description, *context_.state, private_parts(step));
  checkpoint_.finish();
}

void LeaderRecords::view_works(const ActiveView& view, std::int64_t steps_redone,
                               std::int64_t waited_us) const {
  std::int64_t stall_us = 0;
  for (std::size_t i = 0; i < view.view.members.size(); ++i) {
    stall_us = std::max(stall_us, view.block->rows[i].stall_us.load());
  }
  stall_us += waited_us;
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
                                     {"logical_workers", view.view.logical_workers()},
                                     {"batch", view.view.batch},
                                     {"leader", view.view.leader},
                                     {"step", view.view.first_step},
                                     {"prepare_s", view.view.prepare_s},
                                     {"stall_ms", static_cast<double>(stall_us) / 1e3},
                                     {"steps_redone", steps_redone}}));
}

Status LeaderRecords::write_result(const View& view, std::int64_t steps) {
  if (ledger_ && context_.data == nullptr && !ledger_->intact()) {
    Status opened = open_ledger(steps);
    if (!opened.ok()) return opened;
  }
  const Board& board = *context_.board;
  const std::int64_t end = steps;
  const int logical_workers = logical_workers_before(end);
  Sha256 hash;
  hash.update(context_.state->state());
  for (int logical = 0; logical < logical_workers; ++logical) {
    hash.update(board.private_state(logical, end));
  }
  checkpoint_.finish();
  const std::int64_t epoch_of_next =
      context_.data != nullptr ? context_.data->state(end).epoch : context_.order->epoch_of(end);
  const nlohmann::json result = {
      {"name", context_.settings->name},
      {"state_sha256", to_hex(hash.finish())},
      {"steps", end},
      {"epochs", epoch_of_next},
      {"mode", context_.data != nullptr ? "adaptive" : "consistent"},
      {"logical_workers", logical_workers},
      {"batch", view.batch},
      {"samples", context_.order->options().samples},
      {"views", view.number},
      {"final_loss", mean_loss(board, logical_workers, end - 1).value_or(0)}};
  return write_file(context_.folder->result_file(), indented_json(result) + "\n");
}

}  // namespace rubato::elastic
