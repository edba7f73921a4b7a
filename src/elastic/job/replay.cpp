#include "elastic/job/replay.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "base/json_text.h"
#include "base/sha256.h"
#include "elastic/data/reduction_tree.h"
#include "elastic/job/job_folder.h"
#include "elastic/job/view.h"

namespace rubato::elastic {

Result<std::vector<ScheduleEntry>> schedule_of(Registry& registry) {
  Result<View> newest = newest_view(registry);
  if (!newest.ok()) return newest.error();
  std::vector<ScheduleEntry> schedule;
  for (std::int64_t number = 1; number <= newest->number; ++number) {
    Result<std::optional<std::string>> record = registry.at(kViewRecord, number);
    if (!record.ok()) return record.error();
    if (!record->has_value()) {
      return invalid_input(fmt::format("view {} is missing from the registry", number));
    }
    Result<View> view = parse_view(parse_json(**record));
    if (!view.ok()) return view.error();
    if (view->empty()) continue;
    while (!schedule.empty() && schedule.back().first_step >= view->first_step) schedule.pop_back();
    schedule.push_back({view->first_step, view->logical_workers(), view->batch});
  }
  if (schedule.empty() || schedule.front().first_step != 0) {
    return invalid_input("the registry has no view that begins at step 0");
  }
  return schedule;
}

namespace {

// The private states before and after a step.
using States = std::vector<std::vector<std::byte>>;

double mean_loss(const std::vector<double>& losses, const StepShares& shares) {
  double sum = 0;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    sum += losses[i] * static_cast<double>(shares.count(static_cast<int>(i)));
  }
  return sum / static_cast<double>(shares.samples);
}

}  // namespace

Result<Replayed> replay(Program& program, const JobPlan& plan, const WorkerSegment& own,
                        std::span<const ScheduleEntry> schedule) {
  if (!plan.adaptive) {
    return invalid_input(
        "only adaptive jobs can be replayed; the result of a consistent job does not depend on its "
        "schedule");
  }
  const AdaptiveTerms& terms = *plan.adaptive;
  const Partitions& partitions = terms.partitions();
  const std::size_t private_bytes = program.shape().private_bytes;
  DataState state;
  States before(1, std::vector<std::byte>(private_bytes));
  program.initial_private(before.front());
  Replayed result;
  HostProgram host;
  StepShares shares;
  MiniBatch batch;
  int bound = 0;
  std::size_t at = 0;
  for (std::int64_t step = 0; !partitions.done(state); ++step) {
    while (at + 1 < schedule.size() && schedule[at + 1].first_step <= step) ++at;
    const ScheduleEntry& now = schedule[at];
    host = host_program(now.logical_workers, {0, now.logical_workers});
    for (; bound < host.buffers; ++bound) {
      Status reserved = own.reserve_buffer(bound);
      if (!reserved.ok()) return reserved.error();
      program.bind_buffer(bound, own.buffer(bound));
    }
    const std::int64_t used = partitions.used(state);
    DataState next = partitions.take(state, now.logical_workers, now.batch, shares);
    States after(host.steps.size(), std::vector<std::byte>(private_bytes));
    std::vector<double> losses(host.steps.size());
    std::size_t done = 0;
    for (const HostStep& part : host.steps) {
      terms.fill(shares, step, part.logical, batch);
      const auto from = static_cast<std::size_t>(part.logical);
      program.compute(batch, before[from < before.size() ? from : 0], after[done], losses[done],
                      part.buffer, part.accumulate);
      ++done;
      for (const HostStep::Merge& merge : part.merges) program.merge(merge.into, merge.from);
    }
    program.apply_buffer(terms.info({.step = step,
                                     .epoch = shares.epoch,
                                     .used = used,
                                     .batch = now.batch,
                                     .logical_workers = now.logical_workers}),
                         host.roots.front().buffer, 1.0F / static_cast<float>(now.logical_workers));
    program.settle();
    before = std::move(after);
    state = std::move(next);
    result.steps = step + 1;
    result.final_loss = mean_loss(losses, shares);
  }
  if (!program.state_in_host_memory()) {
    for (std::size_t i = 0; i < program.shape().unit_bytes.size(); ++i) program.store_unit(i);
  }
  Sha256 hash;
  hash.update(own.state());
  for (const auto& bytes : before) hash.update(bytes);
  result.state_sha256 = to_hex(hash.finish());
  return result;
}

}  // namespace rubato::elastic
