// A job of several workers inside one process: each has a program of its own and hosts a range of
// the logical workers. The gradient goes through the tree as it does between processes.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "elastic/data/data_order.h"
#include "elastic/data/reduction_tree.h"
#include "elastic/worker/program.h"
#include "train/aligned_memory.h"
#include "train/torch_program.h"

namespace rubato::train {

// Memory for the state of a program, and the program bound to it.
class EmulatedWorker {
 public:
  explicit EmulatedWorker(std::unique_ptr<TorchProgram> program) : program_(std::move(program)) {
    std::vector<std::span<std::byte>> spans;
    for (const std::size_t bytes : program_->shape().unit_bytes) {
      spans.push_back(units_.emplace_back(bytes).bytes());
    }
    program_->bind_state(spans);
  }
  TorchProgram& program() { return *program_; }
  std::size_t unit_count() const { return units_.size(); }
  std::span<std::byte> unit(std::size_t k) const { return units_[k].bytes(); }
  void copy_unit_from(const EmulatedWorker& other, std::size_t k) {
    other.program_->store_unit(k);
    std::copy(other.unit(k).begin(), other.unit(k).end(), unit(k).begin());
    program_->unit_replaced(k);
  }
  // All units, headers included.
  std::string state() const {
    std::string bytes;
    for (std::size_t k = 0; k < units_.size(); ++k) {
      program_->store_unit(k);
      bytes.append(reinterpret_cast<const char*>(unit(k).data()), unit(k).size());
    }
    return bytes;
  }
  float* buffer(int index) {
    while (buffers_.size() <= static_cast<std::size_t>(index)) {
      buffers_.emplace_back(program_->shape().gradient_floats * sizeof(float));
      program_->bind_buffer(static_cast<int>(buffers_.size()) - 1, buffers_.back().floats());
    }
    return buffers_[static_cast<std::size_t>(index)].floats();
  }

 private:
  std::unique_ptr<TorchProgram> program_;
  std::vector<AlignedMemory> units_;
  std::vector<AlignedMemory> buffers_;
};

class EmulatedJob {
 public:
  using Maker = std::function<std::unique_ptr<TorchProgram>()>;

  // Places sizes[w] logical workers on worker w.
  EmulatedJob(const Maker& maker, const std::vector<int>& sizes) {
    for (const int size : sizes) {
      ranges_.push_back({logical_, logical_ + size});
      logical_ += size;
      workers_.push_back(std::make_unique<EmulatedWorker>(maker()));
    }
    // Members start with equal state, as newcomers do.
    for (std::size_t w = 1; w < workers_.size(); ++w) {
      for (std::size_t k = 0; k < workers_[w]->unit_count(); ++k) {
        workers_[w]->copy_unit_from(*workers_[0], k);
      }
    }
    const elastic::ProgramShape& shape = workers_[0]->program().shape();
    for (int i = 0; i < logical_; ++i) {
      workers_[0]->program().initial_private(private_.emplace_back(shape.private_bytes).bytes());
    }
    gradient_ = std::make_unique<AlignedMemory>(shape.gradient_floats * sizeof(float));
    elastic::DataOrder::Options options = workers_[0]->program().data();
    options.logical_workers = logical_;
    order_ = std::make_unique<elastic::DataOrder>(options);
  }

  EmulatedWorker& worker(std::size_t w) { return *workers_[w]; }
  const elastic::DataOrder& order() const { return *order_; }
  const float* gradient() const { return gradient_->floats(); }  // of the last step
  std::string private_state(int logical) const {
    const auto bytes = private_[static_cast<std::size_t>(logical)].bytes();
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  elastic::StepInfo info(std::int64_t step) const {
    return {.step = step,
            .epoch = order_->epoch_of(step),
            .steps_per_epoch = order_->steps_per_epoch()};
  }

  double step(std::int64_t step) {
    double loss = 0;
    elastic::MiniBatch batch;
    std::vector<elastic::LogicalRange> roots;
    std::vector<const float*> inputs;
    for (std::size_t w = 0; w < workers_.size(); ++w) {
      const elastic::HostProgram host = elastic::host_program(logical_, ranges_[w]);
      for (const elastic::HostStep& part : host.steps) {
        for (int b = 0; b < host.buffers; ++b) workers_[w]->buffer(b);
        order_->share(step, part.logical, batch);
        const AlignedMemory& mine = private_[static_cast<std::size_t>(part.logical)];
        const AlignedMemory after(mine.bytes().size());
        double mean = 0;
        workers_[w]->program().compute(batch, mine.bytes(), after.bytes(), mean, part.buffer,
                                       part.accumulate);
        workers_[w]->program().settle();
        loss += batch.weight * mean;
        std::copy(after.bytes().begin(), after.bytes().end(), mine.bytes().begin());
        for (const auto& merge : part.merges) {
          workers_[w]->program().merge(merge.into, merge.from);
        }
      }
      for (const elastic::HostRoot& root : host.roots) {
        workers_[w]->program().publish(root.buffer);
        roots.push_back(root.range);
        inputs.push_back(workers_[w]->buffer(root.buffer));
      }
    }
    const auto sum = elastic::SumProgram::make(logical_, roots);
    sum.value().run(inputs, 1.0F / static_cast<float>(logical_), gradient_->floats(), 0,
                    workers_[0]->program().shape().gradient_floats);
    for (auto& worker : workers_) {
      worker->program().apply(info(step), gradient_->floats(), {});
    }
    return loss / logical_;
  }

 private:
  int logical_ = 0;
  std::vector<elastic::LogicalRange> ranges_;
  std::vector<std::unique_ptr<EmulatedWorker>> workers_;
  std::vector<AlignedMemory> private_;
  std::unique_ptr<AlignedMemory> gradient_;
  std::unique_ptr<elastic::DataOrder> order_;
};

}  // namespace rubato::train
