#include "train/solo.h"

#include <numeric>
#include <utility>

namespace rubato::train {
namespace {

elastic::DataOrder::Options data_options(const elastic::Program& program, int logical_workers) {
  elastic::DataOrder::Options options = program.data();
  options.logical_workers = logical_workers;
  return options;
}

}  // namespace

Solo::Solo(elastic::Program& program, int logical_workers)
    : program_(program),
      order_(data_options(program, logical_workers)),
      host_(elastic::host_program(logical_workers, {0, logical_workers})) {
  const elastic::ProgramShape& shape = program.shape();
  std::vector<std::span<std::byte>> units;
  for (const std::size_t bytes : shape.unit_bytes) {
    units.push_back(units_.emplace_back(bytes).bytes());
  }
  program.bind_state(units);
  for (std::size_t i = 0; i <= static_cast<std::size_t>(logical_workers); ++i) {
    program.initial_private(private_.emplace_back(shape.private_bytes).bytes());
    slot_.push_back(i);
  }
  losses_.resize(static_cast<std::size_t>(logical_workers));
  weights_.resize(losses_.size());
}

double Solo::loss() {
  program_.settle();
  return std::inner_product(losses_.begin(), losses_.end(), weights_.begin(), 0.0) /
         static_cast<double>(losses_.size());
}

void Solo::step(std::int64_t step) {
  const int logical_workers = order_.options().logical_workers;
  for (const elastic::HostStep& part : host_.steps) {
    order_.share(step, part.logical, batch_);
    std::size_t& spare = slot_.back();
    const auto logical = static_cast<std::size_t>(part.logical);
    std::size_t& slot = slot_[logical];
    program_.compute(batch_, private_[slot].bytes(), private_[spare].bytes(), losses_[logical],
                     part.buffer, part.accumulate);
    weights_[logical] = batch_.weight;
    std::swap(slot, spare);
    for (const auto& merge : part.merges) program_.merge(merge.into, merge.from);
  }
  program_.apply_buffer(
      {.step = step, .epoch = order_.epoch_of(step), .steps_per_epoch = order_.steps_per_epoch()},
      host_.roots.front().buffer, 1.0F / static_cast<float>(logical_workers));
}

}  // namespace rubato::train
