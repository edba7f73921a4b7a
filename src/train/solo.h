// A job in this process alone: one worker that hosts all logical workers. It has no registry, views
// or checkpoints, but the same arithmetic as a worker of the elastic runtime, hence the same bits.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "elastic/data/data_order.h"
#include "elastic/data/reduction_tree.h"
#include "elastic/worker/program.h"
#include "train/aligned_memory.h"

namespace rubato::train {

class Solo {
 public:
  // Binds the program's state to memory of this object, which must outlive every use of the
  // program.
  Solo(elastic::Program& program, int logical_workers);

  std::int64_t steps_per_epoch() const { return order_.steps_per_epoch(); }
  void step(std::int64_t step);
  double loss();  // mean over the samples of the last step; waits for the device

 private:
  elastic::Program& program_;
  elastic::DataOrder order_;
  elastic::HostProgram host_;
  std::vector<AlignedMemory> units_;
  std::vector<AlignedMemory> private_;  // of each logical worker, then one spare
  std::vector<std::size_t> slot_;       // index of each logical worker's private state
  std::vector<double> losses_;          // of the logical workers, weighted by `weights_`
  std::vector<double> weights_;
  elastic::MiniBatch batch_;
};

}  // namespace rubato::train
