// What the systems we compare with have in common: they reduce an array in place. There is no
// second copy of it, because the memory of all systems is in use at the same time.
#pragma once

#include <vector>

#include "reduce/harness.h"

namespace rubato::bench {

class Peer : public Collective {
 public:
  explicit Peer(const Member& member) : member_(member) {}
  void prepare(std::size_t floats) override;
  void refill() override;
  void run(int variant, int iterations) override;
  // Up to rounding: their order of additions is their own.
  bool right(int variant, int iterations) const override;

 protected:
  virtual void all_reduce(int variant) = 0;
  const Member& member() const { return member_; }
  std::vector<float>& data() { return data_; }

 private:
  const Member& member_;
  std::vector<float> data_;
  int repeated_ = 0;  // all-reduces since the last refill
};

}  // namespace rubato::bench
