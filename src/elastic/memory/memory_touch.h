// Prepares the memory that the first step of a view will use: allocates gradient buffers that this
// worker has not used before, and maps the parts of the other workers' buffers and of the board
// that it will read or write. For a large model, the page faults take hundreds of milliseconds. A
// thread handles them here, before the view is acknowledged; otherwise all members would pay for
// them inside a step.
#pragma once

#include <atomic>
#include <memory>
#include <thread>

#include "elastic/memory/active_view.h"
#include "elastic/memory/board.h"

namespace rubato::elastic {

class MemoryTouch {
 public:
  // Starts at once. The board must outlive this object. Memory contents do not change.
  MemoryTouch(std::shared_ptr<const ActiveView> view, const Board& board);
  MemoryTouch(const MemoryTouch&) = delete;
  MemoryTouch& operator=(const MemoryTouch&) = delete;
  ~MemoryTouch();  // stops early

  // Once done, `failed` says whether memory ran out.
  bool done() const { return done_.load(std::memory_order_acquire); }
  bool failed() const { return failed_; }
  const std::shared_ptr<const ActiveView>& view() const { return view_; }

 private:
  void run(const Board& board);
  bool touch(const void* begin, std::size_t bytes, int advice);

  std::shared_ptr<const ActiveView> view_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> done_{false};
  bool failed_ = false;
  std::thread thread_;
};

}  // namespace rubato::elastic
