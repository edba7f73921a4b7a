#include "elastic/memory/worker_segment.h"

#include <fmt/format.h>

#include <bit>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

namespace rubato::elastic {

namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kStateOffset = kPage;
constexpr int kMirrorTries = 50;

constexpr std::size_t round_up(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}

std::size_t state_bytes(const ProgramShape& shape) {
  std::size_t bytes = 0;
  for (const std::size_t unit : shape.unit_bytes) bytes += round_up(unit, 64);
  return bytes;
}

std::size_t buffer_stride_of(const ProgramShape& shape) {
  return round_up(shape.gradient_floats * sizeof(float), kPage);
}

std::size_t total_bytes(const ProgramShape& shape, int logical_workers) {
  return round_up(kStateOffset + state_bytes(shape), kPage) +
         buffer_stride_of(shape) *
             static_cast<std::size_t>(WorkerSegment::most_buffers(logical_workers));
}

}  // namespace

int WorkerSegment::most_buffers(int logical_workers) {
  const auto log = static_cast<int>(std::bit_width(static_cast<unsigned>(logical_workers)));
  return 3 * log + 1;  // up to 2 log2 N roots while a subtree of log2 N partial sums is in progress
}

WorkerSegment::WorkerSegment(Segment segment, const ProgramShape& shape, int)
    : segment_(std::move(segment)), unit_bytes_(shape.unit_bytes) {
  std::size_t offset = kStateOffset;
  for (const std::size_t unit : shape.unit_bytes) {
    unit_offsets_.push_back(offset);
    offset += round_up(unit, 64);
  }
  state_end_ = offset;
  buffer_offset_ = round_up(offset, kPage);
  buffer_stride_ = buffer_stride_of(shape);
}

Result<WorkerSegment> WorkerSegment::create(const std::string& name, const ProgramShape& shape,
                                            int logical_workers) {
  Result<Segment> segment = Segment::create(name, total_bytes(shape, logical_workers));
  if (!segment.ok()) return segment.error();
  WorkerSegment result(std::move(*segment), shape, logical_workers);
  Status reserved = result.segment_.reserve(0, result.buffer_offset_);
  if (!reserved.ok()) {
    remove_segment(name);
    return reserved.error();
  }
  return result;
}

Result<WorkerSegment> WorkerSegment::open(const std::string& name, const ProgramShape& shape,
                                          int logical_workers) {
  Result<Segment> segment = Segment::open(name, Segment::Access::kRead);
  if (!segment.ok()) return segment.error();
  if (segment->size() != total_bytes(shape, logical_workers)) {
    return invalid_input(
        fmt::format("shared memory '{}' has {} bytes, but this program needs {}: the "
                    "workers do not "
                    "run the same program",
                    name, segment->size(), total_bytes(shape, logical_workers)));
  }
  return WorkerSegment(std::move(*segment), shape, logical_workers);
}

Result<WorkerSegment> WorkerSegment::mirror(const std::string& name, const ProgramShape& shape,
                                            int logical_workers) {
  const std::size_t bytes = total_bytes(shape, logical_workers);
  Result<Segment> segment = Segment::create(name, bytes);
  for (int tries = 0; !segment.ok() && tries < kMirrorTries; ++tries) {
    segment = Segment::open(name, Segment::Access::kReadWrite);
    if (segment.ok() && segment->size() != bytes) {
      segment = invalid_input(fmt::format("shared memory '{}' has the wrong size", name));
    }
    // Another worker of this node is just creating it.
    if (!segment.ok()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (!segment.ok()) return segment.error();
  return WorkerSegment(std::move(*segment), shape, logical_workers);
}

std::span<std::byte> WorkerSegment::unit(std::size_t index) const {
  return {segment_.data() + unit_offsets_[index], unit_bytes_[index]};
}

std::vector<std::span<std::byte>> WorkerSegment::units() const {
  std::vector<std::span<std::byte>> result;
  for (std::size_t i = 0; i < unit_offsets_.size(); ++i) result.push_back(unit(i));
  return result;
}

std::span<const std::byte> WorkerSegment::state() const {
  return {segment_.data() + kStateOffset, state_end_ - kStateOffset};
}

float* WorkerSegment::buffer(int index) const {
  return reinterpret_cast<float*>(segment_.data() + buffer_offset_ +
                                  static_cast<std::size_t>(index) * buffer_stride_);
}

Status WorkerSegment::reserve_buffer(int index) const {
  return segment_.reserve(buffer_offset_ + static_cast<std::size_t>(index) * buffer_stride_,
                          buffer_stride_ == 0 ? kPage : buffer_stride_);
}

Status WorkerSegment::reserve_buffer(int index, std::chrono::milliseconds patience) const {
  const auto end = std::chrono::steady_clock::now() + patience;
  for (;;) {
    Status reserved = reserve_buffer(index);
    if (reserved.ok() || std::chrono::steady_clock::now() >= end) return reserved;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

void WorkerSegment::update(std::int64_t version, const std::function<void()>& work) const {
  Header& h = header();
  h.sequence.fetch_add(1, std::memory_order_acq_rel);
  write_barrier();  // nobody may see the new state with the old, even number
  work();
  h.version.store(version, std::memory_order_release);
  h.sequence.fetch_add(1, std::memory_order_acq_rel);
}

std::optional<std::int64_t> WorkerSegment::copy_unit(std::size_t index,
                                                     std::span<std::byte> out) const {
  const Header& h = header();
  const std::uint64_t before = h.sequence.load(std::memory_order_acquire);
  if (before % 2 != 0) return std::nullopt;
  const std::int64_t at = version();
  std::memcpy(out.data(), unit(index).data(), out.size());
  read_barrier();
  if (h.sequence.load(std::memory_order_relaxed) != before) return std::nullopt;
  return at;
}

}  // namespace rubato::elastic
