#include "capi/task_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "elastic/data/float_sums.h"

namespace rubato::capi {

namespace {

constexpr std::size_t kAlignment = 64;

Status check(const rubato_job& job) {
  const auto wrong = [](const char* field, const char* expected) {
    return Error{ErrorCode::kInvalidInput, fmt::format("rubato_job.{}: {}", field, expected)};
  };
  if (job.units > 0 && job.unit_bytes == nullptr) return wrong("unit_bytes", "null");
  if (job.units == 0) return wrong("units", "a program has at least one");
  if (job.private_bytes > 0 && job.initial_private == nullptr) {
    return wrong("initial_private", "null, though private_bytes is not 0");
  }
  if (job.samples < 1) return wrong("samples", "expected at least 1");
  if (job.batch < 1) return wrong("batch", "expected at least 1");
  if (job.logical_workers < 1) return wrong("logical_workers", "expected at least 1");
  if (job.epochs < 0) return wrong("epochs", "expected at least 0");
  if (job.trait_count > 0 && job.traits == nullptr) return wrong("traits", "null");
  for (std::uint64_t i = 0; i < job.trait_count; ++i) {
    if (job.traits[i].name == nullptr || job.traits[i].value == nullptr) {
      return wrong("traits", "a name or value is null");
    }
  }
  if (job.tensor_count > 0 && job.tensors == nullptr) return wrong("tensors", "null");
  for (std::uint64_t i = 0; i < job.tensor_count; ++i) {
    const rubato_tensor& tensor = job.tensors[i];
    if (tensor.name == nullptr || tensor.type == nullptr ||
        (tensor.dimensions > 0 && tensor.shape == nullptr)) {
      return wrong("tensors", "a name, type or shape is null");
    }
  }
  if (job.gradient_part_count > 0 && job.gradient_parts == nullptr) {
    return wrong("gradient_parts", "null");
  }
  for (std::uint64_t i = 0; i < job.gradient_part_count; ++i) {
    if (job.gradient_parts[i].name == nullptr) return wrong("gradient_parts", "a name is null");
  }
  return ok_status();
}

}  // namespace

rubato_task TaskProgram::new_task(rubato_task_kind kind) const {
  rubato_task task{};
  task.size = sizeof task;
  task.kind = kind;
  task.total_steps = place_.total_steps;
  task.leads = place_.leads ? 1 : 0;
  task.workers = place_.workers;
  task.hosts_begin = place_.hosts.begin;
  task.hosts_end = place_.hosts.end;
  return task;
}

rubato_task TaskProgram::new_update(rubato_task_kind kind, const elastic::StepInfo& info) const {
  rubato_task task = new_task(kind);
  task.step = info.step;
  task.epoch = info.epoch;
  task.steps_per_epoch = info.steps_per_epoch;
  task.rate_factor = info.rate_factor;
  task.final_private = info.private_state;
  return task;
}

void TaskProgram::Free::operator()(float* memory) const { std::free(memory); }

Result<std::unique_ptr<TaskProgram>> TaskProgram::make(const rubato_job& given, Perform perform) {
  rubato_job job{};  // fields that the caller's version does not have stay 0
  std::memcpy(&job, &given, std::min(given.size, sizeof job));
  if (job.size < offsetof(rubato_job, trait_count) + sizeof job.trait_count) {
    return Error{ErrorCode::kInvalidInput,
                 fmt::format("rubato_job.size: {}; expected sizeof(struct rubato_job)", job.size)};
  }
  if (const Status fine = check(job); !fine.ok()) return fine.error();
  std::unique_ptr<TaskProgram> program(new TaskProgram(std::move(perform)));
  program->name_ = job.name != nullptr && *job.name != '\0' ? job.name : "job";
  program->shape_ = {.gradient_floats = job.gradient_floats,
                     .unit_bytes = {job.unit_bytes, job.unit_bytes + job.units},
                     .private_bytes = job.private_bytes};
  program->data_ = {
      .seed = job.seed, .samples = job.samples, .batch = job.batch, .shuffle = job.shuffle != 0};
  const auto* const first = static_cast<const std::byte*>(job.initial_private);
  if (job.private_bytes > 0) program->initial_private_.assign(first, first + job.private_bytes);
  for (std::uint64_t i = 0; i < job.trait_count; ++i) {
    program->traits_.push_back({job.traits[i].name, job.traits[i].value});
  }
  std::sort(program->traits_.begin(), program->traits_.end(),
            [](const Trait& a, const Trait& b) { return a.name < b.name; });
  program->epochs_ = job.epochs;
  program->steps_ = job.steps;
  program->logical_workers_ = job.logical_workers;
  program->state_in_host_memory_ = job.state_in_host_memory != 0;
  program->gradients_in_host_memory_ = job.gradients_in_host_memory != 0;
  program->wants_replaced_ = job.wants_replaced != 0 || job.state_in_host_memory == 0;
  program->warms_up_by_update_ = job.warms_up_by_update != 0;
  program->quiet_ = job.quiet != 0;
  program->saves_model_ = job.saves_model != 0;
  program->stops_at_nan_ = job.allows_nan == 0;
  for (std::uint64_t i = 0; i < job.tensor_count; ++i) {
    const rubato_tensor& tensor = job.tensors[i];
    program->tensors_.push_back(
        {.name = tensor.name,
         .type = tensor.type,
         .shape = {tensor.shape, tensor.shape + tensor.dimensions},
         .strides =
             tensor.strides == nullptr
                 ? std::vector<std::int64_t>()
                 : std::vector<std::int64_t>(tensor.strides, tensor.strides + tensor.dimensions),
         .unit = tensor.unit,
         .offset = tensor.offset});
  }
  for (std::uint64_t i = 0; i < job.gradient_part_count; ++i) {
    program->gradient_parts_.push_back({job.gradient_parts[i].name, job.gradient_parts[i].floats});
  }
  const Status fits = elastic::check_places(program->tensors_, program->shape_.unit_bytes,
                                            program->shape_.private_bytes);
  if (!fits.ok()) return invalid_input("rubato_job." + fits.error().message);
  return program;
}

elastic::WorkerOptions TaskProgram::worker_options() const {
  return {.name = name_,
          .epochs = epochs_,
          .steps = steps_,
          .logical_workers = logical_workers_,
          .logical_workers_asked = true,
          .prints = !quiet_};
}

void TaskProgram::bind_state(std::span<const std::span<std::byte>> units) {
  unit_memory_.clear();
  for (const std::span<std::byte> unit : units) unit_memory_.push_back(unit.data());
  rubato_task task = new_task(RUBATO_BIND);
  task.unit_memory = unit_memory_.data();
  perform_(task);
}

void TaskProgram::unit_replaced(std::size_t unit) {
  if (!wants_replaced_) return;
  rubato_task task = new_task(RUBATO_REPLACED);
  task.unit = unit;
  perform_(task);
}

void TaskProgram::store_unit(std::size_t unit) {
  if (state_in_host_memory_) return;
  rubato_task task = new_task(RUBATO_STORE);
  task.unit = unit;
  perform_(task);
}

void TaskProgram::initial_private(std::span<std::byte> out) {
  std::copy(initial_private_.begin(), initial_private_.end(), out.begin());
}

void TaskProgram::bind_buffer(int index, float* memory) {
  bound_[index] = memory;
  own_.erase(index);
}

// Host memory of a gradient buffer.
float* TaskProgram::host_buffer(int index) {
  if (const auto found = bound_.find(index); found != bound_.end()) return found->second;
  std::unique_ptr<float, Free>& memory = own_[index];
  if (!memory) {
    const std::size_t bytes = std::max<std::size_t>(shape_.gradient_floats, 1) * sizeof(float);
    const std::size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    memory.reset(static_cast<float*>(std::aligned_alloc(kAlignment, rounded)));
    if (!memory) throw std::runtime_error(fmt::format("no memory for {} gradients", bytes));
  }
  return memory.get();
}

void TaskProgram::compute(const elastic::MiniBatch& batch, std::span<const std::byte> before,
                          std::span<std::byte> after, double& loss, int buffer, bool accumulate) {
  rubato_task task = new_task(RUBATO_COMPUTE);
  task.samples = batch.samples.data();
  task.sample_count = batch.samples.size();
  task.weight = batch.weight;
  task.random_seed = batch.random_seed;
  task.logical = batch.logical;
  task.logical_workers = batch.logical_workers;
  task.step = batch.step;
  task.epoch = batch.epoch;
  task.steps_per_epoch = place_.order != nullptr ? place_.order->steps_per_epoch() : 0;
  task.before = before.data();
  task.after = after.data();
  task.loss = &loss;
  task.accumulate = accumulate ? 1 : 0;
  task.buffer = buffer;
  task.audit = audit_;
  if (gradients_in_host_memory_) task.gradient = host_buffer(buffer);
  perform_(task);
}

void TaskProgram::settle() {
  if (!gradients_in_host_memory_) perform_(new_task(RUBATO_SETTLE));
}

void TaskProgram::merge(int into, int from) {
  if (!gradients_in_host_memory_) {
    rubato_task task = new_task(RUBATO_MERGE);
    task.buffer = into;
    task.from = from;
    perform_(task);
    return;
  }
  float* const sum = host_buffer(into);
  const std::array<const float*, 2> parts = {sum, host_buffer(from)};
  elastic::sum_arrays(parts, sum, shape_.gradient_floats);
}

void TaskProgram::publish(int buffer) {
  if (gradients_in_host_memory_) return;
  rubato_task task = new_task(RUBATO_PUBLISH);
  task.buffer = buffer;
  task.gradient = host_buffer(buffer);
  perform_(task);
}

void TaskProgram::apply(const elastic::StepInfo& info, const float* gradient,
                        std::span<const std::uint8_t> update) {
  rubato_task task = new_update(RUBATO_APPLY, info);
  task.gradient = const_cast<float*>(gradient);  // the program only reads it
  task.update = update.empty() ? nullptr : update.data();
  perform_(task);
}

void TaskProgram::apply_buffer(const elastic::StepInfo& info, int buffer, float scale) {
  rubato_task task =
      new_update(gradients_in_host_memory_ ? RUBATO_APPLY : RUBATO_APPLY_BUFFER, info);
  task.buffer = buffer;
  task.scale = scale;
  if (gradients_in_host_memory_) {
    float* const memory = host_buffer(buffer);
    const std::array<const float*, 1> one = {memory};
    if (scale != 1.0F) elastic::sum_arrays_scaled(one, scale, memory, shape_.gradient_floats);
    task.gradient = memory;
  }
  perform_(task);
}

rubato_task TaskProgram::end_task(rubato_end end, const void* final_private) const {
  rubato_task task = new_task(RUBATO_END);
  task.end = end;
  task.final_private = final_private;
  return task;
}

void TaskProgram::save_model(const std::string& path, std::span<const std::byte> private_state) {
  rubato_task task = new_task(RUBATO_SAVE);
  task.path = path.c_str();
  task.final_private = private_state.data();
  perform_(task);
}

void TaskProgram::entered(const Place& place) { place_ = place; }

elastic::Program::Witness TaskProgram::end_audit() {
  audit_ = 0;
  return std::exchange(witness_, {});
}

void TaskProgram::witness(const char* name, std::uint32_t hash, const char* text) {
  if (name != nullptr) witness_.hashes[name] = hash;
  if (name == nullptr && text != nullptr) witness_.suspicion = text;
}

Status TaskProgram::report(std::string_view name, double value) const {
  return place_.report ? place_.report(name, value) : ok_status();
}

Result<elastic::MiniBatch> TaskProgram::share(std::int64_t step, int logical) const {
  if (place_.order == nullptr) {
    return Error{ErrorCode::kInvalidInput, "shares are not known in advance"};
  }
  if (step < 0 || logical < 0 || logical >= place_.order->options().logical_workers) {
    return Error{ErrorCode::kInvalidInput,
                 fmt::format("no logical worker {} in step {}", logical, step)};
  }
  elastic::MiniBatch batch;
  place_.order->share(step, logical, batch);
  return batch;
}

}  // namespace rubato::capi
