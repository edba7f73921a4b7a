#include "elastic/data/partitions.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace rubato::elastic {

namespace {

constexpr std::size_t kHeaderWords = 4;  // epoch, opened, number of held and of returned ranges

}  // namespace

std::size_t most_words(int most_logical_workers) {
  // A range is opened only if none is without an owner, so there are never more non-empty ranges
  // than logical workers in the largest view.
  return kHeaderWords + 4 * static_cast<std::size_t>(most_logical_workers);
}

std::vector<std::int64_t> to_words(const DataState& state) {
  std::vector<std::int64_t> words{state.epoch, state.opened,
                                  static_cast<std::int64_t>(state.held.size()),
                                  static_cast<std::int64_t>(state.returned.size())};
  for (const auto* ranges : {&state.held, &state.returned}) {
    for (const PositionRange& range : *ranges) {
      words.push_back(range.begin);
      words.push_back(range.end);
    }
  }
  return words;
}

Result<DataState> parse_data_state(std::span<const std::int64_t> words, std::int64_t samples) {
  const auto most = static_cast<std::int64_t>(words.size());
  if (words.size() < kHeaderWords) return invalid_input("data state: too short");
  DataState state{.epoch = words[0], .opened = words[1], .held = {}, .returned = {}};
  const std::int64_t held = words[2];
  const std::int64_t returned = words[3];
  if (state.epoch < 0 || state.opened < 0 || state.opened > samples) {
    return invalid_input("data state: outside the data set");
  }
  if (held < 1 || held > most || returned < 0 || returned > most ||
      kHeaderWords + 2 * static_cast<std::size_t>(held + returned) != words.size()) {
    return invalid_input("data state: the number of partitions does not match");
  }
  std::vector<PositionRange> open;
  for (std::size_t at = kHeaderWords; at < words.size(); at += 2) {
    const PositionRange range{words[at], words[at + 1]};
    if (range.begin < 0 || range.begin > range.end || range.end > state.opened) {
      return invalid_input("data state: a partition is outside the positions handed out");
    }
    if (range.size() > 0) open.push_back(range);
    auto& ranges =
        static_cast<std::int64_t>(state.held.size()) < held ? state.held : state.returned;
    ranges.push_back(range);
  }
  std::sort(open.begin(), open.end(),
            [](const PositionRange& a, const PositionRange& b) { return a.begin < b.begin; });
  for (std::size_t i = 1; i < open.size(); ++i) {
    if (open[i].begin < open[i - 1].end) return invalid_input("data state: partitions overlap");
  }
  return state;
}

std::int64_t StepShares::count(int logical) const {
  std::int64_t sum = 0;
  for (const PositionRange& range : of_logical[static_cast<std::size_t>(logical)]) {
    sum += range.size();
  }
  return sum;
}

std::int64_t StepShares::first(int logical) const {
  std::int64_t sum = 0;
  for (int before = 0; before < logical; ++before) sum += count(before);
  return sum;
}

Partitions::Partitions(const Options& options) : options_(options) {
  RUBATO_CHECK(options.samples >= 1 && options.partition >= 1 && options.total_samples >= 0,
               "samples and partitions must be positive");
}

std::int64_t Partitions::left_in_epoch(const DataState& state) const {
  std::int64_t left = options_.samples - state.opened;
  for (const PositionRange& range : state.held) left += range.size();
  for (const PositionRange& range : state.returned) left += range.size();
  return left;
}

std::int64_t Partitions::used(const DataState& state) const {
  return state.epoch * options_.samples + options_.samples - left_in_epoch(state);
}

void Partitions::refill(DataState& state, std::size_t logical) const {
  PositionRange& own = state.held[logical];
  if (!state.returned.empty()) {
    own = state.returned.front();
    state.returned.erase(state.returned.begin());
    return;
  }
  if (state.opened < options_.samples) {
    const std::int64_t end =
        state.opened + std::min(options_.partition, options_.samples - state.opened);
    own = {std::exchange(state.opened, end), end};
    return;
  }
  PositionRange& longest = *std::max_element(
      state.held.begin(), state.held.end(),
      [](const PositionRange& a, const PositionRange& b) { return a.size() < b.size(); });
  const std::int64_t middle = longest.begin + longest.size() / 2;
  own = {middle, std::exchange(longest.end, middle)};
}

DataState Partitions::take(const DataState& before, int logical_workers, std::int64_t batch,
                           StepShares& shares) const {
  RUBATO_CHECK(logical_workers >= 1 && batch >= 1 && !done(before),
               "the job is done, or there are no logical workers");
  DataState state = before;
  const auto count = static_cast<std::size_t>(logical_workers);
  for (std::size_t i = count; i < state.held.size(); ++i) {
    if (state.held[i].size() > 0) state.returned.push_back(state.held[i]);
  }
  state.held.resize(count);
  shares.epoch = state.epoch;
  shares.samples = std::min({batch, left_in_epoch(state), options_.total_samples - used(state)});
  shares.of_logical.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<PositionRange>& share = shares.of_logical[i];
    share.clear();
    std::int64_t missing = shares.samples / logical_workers;
    if (static_cast<std::int64_t>(i) < shares.samples % logical_workers) ++missing;
    while (missing > 0) {
      PositionRange& own = state.held[i];
      if (own.size() == 0) refill(state, i);
      const std::int64_t taken = std::min(missing, own.size());
      share.push_back({own.begin, own.begin + taken});
      own.begin += taken;
      missing -= taken;
    }
  }
  if (left_in_epoch(state) == 0) {
    ++state.epoch;
    state.opened = 0;
    std::fill(state.held.begin(), state.held.end(), PositionRange{});
  }
  return state;
}

}  // namespace rubato::elastic
