// A program that is described by a struct rubato_job and does its work as tasks (rubato/rubato.h).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "elastic/worker/program.h"
#include "elastic/worker/worker.h"
#include "rubato/rubato.h"

namespace rubato::capi {

class TaskProgram final : public elastic::Program {
 public:
  // Does a task. Throws std::runtime_error if it cannot be done.
  using Perform = std::function<void(const rubato_task& task)>;

  // Copies everything from `given`, whose first `given.size` bytes are valid.
  static Result<std::unique_ptr<TaskProgram>> make(const rubato_job& given, Perform perform);

  elastic::WorkerOptions worker_options() const;  // without at_end

  const elastic::ProgramShape& shape() const override { return shape_; }
  elastic::DataOrder::Options data() const override { return data_; }
  void bind_state(std::span<const std::span<std::byte>> units) override;
  void unit_replaced(std::size_t unit) override;
  bool state_in_host_memory() const override { return state_in_host_memory_; }
  void store_unit(std::size_t unit) override;
  void initial_private(std::span<std::byte> out) override;
  void bind_buffer(int index, float* memory) override;
  void compute(const elastic::MiniBatch& batch, std::span<const std::byte> before,
               std::span<std::byte> after, double& loss, int buffer, bool accumulate) override;
  void settle() override;
  void merge(int into, int from) override;
  void publish(int buffer) override;
  void apply(const elastic::StepInfo& info, const float* gradient,
             std::span<const std::uint8_t> update) override;
  void apply_buffer(const elastic::StepInfo& info, int buffer, float scale) override;
  void entered(const Place& place) override;
  bool saves_model() const override { return saves_model_; }
  void save_model(const std::string& path, std::span<const std::byte> private_state) override;
  bool warms_up_by_update() const override { return warms_up_by_update_; }
  std::vector<elastic::TensorPlace> tensors() const override { return tensors_; }
  bool stops_at_nan() const override { return stops_at_nan_; }
  std::vector<Trait> fingerprint() const override { return traits_; }

  void begin_audit(int pass) override { audit_ = pass + 1; }
  Witness end_audit() override;
  std::vector<GradientPart> gradient_parts() const override { return gradient_parts_; }
  void witness(const char* name, std::uint32_t hash, const char* text);

  // Does nothing on a worker that does not lead.
  Status report(std::string_view name, double value) const;

  // The last task.
  rubato_task end_task(rubato_end end, const void* final_private) const;
  // Known in advance only once a view was entered.
  Result<elastic::MiniBatch> share(std::int64_t step, int logical) const;

 private:
  explicit TaskProgram(Perform perform) : perform_(std::move(perform)) {}
  rubato_task new_task(rubato_task_kind kind) const;
  rubato_task new_update(rubato_task_kind kind, const elastic::StepInfo& info) const;
  float* host_buffer(int index);

  Perform perform_;
  elastic::ProgramShape shape_;
  elastic::DataOrder::Options data_;
  std::vector<std::byte> initial_private_;
  std::vector<Trait> traits_;
  std::vector<elastic::TensorPlace> tensors_;
  std::vector<GradientPart> gradient_parts_;
  int audit_ = 0;  // the pass of an audit that the next compute() is; 0: none
  Witness witness_;
  std::string name_;
  std::int64_t epochs_ = 1;
  std::int64_t steps_ = -1;
  int logical_workers_ = 1;
  bool state_in_host_memory_ = true;
  bool gradients_in_host_memory_ = true;
  bool wants_replaced_ = false;
  bool warms_up_by_update_ = false;
  bool quiet_ = false;
  bool saves_model_ = false;
  bool stops_at_nan_ = true;
  Place place_{.workers = 0};
  std::vector<void*> unit_memory_;
  std::map<int, float*> bound_;  // given by the runtime
  // Partial sums that no other worker reads; the library's own memory.
  struct Free {
    void operator()(float* memory) const;
  };
  std::map<int, std::unique_ptr<float, Free>> own_;
};

}  // namespace rubato::capi
