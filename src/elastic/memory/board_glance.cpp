#include "elastic/memory/board_glance.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <utility>

#include "elastic/job/job_folder.h"
#include "elastic/memory/board_layout.h"

namespace rubato::elastic {

namespace {

constexpr std::int64_t kMostSteps = std::int64_t{1} << 53;
constexpr std::int64_t kMostSamples = std::int64_t{1} << 53;
constexpr std::int64_t kMostMicroseconds = std::int64_t{10'000'000'000'000};  // four months
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 46;

// Whether all of `value` could be read.
template <typename T>
bool glance_at(const Descriptor& memory, std::size_t offset, T& value) {
  const ssize_t got = pread(memory.get(), &value, sizeof value, static_cast<off_t>(offset));
  return got == static_cast<ssize_t>(sizeof value);
}

// A number that a worker may be writing: read until two reads agree.
template <typename T>
bool settled(const Descriptor& memory, std::size_t offset, T& value) {
  T again{};
  for (int tries = 0; tries < 4; ++tries) {
    if (!glance_at(memory, offset, value) || !glance_at(memory, offset, again)) return false;
    if (value == again) return true;
  }
  return false;
}

Result<Descriptor> open_memory(const std::string& name, std::uint64_t magic) {
  Descriptor memory(
      name.find('/') != std::string::npos
          ? -1
          : shm_open(("/" + name).c_str(), O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC, 0));
  if (!memory.valid()) {
    return Error{ErrorCode::kNotFound, fmt::format("shared memory '{}': cannot open", name)};
  }
  struct stat status {};
  std::uint64_t found = 0;
  if (fstat(memory.get(), &status) != 0 || !S_ISREG(status.st_mode) ||
      !glance_at(memory, 0, found) || found != magic) {
    return invalid_input(fmt::format("shared memory '{}' is not a board of this version", name));
  }
  return memory;
}

}  // namespace

Result<BoardGlance> BoardGlance::open(const std::string& name) {
  Result<Descriptor> memory = open_memory(name, kBoardMagic);
  if (!memory.ok()) return memory.error();
  return BoardGlance(std::move(*memory));
}

std::optional<BoardGlance::Progress> BoardGlance::progress() const {
  Progress progress;
  std::int32_t watchers = 0;
  if (!settled(memory_, offsetof(Board::Header, completed), progress.completed) ||
      !glance_at(memory_, offsetof(Board::Header, watchers), watchers) || progress.completed < -1 ||
      progress.completed > kMostSteps) {
    return std::nullopt;
  }
  progress.watchers = watchers;
  return progress;
}

std::optional<std::int64_t> BoardGlance::step_us(std::int64_t view, int member) const {
  if (view < 0 || member < 0 || member >= kMaxWorkers) return std::nullopt;
  const std::size_t block = offsetof(Board::Header, blocks) +
                            static_cast<std::size_t>(view) % kViewBlocks * sizeof(ViewBlock);
  const std::size_t row =
      block + offsetof(ViewBlock, rows) + static_cast<std::size_t>(member) * sizeof(MemberRow);
  std::int64_t shown = 0;
  std::int64_t microseconds = 0;
  if (!glance_at(memory_, block + offsetof(ViewBlock, view), shown) || shown != view ||
      !settled(memory_, row + offsetof(MemberRow, step_us), microseconds) || microseconds <= 0 ||
      microseconds > kMostMicroseconds) {
    return std::nullopt;
  }
  return microseconds;
}

std::optional<double> BoardGlance::mean_loss(int logical_workers, std::int64_t step) const {
  std::uint64_t floats = 0;
  std::uint64_t private_bytes = 0;
  std::int64_t batch = 0;
  if (logical_workers > kMostLogicalWorkers ||
      !glance_at(memory_, offsetof(Board::Header, gradient_floats), floats) ||
      !glance_at(memory_, offsetof(Board::Header, private_bytes), private_bytes) ||
      !glance_at(memory_, offsetof(Board::Header, batch), batch) || floats > kMostBytes ||
      private_bytes > kMostBytes || batch < 0 || static_cast<std::uint64_t>(batch) > kMostBytes) {
    return std::nullopt;
  }
  // As in board.cpp; the limits above keep these sums far from overflow.
  const std::size_t slots = board_round_up(sizeof(Board::Header), kBoardPage) +
                            2 * board_round_up(floats * sizeof(float), kBoardPage);
  const std::size_t stride = board_round_up(
      64 + board_round_up(private_bytes, 64) + static_cast<std::size_t>(batch) * 8, 64);
  if (stride > kMostBytes) return std::nullopt;
  double sum = 0;
  double samples = 0;
  for (int logical = 0; logical < logical_workers; ++logical) {
    SlotHeader slot;
    const std::size_t index =
        static_cast<std::size_t>(logical) * 2 + static_cast<std::size_t>((step + 1) & 1);
    if (!glance_at(memory_, slots + index * stride, slot)) return std::nullopt;
    if (slot.samples < 0 || slot.samples > kMostSamples) return std::nullopt;
    sum += slot.loss * static_cast<double>(slot.samples);
    samples += static_cast<double>(slot.samples);
  }
  if (samples == 0 || !std::isfinite(sum / samples)) return std::nullopt;
  return sum / samples;
}

Result<DataBoardGlance> DataBoardGlance::open(const std::string& name) {
  Result<Descriptor> memory = open_memory(name, kDataBoardMagic);
  if (!memory.ok()) return memory.error();
  return DataBoardGlance(std::move(*memory));
}

std::optional<StepFacts> DataBoardGlance::facts(std::int64_t step) const {
  struct Entry {
    std::int64_t step;
    std::int64_t epoch;
    std::int64_t used;
    std::int64_t batch;
    std::int64_t logical_workers;
    bool operator==(const Entry&) const = default;
  } entry{};
  static_assert(sizeof(Entry) == sizeof(FactsEntry));
  const std::size_t place =
      offsetof(DataBoard::Header, facts) + static_cast<std::size_t>(step & 1) * sizeof(FactsEntry);
  if (!settled(memory_, place, entry) || entry.step != step) return std::nullopt;
  const auto possible = [](std::int64_t value, std::int64_t most) {
    return value >= 0 && value <= most;
  };
  if (!possible(entry.epoch, kMostSteps) || !possible(entry.used, kMostSamples) ||
      !possible(entry.batch, kMostSamples) ||
      !possible(entry.logical_workers, kMostLogicalWorkers)) {
    return std::nullopt;
  }
  return StepFacts{.step = step,
                   .epoch = entry.epoch,
                   .used = entry.used,
                   .batch = entry.batch,
                   .logical_workers = static_cast<int>(entry.logical_workers)};
}

}  // namespace rubato::elastic
