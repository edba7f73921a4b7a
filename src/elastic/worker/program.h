// What the elastic runtime needs from a training program. The `train` layer implements it with
// LibTorch; tests implement it with a few lines of arithmetic. The runtime owns the loop, the
// membership and all memory that other workers may read; the program owns the mathematics.
//
// State of a program:
// - *Shared* state (parameters, optimizer) is equal on all workers between steps. It consists of
//   units, usually one per parameter with its optimizer state. A step updates a unit only from its
//   own content, that of unit 0, and the gradient. So a newcomer may receive units at different
//   steps and catch up unit by unit. It receives unit 0 first and never has it at a later step than
//   another unit: what every update depends on (a learning rate that changes) belongs there.
// - *Private* state (buffers such as BatchNorm statistics) belongs to one logical worker and is
//   swapped in and out around compute().
// Everything is a pure function of the spec: same state and same step give the same bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "elastic/data/data_order.h"
#include "elastic/data/logical_range.h"
#include "elastic/model/tensor_place.h"

namespace rubato::elastic {

struct ProgramShape {
  std::size_t gradient_floats = 0;
  std::vector<std::size_t> unit_bytes;  // shared state
  std::size_t private_bytes = 0;        // per logical worker
};

// The step that an update belongs to; the learning rate depends on it. In an adaptive job, `step`
// and `steps_per_epoch` count steps of the job's first batch (elastic/data/adaptive.h).
struct StepInfo {
  std::int64_t step = 0;
  std::int64_t epoch = 0;
  std::int64_t steps_per_epoch = 1;
  double rate_factor = 1.0;  // multiplies the learning rate
  bool ends_epoch = false;   // or the job; known to members only
  // The private state of logical worker 0 after the step, for programs that evaluate; null:
  // unknown.
  const std::byte* private_state = nullptr;
};

class Program {
 public:
  Program() = default;
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  virtual ~Program() = default;

  virtual const ProgramShape& shape() const = 0;
  virtual DataOrder::Options data() const = 0;  // the runtime fills in logical_workers

  // Moves the shared state into `units` (one span per unit, 64-byte aligned, zeroed) and keeps it
  // there. Called once, before anything else.
  virtual void bind_state(std::span<const std::span<std::byte>> units) = 0;
  // Called after the bytes of a unit were replaced from outside (a newcomer's copy, a checkpoint).
  virtual void unit_replaced(std::size_t unit) = 0;
  // Whether the units' memory always holds the current state. If not (on a GPU), the memory of a
  // unit holds what bind_state() or the last store_unit() left there.
  virtual bool state_in_host_memory() const { return true; }
  virtual void store_unit(std::size_t unit) { static_cast<void>(unit); }
  // Writes the private state of a logical worker before its first step.
  virtual void initial_private(std::span<std::byte> out) = 0;

  // Provides host memory for gradient buffer `index`: gradient_floats floats, 64-byte aligned.
  // Called before the first publish() of the buffer and again when the memory moves. Buffers that
  // are never published (partial sums) get no host memory; the program chooses where to keep them.
  virtual void bind_buffer(int index, float* memory) = 0;
  // Forward and backward pass of one mini-batch with the private state `before`. The new private
  // state goes to `after` (they do not overlap), the mean loss to `loss`. The gradient, that of
  // weight * mean loss, is added to the buffer or replaces its content. An empty mini-batch gives a
  // zero gradient, loss 0 and an unchanged private state. `after` and `loss` may be written as late
  // as in settle(), so that nobody has to wait for a device. Until then their memory must stay
  // valid, and a call whose `before` is the `after` of an earlier call uses the value that belongs
  // there.
  virtual void compute(const MiniBatch& batch, std::span<const std::byte> before,
                       std::span<std::byte> after, double& loss, int buffer, bool accumulate) = 0;
  // Returns when every `after` and `loss` is written.
  virtual void settle() {}
  virtual void merge(int into, int from) = 0;  // buffer[into] += buffer[from]; clears `from`
  // Makes the content of the buffer visible in its host memory. The next call for the buffer is a
  // compute() that replaces the content.
  virtual void publish(int buffer) { static_cast<void>(buffer); }

  // Receives samples that this worker will probably use in its next step. Called only if wanted, on
  // a separate thread, while other functions of the program run. Must not affect what they return.
  virtual bool wants_prefetch() const { return false; }
  virtual void prefetch(std::span<const std::int64_t> samples) { static_cast<void>(samples); }

  // An audit computes a mini-batch twice and compares what comes out (elastic/job/audit.h). The
  // program may add what it saw: hashes of things that must be equal both times and on all workers
  // (by name: "input" is the data), and where a difference probably comes from.
  struct Witness {
    std::map<std::string, std::uint32_t> hashes;
    std::string suspicion;
  };
  virtual void begin_audit(int pass) {
    static_cast<void>(pass);
  }                                           // the next compute() belongs to it
  virtual Witness end_audit() { return {}; }  // after that
  // How the gradient is divided, for people.
  struct GradientPart {
    std::string name;
    std::size_t floats = 0;
  };
  virtual std::vector<GradientPart> gradient_parts() const { return {}; }

  // What this worker is in the view that it enters. Called before the first compute() of the view.
  struct Place {
    bool leads = false;
    int workers = 1;
    LogicalRange hosts;
    std::int64_t total_steps = 0;      // 0: not known in advance
    const DataOrder* order = nullptr;  // null: shares are not known in advance
    // Reports a number about the training to the job's owner (elastic/job/metrics.h). May be called
    // until the program ends, also after the end of the job. Null if this worker does not lead.
    std::function<Status(std::string_view name, double value)> report;
  };
  virtual void entered(const Place& place) { static_cast<void>(place); }

  // How a worker loads lazy libraries and touches its memory before the job relies on it: with a
  // compute() whose result is discarded, or with the updates that it applies while it catches up.
  // Then it joins only after at least one.
  virtual bool warms_up_by_update() const { return false; }

  // Where the tensors of the model are in the state. A job whose program knows them leaves a model
  // file that plain PyTorch reads.
  virtual std::vector<TensorPlace> tensors() const { return {}; }
  // Whether a loss that is not a number ends the job. It would not recover.
  virtual bool stops_at_nan() const { return true; }

  // Writes the trained model, with the private state of logical worker 0, in the program's own
  // format, for programs that have another one than write_model_file(). Called on the leader before
  // the job counts as finished, and again on another one if the leader dies; so it must replace the
  // file as a whole.
  virtual bool saves_model() const { return false; }
  virtual void save_model(const std::string& path, std::span<const std::byte> private_state) {
    static_cast<void>(path);
    static_cast<void>(private_state);
  }

  // One optimizer update with a gradient in host memory. Updates only units with update[unit] != 0;
  // an empty span means all.
  virtual void apply(const StepInfo& info, const float* gradient,
                     std::span<const std::uint8_t> update) = 0;
  // The same for all units with the gradient scale * buffer[index]. Avoids the detour through host
  // memory when there is only one worker.
  virtual void apply_buffer(const StepInfo& info, int buffer, float scale) = 0;

  // The parts of the environment that affect the bits ("blas" -> "OpenBLAS 0.3.21 Haswell"), sorted
  // by name. All workers of a job must agree on every one.
  struct Trait {
    std::string name;
    std::string value;
    friend bool operator==(const Trait&, const Trait&) = default;
  };
  virtual std::vector<Trait> fingerprint() const = 0;
};

}  // namespace rubato::elastic
