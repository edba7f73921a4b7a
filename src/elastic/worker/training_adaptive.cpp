// What differs in the step of an adaptive job.
//
// In a consistent job, a step interrupted by a failure has the same result in the next view. Not so
// here: the next view has other logical workers and another batch. So nothing of a step reaches the
// boards before the end of its computation, and then only through publish(), which refuses once the
// survivors are frozen. Whatever is on the boards when the next view starts, or gets there later,
// thus belongs to a single view.
#include <algorithm>
#include <cstring>
#include <utility>

#include "elastic/transport/bridge_layout.h"
#include "elastic/worker/training.h"

namespace rubato::elastic {

void Training::fill_data_board() {
  const DataState first;
  port_.data_board().put_state(version_, first);
  for (int logical = 0; logical < first.logical_workers(); ++logical) {
    context_.program->initial_private(port_.board().private_state(logical, version_));
  }
}

// From the parts of the checkpoint after the shared state: the data state and the private states.
Status Training::restore_data_board() {
  const auto& parts = restored_->parts;
  std::vector<std::int64_t> words(parts.size() > 1 ? parts[1].size() / sizeof(std::int64_t) : 0);
  if (!words.empty()) {
    std::memcpy(words.data(), parts[1].data(), words.size() * sizeof(std::int64_t));
  }
  Result<DataState> state = parse_data_state(words, context_.order->options().samples);
  if (!state.ok()) return state.error();
  const Partitions& partitions = context_.adaptive->partitions();
  const Status length =
      check_length(partitions.used(*state), partitions.options().total_samples, "samples");
  if (!length.ok()) return length.error();
  const auto logical_workers = static_cast<std::size_t>(state->logical_workers());
  const Board& board = port_.board();
  if (parts.size() != logical_workers + 2 ||
      state->logical_workers() > board.shape().logical_workers) {
    return invalid_input(
        "the number of private states in the checkpoint does not match its logical workers");
  }
  for (int logical = 0; logical < state->logical_workers(); ++logical) {
    const auto& saved = parts[static_cast<std::size_t>(logical) + 2];
    const std::span<std::byte> memory = board.private_state(logical, version_);
    if (saved.size() != memory.size()) {
      return invalid_input("the private states in the checkpoint have the wrong size");
    }
    std::copy_n(saved.begin(), memory.size(), memory.begin());
  }
  port_.data_board().put_state(version_, *state);
  return ok_status();
}

std::optional<StepInfo> Training::adaptive_info(std::int64_t step) const {
  const std::optional<StepFacts> facts = port_.data_board().facts(step);
  if (!facts) return std::nullopt;
  return context_.adaptive->info(*facts);
}

// The logical workers on other nodes, for the member that notes their samples on this node's data
// board: they are known without asking.
std::vector<int> Training::hosted_elsewhere(const ActiveView& view) {
  const std::vector<Member>& members = view.view.members;
  const WorkerAddress& own = members[static_cast<std::size_t>(view.position)].address;
  std::vector<int> logical;
  if (!view.spans_nodes || gateway_of(view.view, own.node) != own.id) return logical;
  for (const Member& member : members) {
    if (member.address.node == own.node) continue;
    for (int i = member.hosts.begin; i < member.hosts.end; ++i) logical.push_back(i);
  }
  return logical;
}

bool Training::compute_adaptive(const ActiveView& view, std::int64_t step) {
  const Board& board = port_.board();
  const DataBoard& data = port_.data_board();
  const AdaptiveTerms& terms = *context_.adaptive;
  const DataState before = data.state(step);
  const int logical_workers = view.view.logical_workers();
  const DataState next = terms.partitions().take(before, logical_workers, view.view.batch, shares_);
  if (prefetcher_) offer_adaptive_prefetch(view, step, next);
  struct Share {
    int logical = 0;
    std::vector<std::int64_t> samples;
  };
  std::vector<Share> done;
  after_.resize(view.host.steps.size());
  losses_.resize(view.host.steps.size());
  for (const HostStep& host : view.host.steps) {
    if (port_.interrupted()) return true;
    terms.fill(shares_, step, host.logical, batch_);
    std::vector<std::byte>& after = after_[done.size()];
    after.resize(context_.program->shape().private_bytes);
    // A logical worker that did not exist in the previous step starts with the state of the first.
    const int from = host.logical < before.logical_workers() ? host.logical : 0;
    double& loss = losses_[done.size()];
    if (!compute(host, step, board.private_state(from, step), after, loss)) return false;
    done.push_back({.logical = host.logical, .samples = batch_.samples});
  }
  std::vector<Share> elsewhere;
  for (const int logical : hosted_elsewhere(view)) {
    terms.fill(shares_, step, logical, batch_);
    elsewhere.push_back({.logical = logical, .samples = batch_.samples});
  }
  const auto note_samples = [&](const Share& share) {
    std::copy(share.samples.begin(), share.samples.end(),
              data.samples(step).begin() + shares_.first(share.logical));
  };
  context_.program->settle();
  port_.publish([&] {
    std::for_each(elsewhere.begin(), elsewhere.end(), note_samples);
    for (std::size_t i = 0; i < done.size(); ++i) {
      const Share& share = done[i];
      SlotHeader& slot = board.slot(share.logical, step + 1);
      slot.loss = losses_[i];
      slot.samples = static_cast<std::int64_t>(share.samples.size());
      std::copy(after_[i].begin(), after_[i].end(),
                board.private_state(share.logical, step + 1).begin());
      note_samples(share);
    }
    data.put_facts({.step = step,
                    .epoch = shares_.epoch,
                    .used = terms.partitions().used(before),
                    .batch = view.view.batch,
                    .logical_workers = logical_workers});
    data.put_state(step + 1, next);
  });
  return true;
}

void Training::offer_adaptive_prefetch(const ActiveView& view, std::int64_t step,
                                       const DataState& next) {
  const Partitions& partitions = context_.adaptive->partitions();
  if (partitions.done(next)) return;
  StepShares shares;
  partitions.take(next, view.view.logical_workers(), view.view.batch, shares);
  prefetcher_->offer([terms = context_.adaptive, step = step + 1, shares = std::move(shares),
                      hosts = view.view.members[static_cast<std::size_t>(view.position)].hosts](
                         std::vector<std::int64_t>& samples) {
    MiniBatch batch;
    for (int logical = hosts.begin; logical < hosts.end; ++logical) {
      terms->fill(shares, step, logical, batch);
      samples.insert(samples.end(), batch.samples.begin(), batch.samples.end());
    }
  });
}

}  // namespace rubato::elastic
