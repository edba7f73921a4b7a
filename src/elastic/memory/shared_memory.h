// Named shared memory of one machine, and waiting on words in it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/result.h"

namespace rubato::elastic {

// A mapped segment. Names contain no slashes. The memory lives until the name is removed and the
// last mapping is gone, even if its creator is killed.
class Segment {
 public:
  // Fails if the name exists. Only this user can read it. The content is zero.
  static Result<Segment> create(const std::string& name, std::size_t bytes);
  enum class Access { kRead, kReadWrite };
  // Refuses memory of another user, or that others can write.
  static Result<Segment> open(const std::string& name, Access access);

  Segment() = default;
  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&& other) noexcept;
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;
  ~Segment();

  const std::string& name() const { return name_; }
  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  // Takes the segment's lock without waiting; true if this process now holds it. One process holds
  // it at a time, until it ends or drops its last mapping object.
  bool try_lock() const;
  // Makes sure that memory for [offset, offset + bytes) exists, so that touching it cannot fail
  // later (with SIGBUS when memory is exhausted). Only for a segment that this process created.
  Status reserve(std::size_t offset, std::size_t bytes) const;

 private:
  std::string name_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  int file_ = -1;
};

void remove_segment(const std::string& name);
// Removes every segment of this user whose name starts with the prefix; returns their number.
int remove_segments(const std::string& prefix);

// Orders the reads before it before the reads after it: the second half of a sequence lock's
// reader.
inline void read_barrier() {
#ifdef __SANITIZE_THREAD__  // does not support fences; x86 keeps the order of loads anyway
  asm volatile("" ::: "memory");
#else
  std::atomic_thread_fence(std::memory_order_acquire);
#endif
}

// Orders the writes before it before the writes after it: a writer that has said that memory
// changes may then change it.
inline void write_barrier() {
#ifdef __SANITIZE_THREAD__  // likewise for stores
  asm volatile("" ::: "memory");
#else
  std::atomic_thread_fence(std::memory_order_release);
#endif
}

// Waits until the word differs from `seen`, a wake-up arrives or the time is over; may return
// early.
void wait_on_word(const std::atomic<std::uint32_t>& word, std::uint32_t seen,
                  std::chrono::microseconds at_most);
void wake_all_on_word(std::atomic<std::uint32_t>& word);

}  // namespace rubato::elastic
