#include "elastic/memory/data_board.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "base/check.h"
#include "elastic/job/job_folder.h"
#include "elastic/memory/board_layout.h"

namespace rubato::elastic {

using Word = DataWord;

namespace {

std::size_t words_before_samples(const DataBoardShape& shape) {
  return 2 * (1 + most_words(shape.most_logical_workers));  // each with its length
}

}  // namespace

DataBoard::DataBoard(Segment segment) : segment_(std::move(segment)) {
  const DataBoardShape& shape = header().shape;
  state_stride_ = 1 + most_words(shape.most_logical_workers);
  sample_offset_ = sizeof(Header) + words_before_samples(shape) * sizeof(Word);
}

DataBoard::Header& DataBoard::header() const { return *reinterpret_cast<Header*>(segment_.data()); }

std::size_t DataBoard::bytes_of(const DataBoardShape& shape) {
  return sizeof(Header) + words_before_samples(shape) * sizeof(Word) +
         2 * static_cast<std::size_t>(shape.most_samples) * sizeof(std::int64_t);
}

Result<DataBoard> DataBoard::create(const std::string& name, const DataBoardShape& shape) {
  const std::size_t bytes = bytes_of(shape);
  Result<Segment> segment = Segment::create(name, bytes);
  if (!segment.ok()) return segment.error();
  Status reserved = segment->reserve(0, bytes);
  if (!reserved.ok()) {
    remove_segment(name);
    return reserved.error();
  }
  auto& header = *reinterpret_cast<Header*>(segment->data());
  header.shape = shape;
  for (FactsEntry& entry : header.facts) entry.step = -1;
  header.magic.store(kDataBoardMagic, std::memory_order_release);
  return DataBoard(std::move(*segment));
}

Result<DataBoard> DataBoard::open(const std::string& name) {
  Result<Segment> segment = Segment::open(name, Segment::Access::kReadWrite);
  if (!segment.ok()) return segment.error();
  if (segment->size() < sizeof(Header) ||
      reinterpret_cast<Header*>(segment->data())->magic.load(std::memory_order_acquire) !=
          kDataBoardMagic) {
    return invalid_input(
        fmt::format("shared memory '{}' is not a data board of this version", name));
  }
  const DataBoardShape shape = reinterpret_cast<Header*>(segment->data())->shape;
  const std::size_t size = segment->size();
  const bool possible =
      shape.most_logical_workers >= 0 && shape.most_logical_workers <= kMostLogicalWorkers &&
      shape.most_samples >= 0 && static_cast<std::size_t>(shape.most_samples) <= size;
  if (!possible || bytes_of(shape) != size) {
    return invalid_input(
        fmt::format("shared memory '{}' has {} bytes, which do not match its header", name, size));
  }
  return DataBoard(std::move(*segment));
}

Word* DataBoard::words(std::int64_t step) const {
  auto* first = reinterpret_cast<Word*>(segment_.data() + sizeof(Header));
  return first + static_cast<std::size_t>(step & 1) * state_stride_;
}

DataState DataBoard::state(std::int64_t step) const {
  const Word* from = words(step);
  std::vector<std::int64_t> copy(static_cast<std::size_t>(from[0].load(std::memory_order_acquire)));
  RUBATO_CHECK(copy.size() < state_stride_, "the data state of this step was never written");
  for (std::size_t i = 0; i < copy.size(); ++i) {
    copy[i] = from[i + 1].load(std::memory_order_relaxed);
  }
  Result<DataState> state = parse_data_state(copy, header().shape.data_set);
  RUBATO_CHECK(state.ok(), state.ok() ? "" : state.error().message.c_str());
  return std::move(*state);
}

void DataBoard::put_state(std::int64_t step, const DataState& state) const {
  const std::vector<std::int64_t> from = to_words(state);
  RUBATO_CHECK(from.size() < state_stride_, "the data state has too many logical workers");
  Word* to = words(step);
  for (std::size_t i = 0; i < from.size(); ++i) to[i + 1].store(from[i], std::memory_order_relaxed);
  to[0].store(static_cast<std::int64_t>(from.size()), std::memory_order_release);
}

std::optional<StepFacts> DataBoard::facts(std::int64_t step) const {
  const FactsEntry& entry = header().facts[static_cast<std::size_t>(step & 1)];
  if (step < 0 || entry.step.load(std::memory_order_acquire) != step) return std::nullopt;
  const StepFacts facts{
      .step = step,
      .epoch = entry.epoch.load(std::memory_order_relaxed),
      .used = entry.used.load(std::memory_order_relaxed),
      .batch = entry.batch.load(std::memory_order_relaxed),
      .logical_workers = static_cast<int>(entry.logical_workers.load(std::memory_order_relaxed))};
  read_barrier();
  if (entry.step.load(std::memory_order_relaxed) != step) return std::nullopt;
  return facts;
}

void DataBoard::put_facts(const StepFacts& facts) const {
  FactsEntry& entry = header().facts[static_cast<std::size_t>(facts.step & 1)];
  // Several members write the same facts one after another; those already there must not look torn.
  if (entry.step.load(std::memory_order_relaxed) != facts.step) {
    entry.step.store(-1, std::memory_order_relaxed);
  }
  // Each store releases the -1: a reader that sees one of them does not find the old step after its
  // barrier.
  entry.epoch.store(facts.epoch, std::memory_order_release);
  entry.used.store(facts.used, std::memory_order_release);
  entry.batch.store(facts.batch, std::memory_order_release);
  entry.logical_workers.store(facts.logical_workers, std::memory_order_release);
  entry.step.store(facts.step, std::memory_order_release);
}

std::int64_t DataBoard::most_samples() const { return header().shape.most_samples; }

// --- For other nodes -----------------------------------------------------------------------------

namespace {

constexpr std::size_t kFactWords = 5;  // whether they are there, then the facts

std::vector<std::int64_t> fact_words(const std::optional<StepFacts>& facts) {
  if (!facts) return std::vector<std::int64_t>(kFactWords);
  return {1, facts->epoch, facts->used, facts->batch, facts->logical_workers};
}

}  // namespace

std::size_t DataBoard::step_bytes() const {
  return (kFactWords + state_stride_ + static_cast<std::size_t>(most_samples())) *
         sizeof(std::int64_t);
}

std::vector<std::byte> DataBoard::copy_step(std::int64_t step) const {
  std::vector<std::int64_t> all = fact_words(facts(step));
  const Word* const after = words(step + 1);
  for (std::size_t i = 0; i < state_stride_; ++i) {
    all.push_back(after[i].load(std::memory_order_relaxed));
  }
  const std::span<std::int64_t> used = samples(step);
  all.insert(all.end(), used.begin(), used.end());
  const std::span<const std::byte> bytes = std::as_bytes(std::span(all));
  return {bytes.begin(), bytes.end()};
}

bool DataBoard::put_step(std::int64_t step, std::span<const std::byte> bytes, bool whole) const {
  if (bytes.size() != step_bytes()) return false;
  std::vector<std::int64_t> all(bytes.size() / sizeof(std::int64_t));
  std::memcpy(all.data(), bytes.data(), bytes.size());
  const DataBoardShape& shape = header().shape;
  const StepFacts facts{.step = step,
                        .epoch = all[1],
                        .used = all[2],
                        .batch = all[3],
                        .logical_workers = static_cast<int>(all[4])};
  const bool there = all[0] == 1;
  if (there && (all[4] < 1 || all[4] > shape.most_logical_workers || facts.epoch < 0 ||
                facts.used < 0 || facts.batch < 1 || facts.batch > shape.most_samples)) {
    return false;
  }
  if (whole) {
    const auto length = static_cast<std::size_t>(all[kFactWords]);
    if (all[kFactWords] < 0 || length >= state_stride_) return false;
    const std::span<const std::int64_t> words = std::span(all).subspan(kFactWords + 1, length);
    const Result<DataState> state = parse_data_state(words, shape.data_set);
    if (!state.ok() || state->logical_workers() > shape.most_logical_workers) return false;
    put_state(step + 1, *state);
    std::copy_n(all.end() - shape.most_samples, shape.most_samples, samples(step).begin());
  }
  if (there) put_facts(facts);
  return true;
}

std::span<std::int64_t> DataBoard::samples(std::int64_t step) const {
  const auto most = static_cast<std::size_t>(header().shape.most_samples);
  auto* first = reinterpret_cast<std::int64_t*>(segment_.data() + sample_offset_);
  return {first + static_cast<std::size_t>((step + 1) & 1) * most, most};
}

}  // namespace rubato::elastic
