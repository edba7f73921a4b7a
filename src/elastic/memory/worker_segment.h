// The shared memory of one worker: its copy of the shared state, which newcomers read while it
// trains, and its gradient buffers, which the owners of slices read.
//
// Readers of the state use a sequence lock: `sequence` is odd during an update.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "elastic/memory/donor.h"
#include "elastic/memory/shared_memory.h"
#include "elastic/worker/program.h"

namespace rubato::elastic {

class WorkerSegment final : public Donor {
 public:
  // The most gradient buffers a host may need for N logical workers. Memory is allocated when a
  // buffer is first used.
  static int most_buffers(int logical_workers);

  static Result<WorkerSegment> create(const std::string& name, const ProgramShape& shape,
                                      int logical_workers);
  static Result<WorkerSegment> open(const std::string& name, const ProgramShape& shape,
                                    int logical_workers);
  // Memory on this node for the gradient buffers of a worker on another node. The first worker that
  // needs it creates it. It has the same shape; parts that nobody writes take no memory.
  static Result<WorkerSegment> mirror(const std::string& name, const ProgramShape& shape,
                                      int logical_workers);

  const std::string& name() const { return segment_.name(); }
  std::vector<std::span<std::byte>> units() const;
  std::span<std::byte> unit(std::size_t index) const;
  std::span<const std::byte> state() const;  // all units with the padding (zeros) between them
  float* buffer(int index) const;
  Status reserve_buffer(int index) const;
  // The same, but waits for memory that others are about to free.
  Status reserve_buffer(int index, std::chrono::milliseconds patience) const;

  // The number of steps applied to the state.
  std::int64_t version() const { return header().version.load(std::memory_order_acquire); }
  // Writer: runs an update that brings the state to `version`.
  void update(std::int64_t version, const std::function<void()>& work) const;
  // Reader: copies a unit and returns its version, or nothing if an update ran meanwhile.
  std::optional<std::int64_t> copy_unit(std::size_t index, std::span<std::byte> out) const override;

 private:
  struct Header {
    std::atomic<std::uint64_t> sequence;
    std::atomic<std::int64_t> version;
  };
  WorkerSegment(Segment segment, const ProgramShape& shape, int logical_workers);
  Header& header() const { return *reinterpret_cast<Header*>(segment_.data()); }

  Segment segment_;
  std::vector<std::size_t> unit_offsets_;
  std::vector<std::size_t> unit_bytes_;
  std::size_t state_end_ = 0;
  std::size_t buffer_offset_ = 0;
  std::size_t buffer_stride_ = 0;
};

}  // namespace rubato::elastic
