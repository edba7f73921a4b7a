#include "train/torch_program.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "train/environment.h"
#include "train/torch_compat.h"

namespace rubato::train {
namespace {

using torch::Tensor;

constexpr std::size_t kAlign = 64;
constexpr std::int64_t kLossBytes = sizeof(double);  // size of the widest type of a loss
constexpr std::size_t aligned(std::size_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

struct UnitHeader {
  std::uint64_t has_state = 0;
  std::int64_t step = 0;
};

UnitHeader read_header(std::span<const std::byte> unit) {
  UnitHeader header;
  std::memcpy(&header, unit.data(), sizeof(header));
  return header;
}
void write_header(std::span<std::byte> unit, const UnitHeader& header) {
  std::memcpy(unit.data(), &header, sizeof(header));
}

std::size_t float_bytes(const Tensor& tensor) {
  return static_cast<std::size_t>(tensor.numel()) * sizeof(float);
}

// A float32 tensor over the host memory.
Tensor view_of(void* memory, at::IntArrayRef sizes) {
  return torch::from_blob(memory, sizes, torch::kFloat32);
}

// The i-th float32 tensor of a unit, with the shape of `parameter`.
Tensor unit_tensor(std::span<std::byte> unit, const Tensor& parameter, std::size_t i) {
  return view_of(unit.data() + kAlign + i * aligned(float_bytes(parameter)), parameter.sizes());
}

std::uint64_t mix(std::uint64_t x) {  // splitmix64
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

}  // namespace

Result<std::unique_ptr<TorchProgram>> TorchProgram::make(const Training& training,
                                                         const Options& options) {
  if (!training.model) return invalid_input("training: no model; set Training::model");
  if (!training.loss) return invalid_input("training: no loss function; set Training::loss");
  if (training.samples < 1) {
    return invalid_input("training: the data set has " + std::to_string(training.samples) +
                         " samples; set Training::samples to at least 1");
  }
  if (options.batch < 1) {
    return invalid_input("training: the batch has " + std::to_string(options.batch) +
                         " samples; use at least 1");
  }
  Result<OptimizerState> state = OptimizerState::make(training.optimizer, training.optimizer_state);
  if (!state) return state.error();
  training.model->to(options.device);
  training.model->train();
  std::unique_ptr<TorchProgram> program(new TorchProgram(training, options, std::move(*state)));
  if (Status added = program->add_parameters(); !added) return added.error();
  program->add_buffers();
  return program;
}

TorchProgram::TorchProgram(const Training& training, const Options& options, OptimizerState state)
    : training_(training),
      options_(options),
      optimizer_state_(std::move(state)),
      default_generator_(at::detail::getDefaultCPUGenerator()),
      augmentation_(at::detail::createCPUGenerator()) {
  if (!options.device.is_cpu())
    device_generator_ = at::globalContext().defaultGenerator(options.device);
  for (auto& group : training_.optimizer->param_groups()) {
    own_rates_.push_back(group.options().get_lr());
  }
}

Status TorchProgram::add_parameters() {
  std::unordered_map<const void*, std::string> tensors;
  std::unordered_map<const void*, std::string> storages;
  for (const auto& item : training_.model->named_parameters()) {
    const Tensor& tensor = item.value();
    if (!tensors.emplace(tensor.unsafeGetTensorImpl(), item.key()).second) continue;
    if (tensor.scalar_type() != torch::kFloat32) {
      return invalid_input("training: parameter " + item.key() + " is " +
                           std::string(c10::toString(tensor.scalar_type())) +
                           "; only float32 parameters can be trained (model->to(torch::kFloat32))");
    }
    if (tensor.numel() > 0) {
      const auto [other, is_new] = storages.emplace(tensor.storage().data(), item.key());
      if (!is_new) {
        return invalid_input("training: parameters " + other->second + " and " + item.key() +
                             " are different tensors over the same memory; register one tensor "
                             "under both names instead");
      }
    }
    Parameter parameter{.name = item.key(), .tensor = tensor, .trained = tensor.requires_grad()};
    parameter.state_tensors = parameter.trained ? optimizer_state_.tensor_count(tensor) : 0;
    shape_.unit_bytes.push_back(kAlign +
                                (1 + parameter.state_tensors) * aligned(float_bytes(tensor)));
    if (parameter.trained) {
      shape_.gradient_floats += static_cast<std::size_t>(tensor.numel());
    }
    parameters_.push_back(std::move(parameter));
  }
  if (shape_.gradient_floats == 0) {
    return invalid_input("training: no parameter of the model requires a gradient");
  }
  for (const auto& group : training_.optimizer->param_groups()) {
    for (const Tensor& tensor : group.params()) {
      if (!tensors.contains(tensor.unsafeGetTensorImpl())) {
        return invalid_input("training: the optimizer has a parameter of shape " +
                             c10::str(tensor.sizes()) +
                             " that is not one of the model's; register it with "
                             "register_parameter, or make the optimizer from model->parameters()");
      }
    }
  }
  return ok_status();
}

void TorchProgram::add_buffers() {
  std::vector<std::pair<Tensor, std::size_t>> places;  // buffer, offset
  std::unordered_map<const void*, std::size_t> seen;
  for (const auto& item : training_.model->named_buffers()) {
    const auto [known, fresh] =
        seen.emplace(item.value().unsafeGetTensorImpl(), shape_.private_bytes);
    named_buffers_.push_back({item.key(), item.value(), known->second});
    if (!fresh) continue;
    places.emplace_back(item.value(), shape_.private_bytes);
    shape_.private_bytes += aligned(item.value().nbytes());
  }
  const torch::NoGradGuard no_grad;
  const auto private_bytes = static_cast<std::int64_t>(shape_.private_bytes);
  private_ = torch::zeros({private_bytes}, torch::dtype(torch::kUInt8).device(options_.device));
  for (auto& [buffer, offset] : places) {
    if (buffer.numel() == 0) continue;
    const Tensor bytes = private_.narrow(0, static_cast<std::int64_t>(offset),
                                         static_cast<std::int64_t>(buffer.nbytes()));
    Tensor place = bytes.view(buffer.scalar_type()).view(buffer.sizes());
    place.copy_(buffer);
    buffer.set_data(place);
  }
  initial_private_.resize(shape_.private_bytes);
  if (shape_.private_bytes == 0) return;
  const Tensor host = private_.cpu();
  std::memcpy(initial_private_.data(), host.data_ptr(), shape_.private_bytes);
}

elastic::DataOrder::Options TorchProgram::data() const {
  return {.seed = options_.seed,
          .samples = training_.samples,
          .logical_workers = 1,
          .batch = options_.batch,
          .shuffle = training_.shuffle};
}

void TorchProgram::bind_state(std::span<const std::span<std::byte>> units) {
  RUBATO_CHECK(units.size() == parameters_.size(), "bind_state with the wrong number of units");
  const torch::NoGradGuard no_grad;
  for (std::size_t k = 0; k < parameters_.size(); ++k) {
    Parameter& parameter = parameters_[k];
    RUBATO_CHECK(units[k].size() == shape_.unit_bytes[k],
                 "bind_state with a unit of the wrong size");
    parameter.memory = units[k];
    if (in_place()) {
      Tensor place = unit_tensor(units[k], parameter.tensor, 0);
      place.copy_(parameter.tensor);
      parameter.tensor.set_data(place);
    }
    for (std::size_t i = 0; i < parameter.state_tensors; ++i) {
      parameter.state.push_back(in_place() ? unit_tensor(units[k], parameter.tensor, 1 + i)
                                           : torch::empty_like(parameter.tensor));
    }
    adopt_state(parameter);
    store_unit(k);
  }
}

// LibTorch creates the state wherever it likes; from then on it works on our memory.
void TorchProgram::adopt_state(Parameter& parameter) {
  if (parameter.state_tensors == 0 || parameter.adopted ||
      !optimizer_state_.exists(parameter.tensor)) {
    return;
  }
  const std::vector<Tensor*> tensors = optimizer_state_.tensors(parameter.tensor);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i]->defined() || tensors[i]->sizes() != parameter.tensor.sizes() ||
        tensors[i]->scalar_type() != torch::kFloat32) {
      throw std::runtime_error("training: a tensor that the optimizer keeps for '" +
                               parameter.name + "' is not float32 or not of the parameter's shape");
    }
    parameter.state[i].copy_(*tensors[i]);
    *tensors[i] = parameter.state[i];
  }
  parameter.adopted = true;
  if (in_place()) {
    write_header(parameter.memory,
                 {.has_state = 1, .step = optimizer_state_.step(parameter.tensor)});
  }
}

void TorchProgram::unit_replaced(std::size_t unit) {
  Parameter& parameter = parameters_[unit];
  const torch::NoGradGuard no_grad;
  const UnitHeader header = read_header(parameter.memory);
  if (!in_place()) {
    parameter.tensor.copy_(unit_tensor(parameter.memory, parameter.tensor, 0));
    for (std::size_t i = 0; i < parameter.state_tensors; ++i) {
      parameter.state[i].copy_(unit_tensor(parameter.memory, parameter.tensor, 1 + i));
    }
  }
  if (parameter.state_tensors == 0) return;
  parameter.adopted = header.has_state != 0;
  if (parameter.adopted) {
    optimizer_state_.create(parameter.tensor, header.step, parameter.state);
  } else {
    optimizer_state_.remove(parameter.tensor);
  }
}

void TorchProgram::store_unit(std::size_t unit) {
  const Parameter& parameter = parameters_[unit];
  if (in_place()) return;
  const torch::NoGradGuard no_grad;
  UnitHeader header{.has_state = parameter.adopted ? 1U : 0U};
  if (parameter.adopted) header.step = optimizer_state_.step(parameter.tensor);
  write_header(parameter.memory, header);
  unit_tensor(parameter.memory, parameter.tensor, 0).copy_(parameter.tensor);
  for (std::size_t i = 0; parameter.adopted && i < parameter.state_tensors; ++i) {
    unit_tensor(parameter.memory, parameter.tensor, 1 + i).copy_(parameter.state[i]);
  }
}

void TorchProgram::initial_private(std::span<std::byte> out) {
  std::copy(initial_private_.begin(), initial_private_.end(), out.begin());
}

// Whether the departure's bytes equal the state in host memory.
bool TorchProgram::holds(const Departure& departure, std::span<const std::byte> state) const {
  return !departure.pending &&
         std::memcmp(departure.bytes.data_ptr(), state.data(), state.size()) == 0;
}

void TorchProgram::load_private(std::span<const std::byte> state) {
  if (shape_.private_bytes == 0) return;
  if (in_place()) {
    std::memcpy(private_.data_ptr(), state.data(), shape_.private_bytes);
    return;
  }
  const auto found = departures_.find(state.data());
  const Departure* const known = found == departures_.end() ? nullptr : &found->second;
  const bool on_its_way = known != nullptr && known->pending;  // the host does not have it yet
  // The state after a logical worker's own last step is already there: the usual case with one
  // logical worker per worker.
  if (resident_ != nullptr && (on_its_way ? resident_ == known : holds(*resident_, state))) return;
  const torch::NoGradGuard no_grad;
  resident_ = known;
  if (on_its_way || (known != nullptr && holds(*known, state))) {
    compat::queue_copy(private_.data_ptr(), known->bytes.data_ptr(), shape_.private_bytes,
                       options_.device);
    return;
  }
  resident_ = nullptr;
  private_.copy_(
      torch::from_blob(const_cast<std::byte*>(state.data()), private_.sizes(), torch::kUInt8));
}

void TorchProgram::make_flat(Gradient& gradient) const {
  const auto size = static_cast<std::int64_t>(shape_.gradient_floats);
  gradient.flat = in_place()
                      ? view_of(gradient.memory, {size})
                      : torch::empty({size}, torch::dtype(torch::kFloat32).device(options_.device));
  std::int64_t offset = 0;
  for (const Parameter& parameter : parameters_) {
    if (!parameter.trained) continue;
    const std::int64_t count = parameter.tensor.numel();
    gradient.flat_parts.push_back(
        gradient.flat.narrow(0, offset, count).view(parameter.tensor.sizes()));
    offset += count;
  }
}

// What autograd produced becomes the gradient. A parameter that the loss does not depend on gets a
// zero gradient: minus zero, the neutral element of addition (0 + -0 is 0).
void TorchProgram::take_gradients(Gradient& gradient) {
  gradient.parts.clear();
  for (const Parameter& parameter : parameters_) {
    if (!parameter.trained) continue;
    const Tensor& made = parameter.tensor.grad();
    if (!made.defined()) {
      gradient.parts.push_back(torch::full_like(parameter.tensor, -0.0F));
    } else {
      gradient.parts.push_back(made.layout() == torch::kStrided ? made : made.to_dense());
    }
  }
}

TorchProgram::Gradient& TorchProgram::buffer_at(int index) {
  const auto i = static_cast<std::size_t>(index);
  if (buffers_.size() <= i) buffers_.resize(i + 1);
  return buffers_[i];
}

void TorchProgram::bind_buffer(int index, float* memory) {
  Gradient& gradient = buffer_at(index);
  if (in_place()) gradient = Gradient{};  // the flat tensor is a view of that memory
  gradient.memory = memory;
}

// The parts become the parameters' gradients; parameters without an update get none.
void TorchProgram::install(const Gradient& gradient, std::span<const std::uint8_t> update) {
  std::size_t part = 0;
  for (std::size_t k = 0; k < parameters_.size(); ++k) {
    const Parameter& parameter = parameters_[k];
    if (!parameter.trained) continue;
    const bool wanted = update.empty() || update[k] != 0;
    parameter.tensor.mutable_grad() = wanted ? gradient.parts[part] : Tensor();
    ++part;
  }
}

void TorchProgram::seed_generators(std::uint64_t seed) {
  compat::seed_generator(default_generator_, seed);
  if (device_generator_) compat::seed_generator(*device_generator_, seed);
  compat::seed_generator(augmentation_, mix(seed));
}

Tensor TorchProgram::loss_of(const elastic::MiniBatch& batch, const Tensor& indices) {
  seed_generators(batch.random_seed);
  const Batch user{.samples = batch.samples,
                   .indices = indices,
                   .step = batch.step,
                   .epoch = batch.epoch,
                   .logical = batch.logical,
                   .logical_workers = batch.logical_workers,
                   .device = options_.device,
                   .generator = augmentation_};
  Tensor loss = training_.loss(user);
  if (!loss.defined() || loss.numel() != 1 || !loss.is_floating_point() || !loss.requires_grad()) {
    throw std::runtime_error(
        "training: the loss function returned " +
        (loss.defined() ? "a tensor of shape " + c10::str(loss.sizes()) +
                              (loss.requires_grad() ? "" : " without a gradient")
                        : std::string("an undefined tensor")) +
        "; return the mean loss of the batch, one floating-point number computed from the model");
  }
  return loss;
}

void TorchProgram::compute(const elastic::MiniBatch& batch, std::span<const std::byte> before,
                           std::span<std::byte> after, double& loss, int buffer, bool accumulate) {
  const auto earliest_end = std::chrono::steady_clock::now() + options_.pace;
  compute_now(batch, before, after, loss, buffer, accumulate);
  if (options_.pace.count() > 0) std::this_thread::sleep_until(earliest_end);
}

void TorchProgram::compute_now(const elastic::MiniBatch& batch, std::span<const std::byte> before,
                               std::span<std::byte> after, double& loss, int buffer,
                               bool accumulate) {
  Gradient& gradient = buffer_at(buffer);
  if (accumulate) {
    install(gradient, {});
  } else {
    for (const Parameter& parameter : parameters_) parameter.tensor.mutable_grad() = Tensor();
    gradient.parts.clear();
  }
  if (batch.samples.empty()) {
    take_gradients(gradient);
    settle();  // `before` may still be on its way
    std::copy(before.begin(), before.end(), after.begin());
    loss = 0.0;
    return;
  }
  load_private(before);
  resident_ = nullptr;  // the forward pass changes the state
  Tensor indices =
      torch::from_blob(const_cast<std::int64_t*>(batch.samples.data()),
                       {static_cast<std::int64_t>(batch.samples.size())}, torch::kInt64);
  Departure* departure = nullptr;
  if (!in_place()) {
    departure = &departure_at(after);
    indices = send_indices(*departure, indices);
  }
  const Tensor mean = loss_of(batch, indices);
  if (batch.weight != 1.0) {
    (mean * batch.weight).backward();
  } else {
    mean.backward();
  }
  take_gradients(gradient);
  if (departure != nullptr) {
    departure->loss = &loss;
    depart(*departure, mean);
    return;
  }
  if (shape_.private_bytes > 0) std::memcpy(after.data(), private_.data_ptr(), after.size());
  loss = mean.item<double>();
}

// The departure for this destination; an earlier one to the same destination has arrived.
TorchProgram::Departure& TorchProgram::departure_at(std::span<std::byte> after) {
  const bool gpu = !options_.device.is_cpu();
  const auto [entry, is_new] = departures_.try_emplace(after.data());
  Departure& departure = entry->second;
  departure.after = after;
  if (is_new) {
    const auto host = [&](std::int64_t size, torch::ScalarType type) {
      return torch::empty({size}, torch::dtype(type).pinned_memory(gpu));
    };
    departure.indices = host(options_.batch, torch::kInt64);
    departure.bytes = host(private_.numel() + kLossBytes, torch::kUInt8);
  } else if (departure.pending && gpu) {
    departure.arrived.wait();
  }
  return departure;
}

Tensor TorchProgram::send_indices(Departure& departure, const Tensor& indices) const {
  if (options_.device.is_cpu()) return indices;
  const std::int64_t count = indices.numel();
  if (count > departure.indices.numel()) {  // the batch of an adaptive job has grown
    departure.indices = torch::empty_like(indices, torch::dtype(torch::kInt64).pinned_memory(true));
  }
  if (!departure.device_indices.defined() || departure.device_indices.numel() != count) {
    departure.device_indices =
        torch::empty({count}, torch::dtype(torch::kInt64).device(options_.device));
  }
  std::memcpy(departure.indices.data_ptr(), indices.data_ptr(), indices.nbytes());
  compat::queue_copy(departure.device_indices.data_ptr(), departure.indices.data_ptr(),
                     indices.nbytes(), options_.device);
  return departure.device_indices;
}

void TorchProgram::depart(Departure& departure, const Tensor& loss) {
  auto* const bytes = static_cast<std::byte*>(departure.bytes.data_ptr());
  compat::queue_copy(bytes, private_.data_ptr(), shape_.private_bytes, options_.device);
  compat::queue_copy(bytes + shape_.private_bytes, loss.data_ptr(), loss.nbytes(), options_.device);
  departure.loss_type = loss.scalar_type();
  if (!options_.device.is_cpu()) departure.arrived.set();
  if (departure.pending) std::erase(pending_, &departure);
  departure.pending = true;
  pending_.push_back(&departure);
  resident_ = &departure;
}

void TorchProgram::settle() {
  for (Departure* const departure : pending_) {
    if (!options_.device.is_cpu()) departure->arrived.wait();
    auto* const bytes = static_cast<std::byte*>(departure->bytes.data_ptr());
    std::copy_n(bytes, departure->after.size(), departure->after.begin());
    *departure->loss =
        torch::from_blob(bytes + shape_.private_bytes, {}, departure->loss_type).item<double>();
    departure->pending = false;
  }
  pending_.clear();
}

void TorchProgram::merge(int into, int from) {
  const torch::NoGradGuard no_grad;
  at::_foreach_add_(buffer_at(into).parts, buffer_at(from).parts);
  buffer_at(from).parts.clear();
}

void TorchProgram::publish(int buffer) {
  const torch::NoGradGuard no_grad;
  Gradient& gradient = buffer_at(buffer);
  if (!gradient.flat.defined()) make_flat(gradient);
  for (std::size_t i = 0; i < gradient.parts.size(); ++i) {
    gradient.flat_parts[i].copy_(gradient.parts[i]);
  }
  gradient.parts.clear();
  if (!in_place()) view_of(gradient.memory, gradient.flat.sizes()).copy_(gradient.flat);
}

// The runtime passes the same few addresses in every step, so their views are kept.
TorchProgram::Gradient& TorchProgram::gradient_at(const float* memory) {
  constexpr std::size_t kKept = 8;
  const auto found = std::find_if(applied_.begin(), applied_.end(),
                                  [&](const Gradient& g) { return g.memory == memory; });
  if (found != applied_.end()) return *found;
  Gradient gradient{.memory = const_cast<float*>(memory)};
  make_flat(gradient);
  gradient.parts = gradient.flat_parts;
  if (applied_.size() < kKept) return applied_.emplace_back(std::move(gradient));
  Gradient& place = applied_[next_applied_++ % kKept];
  place = std::move(gradient);
  return place;
}

void TorchProgram::apply(const elastic::StepInfo& info, const float* gradient,
                         std::span<const std::uint8_t> update) {
  RUBATO_CHECK(update.empty() || update.size() == parameters_.size(),
               "apply with a mask of the wrong size");
  if (in_place()) {
    step_optimizer(info, gradient_at(gradient), update);
    return;
  }
  if (applied_.empty()) {
    Gradient& copy = applied_.emplace_back();
    make_flat(copy);
    copy.parts = copy.flat_parts;
  }
  {
    const torch::NoGradGuard no_grad;
    applied_[0].flat.copy_(view_of(const_cast<float*>(gradient), applied_[0].flat.sizes()));
  }
  step_optimizer(info, applied_[0], update);
}

void TorchProgram::apply_buffer(const elastic::StepInfo& info, int buffer, float scale) {
  Gradient& gradient = buffer_at(buffer);
  const torch::NoGradGuard no_grad;
  if (scale != 1.0F) at::_foreach_mul_(gradient.parts, scale);
  step_optimizer(info, gradient, {});
}

Progress TorchProgram::progress_of(const elastic::StepInfo& info) const {
  return {
      .step = info.step,
      .epoch = info.epoch,
      .steps_per_epoch = info.steps_per_epoch,
      .total_steps = options_.steps >= 0 ? options_.steps : options_.epochs * info.steps_per_epoch};
}

void TorchProgram::set_learning_rate(const elastic::StepInfo& info) {
  auto& groups = training_.optimizer->param_groups();
  if (training_.learning_rate) {
    const double rate = training_.learning_rate(progress_of(info));
    for (auto& group : groups) group.options().set_lr(rate * info.rate_factor);
  } else if (info.rate_factor != rate_factor_) {
    rate_factor_ = info.rate_factor;
    for (std::size_t i = 0; i < groups.size(); ++i) {
      groups[i].options().set_lr(own_rates_[i] * rate_factor_);
    }
  }
}

void TorchProgram::step_optimizer(const elastic::StepInfo& info, const Gradient& gradient,
                                  std::span<const std::uint8_t> update) {
  const torch::NoGradGuard no_grad;
  set_learning_rate(info);
  if (training_.before_update) {
    const Gradient& changeable = own_copy(gradient);
    install(changeable, {});
    training_.before_update(progress_of(info));
    if (!update.empty()) install(changeable, update);
  } else {
    install(gradient, update);
  }
  training_.optimizer->step();
  for (std::size_t k = 0; k < parameters_.size(); ++k) {
    Parameter& parameter = parameters_[k];
    if (parameter.state_tensors == 0 || (!update.empty() && update[k] == 0)) continue;
    adopt_state(parameter);
    if (in_place() && parameter.adopted) {
      write_header(parameter.memory,
                   {.has_state = 1, .step = optimizer_state_.step(parameter.tensor)});
    }
  }
  if (info.ends_epoch && place_.leads && training_.after_epoch) end_epoch(info);
}

// The gradient may be in memory that other workers read.
const TorchProgram::Gradient& TorchProgram::own_copy(const Gradient& gradient) {
  changeable_.parts.clear();
  for (const Tensor& part : gradient.parts) changeable_.parts.push_back(part.clone());
  return changeable_;
}

void TorchProgram::end_epoch(const elastic::StepInfo& info) {
  settle();
  if (info.private_state != nullptr && shape_.private_bytes > 0) {
    load_private({info.private_state, shape_.private_bytes});
  }
  for (const Parameter& parameter : parameters_) parameter.tensor.mutable_grad() = Tensor();
  training_.after_epoch(progress_of(info));
  training_.model->train();
  resident_ = nullptr;
}

std::vector<elastic::TensorPlace> TorchProgram::tensors() const {
  std::vector<elastic::TensorPlace> places;
  const auto sizes = [](const Tensor& tensor) {
    return std::vector<std::int64_t>(tensor.sizes().begin(), tensor.sizes().end());
  };
  for (const auto& item : training_.model->named_parameters()) {
    const auto found =
        std::find_if(parameters_.begin(), parameters_.end(), [&](const Parameter& parameter) {
          return parameter.tensor.unsafeGetTensorImpl() == item.value().unsafeGetTensorImpl();
        });
    places.push_back({.name = item.key(),
                      .type = "F32",
                      .shape = sizes(item.value()),
                      .unit = static_cast<int>(found - parameters_.begin()),
                      .offset = kAlign});
  }
  for (const Buffer& buffer : named_buffers_) {
    const std::string type = compat::tensor_type(buffer.tensor.scalar_type());
    if (type.empty()) return {};  // nobody else could read it
    places.push_back({.name = buffer.name,
                      .type = type,
                      .shape = sizes(buffer.tensor),
                      .unit = -1,
                      .offset = buffer.offset});
  }
  return places;
}

std::vector<elastic::Program::GradientPart> TorchProgram::gradient_parts() const {
  std::vector<GradientPart> parts;
  for (const Parameter& parameter : parameters_) {
    if (!parameter.trained) continue;
    parts.push_back({parameter.name, static_cast<std::size_t>(parameter.tensor.numel())});
  }
  return parts;
}

Status TorchProgram::report(const std::string& name, double value) const {
  return place_.report ? place_.report(name, value) : ok_status();
}

std::string TorchProgram::parameter_bytes() const {
  std::string bytes;
  for (const Parameter& parameter : parameters_) {
    const Tensor host = parameter.tensor.detach().cpu().contiguous();
    bytes.append(static_cast<const char*>(host.data_ptr()), float_bytes(host));
  }
  return bytes;
}

std::vector<elastic::Program::Trait> TorchProgram::fingerprint() const {
  return environment_traits(options_.device);
}

}  // namespace rubato::train
