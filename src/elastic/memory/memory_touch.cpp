#include "elastic/memory/memory_touch.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace rubato::elastic {

namespace {

constexpr std::size_t kTouchedPage = 4096;
// During a call the kernel holds a lock of the address space, which the training thread's
// allocations need as well.
constexpr std::size_t kAtOnce = std::size_t{2} << 20;

}  // namespace

MemoryTouch::MemoryTouch(std::shared_ptr<const ActiveView> view, const Board& board)
    : view_(std::move(view)), thread_([this, &board] { run(board); }) {}

MemoryTouch::~MemoryTouch() {
  stop_ = true;
  thread_.join();
}

void MemoryTouch::run(const Board& board) {
  const ActiveView& view = *view_;
  const std::size_t bytes = board.shape().gradient_floats * sizeof(float);
  const WorkerSegment& own = *view.segments[static_cast<std::size_t>(view.position)];
  bool enough = true;
  for (const HostRoot& root : view.host.roots) {
    enough = enough && touch(own.buffer(root.buffer), bytes, MADV_POPULATE_WRITE);
  }
  // A worker that is alone uses the board as soon as a newcomer follows it.
  for (const std::int64_t parity : {0, 1}) {
    enough = enough && touch(board.gradient(parity), bytes, MADV_POPULATE_WRITE);
  }
  if (!view.alone()) {
    const Slice slice = view.slice;
    for (const float* input : view.inputs) {
      enough = enough && touch(input + slice.begin, (slice.end - slice.begin) * sizeof(float),
                               MADV_POPULATE_READ);
    }
  }
  failed_ = !enough;
  done_.store(true, std::memory_order_release);
}

// False: not enough memory.
bool MemoryTouch::touch(const void* begin, std::size_t bytes, int advice) {
  const std::size_t before =
      reinterpret_cast<std::uintptr_t>(begin) % kTouchedPage;  // in the first page
  auto* const pages = const_cast<std::byte*>(static_cast<const std::byte*>(begin)) - before;
  const std::size_t end = (before + bytes + kTouchedPage - 1) / kTouchedPage * kTouchedPage;
  std::size_t at = 0;
  while (at < end && !stop_) {
    const std::size_t part = std::min<std::size_t>(kAtOnce, end - at);
    if (madvise(pages + at, part, advice) != 0) {
      if (errno == EAGAIN || errno == EINTR) continue;
      return errno == EINVAL;  // kernels before 5.14: the first step faults the pages in
    }
    at += part;
  }
  return true;
}

}  // namespace rubato::elastic
