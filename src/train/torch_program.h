// A LibTorch training program in the form the elastic runtime needs.
//
// Units. One per parameter, in the order of model->named_parameters() (a tensor registered twice
// counts once):
//   offset 0    u64 has_state    1 once the optimizer has state for the parameter
//   offset 8    i64 step         the optimizer's count of updates of this parameter
//   offset 64   the parameter, then the tensors of OptimizerState, each float32, contiguous,
//               starting at a multiple of 64
// On the CPU, the model's parameters and the optimizer's tensors are views of that memory. On CUDA
// they live on the device; store_unit() writes the memory and unit_replaced() reads it.
//
// Gradient. The parameters that require one when the program is created, in the same order, without
// gaps. A parameter that does not require a gradient is never updated, as in PyTorch. A parameter
// that requires one but takes no part in a loss has a zero gradient (weight decay and momentum
// still act on it). If its gradient were absent instead, an update would depend on which logical
// workers used it.
//
// Private state. The model's buffers in the order of model->named_buffers(), each at a multiple of
// 64 bytes.
//
// On a device, compute() only queues work. Private state and loss are copied to pinned memory after
// it, and from there to their destinations in settle(). The host runs ahead at most as far as the
// runtime has slots for a logical worker (two).
//
// compute() passes on exceptions of the user's loss function and of LibTorch; Job::train turns them
// into a message.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "elastic/worker/program.h"
#include "rubato/train.h"
#include "train/optimizer_state.h"
#include "train/torch_compat.h"

namespace rubato::train {

class TorchProgram final : public elastic::Program {
 public:
  struct Options {
    std::uint64_t seed = 1;
    std::int64_t batch = 32;  // samples per logical worker and step
    std::int64_t epochs = 1;
    std::int64_t steps = -1;  // -1: as many as the epochs have; the schedule sees the total
    std::chrono::milliseconds pace{0};  // compute() takes at least this long
    torch::Device device{torch::kCPU};
    // Keep the state outside the units' memory on the CPU, too, so that tests without a GPU
    // exercise the CUDA code path.
    bool separate_memory = false;
  };
  // Moves the model to the device. From now on, model and optimizer belong to the program.
  static Result<std::unique_ptr<TorchProgram>> make(const Training& training,
                                                    const Options& options);

  const elastic::ProgramShape& shape() const override { return shape_; }
  elastic::DataOrder::Options data() const override;
  void bind_state(std::span<const std::span<std::byte>> units) override;
  void unit_replaced(std::size_t unit) override;
  bool state_in_host_memory() const override { return in_place(); }
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
  bool wants_prefetch() const override { return static_cast<bool>(training_.prefetch); }
  void prefetch(std::span<const std::int64_t> samples) override { training_.prefetch(samples); }
  std::vector<Trait> fingerprint() const override;
  void entered(const Place& place) override { place_ = place; }
  std::vector<elastic::TensorPlace> tensors() const override;
  bool stops_at_nan() const override { return training_.stop_at_nan; }
  std::vector<GradientPart> gradient_parts() const override;

  bool leads() const { return place_.leads; }
  // Does nothing on a worker that does not lead.
  Status report(const std::string& name, double value) const;

  // Copies a private state into the model's buffers, for evaluation or saving after training.
  void load_private(std::span<const std::byte> state);
  // Parameters as float32 bytes in unit order, without gaps.
  std::string parameter_bytes() const;

 private:
  struct Buffer {
    std::string name;
    torch::Tensor tensor;
    std::size_t offset = 0;  // in the private state
  };
  struct Parameter {
    std::string name;
    torch::Tensor tensor;
    bool trained = false;  // has a part of the gradient
    std::size_t state_tensors = 0;
    std::span<std::byte> memory;       // its unit
    std::vector<torch::Tensor> state;  // where the optimizer's tensors belong
    bool adopted = false;              // the optimizer's tensors are there
  };
  // A gradient: one part per trained parameter. The parts are the tensors autograd produced (no
  // fill, no addition). They are gathered into a flat tensor only for the transfer to other
  // workers. On the CPU the flat tensor is the host memory itself.
  struct Gradient {
    float* memory = nullptr;  // host memory, if provided
    torch::Tensor flat;
    std::vector<torch::Tensor> flat_parts;
    std::vector<torch::Tensor> parts;
  };
  // The results of a compute() on a device, on their way to the host.
  struct Departure {
    std::span<std::byte> after;
    double* loss = nullptr;
    torch::Tensor indices;         // pinned: the device may read it late
    torch::Tensor device_indices;  // its copy on the device
    torch::Tensor bytes;           // pinned: private state, then the loss in its own type
    torch::ScalarType loss_type = torch::kFloat32;
    compat::DeviceMark arrived;  // after the copies to `bytes`
    bool pending = false;        // `after` and `loss` are not written yet
  };

  TorchProgram(const Training& training, const Options& options, OptimizerState state);
  Status add_parameters();
  void add_buffers();
  bool in_place() const { return options_.device.is_cpu() && !options_.separate_memory; }
  Gradient& buffer_at(int index);
  void make_flat(Gradient& gradient) const;
  void take_gradients(Gradient& gradient);
  void compute_now(const elastic::MiniBatch& batch, std::span<const std::byte> before,
                   std::span<std::byte> after, double& loss, int buffer, bool accumulate);
  torch::Tensor loss_of(const elastic::MiniBatch& batch, const torch::Tensor& indices);
  Departure& departure_at(std::span<std::byte> after);
  torch::Tensor send_indices(Departure& departure, const torch::Tensor& indices) const;
  void depart(Departure& departure, const torch::Tensor& loss);
  bool holds(const Departure& departure, std::span<const std::byte> state) const;
  Gradient& gradient_at(const float* memory);
  void install(const Gradient& gradient, std::span<const std::uint8_t> update);
  void step_optimizer(const elastic::StepInfo& info, const Gradient& gradient,
                      std::span<const std::uint8_t> update);
  const Gradient& own_copy(const Gradient& gradient);
  Progress progress_of(const elastic::StepInfo& info) const;
  void end_epoch(const elastic::StepInfo& info);
  void set_learning_rate(const elastic::StepInfo& info);
  void adopt_state(Parameter& parameter);
  void seed_generators(std::uint64_t seed);

  Training training_;
  Options options_;
  OptimizerState optimizer_state_;
  elastic::ProgramShape shape_;
  std::vector<Parameter> parameters_;
  std::vector<Buffer> named_buffers_;  // also those of one tensor under several names
  torch::Tensor private_;              // bytes; the model's buffers are views of it
  std::unordered_map<const std::byte*, Departure> departures_;  // by `after`
  std::vector<Departure*> pending_;                             // oldest first
  const Departure* resident_ = nullptr;                         // its state is in private_
  std::vector<std::byte> initial_private_;
  std::vector<Gradient> buffers_;
  std::vector<Gradient> applied_;  // views of the gradients passed to apply(); CUDA: one copy
  std::size_t next_applied_ = 0;
  Gradient changeable_;  // of this step, for Training::before_update
  Place place_{.leads = true};
  std::vector<double> own_rates_;  // the optimizer's own rates, by parameter group
  double rate_factor_ = 1.0;       // their current factor
  torch::Generator default_generator_;
  std::optional<torch::Generator> device_generator_;
  torch::Generator augmentation_;
};

}  // namespace rubato::train
