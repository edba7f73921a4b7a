#include "sim/sim_job.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "model/logical_workers.h"

namespace rubato {

SimJob::SimJob(const WorkloadJob& job, const Cluster& cluster, const SpeedModel* speed,
               ScalingLaw law, Quirks quirks)
    : job_(job),
      cluster_(cluster),
      speed_(speed),
      quirks_(quirks),
      epochs_(job.application ? job.application->epochs() : 1) {
  if (job.application) {
    learned_.emplace(job.spec.batch);
  } else {
    own_speed_ = std::make_unique<RequestedDurationSpeed>(job.spec.requested_devices, law);
    speed_ = own_speed_.get();
  }
  for (std::size_t type = cluster.type_count(); type-- > 0;) {
    if (job.spec.allows(DeviceTypeId(type))) reference_type_ = DeviceTypeId(type);
  }
}

JobKnowledge SimJob::knowledge() {
  return {.profiled = speed_,
          .learned = learned_ ? &*learned_ : nullptr,
          .remaining = this,
          .progress = this};
}

double SimJob::target(int epoch) const {
  return job_.application ? job_.application->progress_after(epoch) : epoch * job_.duration_s;
}

double SimJob::rate(int epoch, Seconds update_s, double batch) const {
  if (!job_.application) return 1.0 / update_s;
  const Application& app = *job_.application;
  const double scale = batch / static_cast<double>(app.batch().initial);
  return update_gain(app.noise(batch, epoch), scale) / update_s;
}

double SimJob::total_batch(const BatchShape& shape, int devices) const {
  const int workers = job_.spec.logical_workers;
  return static_cast<double>(workers > 0 ? workers * shape.local : shape.total(devices));
}

void SimJob::choose_batch() {
  trained_ = false;
  if (!job_.application) return;
  if (job_.spec.logical_workers > 0) {
    shape_ = {.local = job_.spec.worker_batch(), .accumulation = 0};
    return;
  }
  const int devices = placement_.devices();
  const BatchLimits& limits = job_.spec.batch;
  const bool own_choice = job_.spec.mode == ElasticMode::kAdaptive && allocation_.batch == 0;
  std::int64_t total = allocation_.batch > 0 ? allocation_.batch : job_.spec.requested_batch;
  if (own_choice) {
    total = std::max(limits.initial, limits.min_local * devices);
    if (!learned_->empty()) {
      const BestBatch& best = learned_->best(placement_.type(), placement_.nodes(), devices);
      if (best.goodput > 0) {
        shape_ = best.shape;
        shape_.local = std::min(shape_.local, limits.max / (devices * (shape_.accumulation + 1)));
        return;
      }
    }
  }
  shape_ = split_batch(std::min(total, limits.max), devices, limits);
}

void SimJob::refresh_rate() {
  step_ = speed_->step_time(placement_, shape_.local);
  if (job_.spec.logical_workers > 0) {
    const WorkerUpdate update =
        update_of_workers(*speed_, allocation_.counts(cluster_), placement_.per_node(),
                          job_.spec.logical_workers, shape_.local);
    update_s_ = update.update_s;
    computing_ = update.busy;
  } else {
    update_s_ = step_.update_s(shape_);
    computing_ = (step_.step_s - step_.sync_s) * (shape_.accumulation + 1) / update_s_;
  }
  const double batch = total_batch(shape_, placement_.devices());
  rate_ = finished() ? 0 : rate(epoch_, update_s_, batch) * (1 - interference_);
}

void SimJob::report() {
  trained_ = true;
  // A step on several types at once says nothing about any single type.
  if (!learned_) return;
  if (job_.spec.mixes_types && !allocation_.counts(cluster_).single_type().valid()) return;
  const double batch = total_batch(shape_, placement_.devices());
  learned_->report({.type = placement_.type(),
                    .nodes = placement_.nodes(),
                    .devices = placement_.devices(),
                    .local = shape_.local,
                    .step_s = step_.step_s,
                    .sync_s = step_.sync_s},
                   job_.application->noise(batch, epoch_));
}

void SimJob::set_allocation(const Allocation& allocation, Seconds now_s, Seconds pause_s) {
  advance(now_s);
  const bool moved = allocation.shares != allocation_.shares;
  allocation_ = allocation;
  at_s_ = std::max(at_s_, now_s);
  if (!running() || finished()) {
    rate_ = 0;
    return;
  }
  placement_ = allocation.placement(cluster_);
  if (moved) resume_s_ = now_s + pause_s;
  choose_batch();
  refresh_rate();
}

void SimJob::set_interference(double share, Seconds now_s) {
  if (share == interference_) return;
  advance(now_s);
  interference_ = share;
  if (running() && !finished()) refresh_rate();
}

void SimJob::advance(Seconds now_s) {
  while (running() && !finished() && now_s > at_s_) {
    if (resume_s_ > at_s_) {
      const Seconds until = std::min(now_s, resume_s_);
      lost_device_s_ += (until - at_s_) * placement_.devices();
      at_s_ = until;
      continue;
    }
    report();
    const Seconds end = at_s_ + (target(epoch_ + 1) - progress_) / rate_;
    samples_ += samples_per_s() * (std::min(end, now_s) - at_s_);
    if (end > now_s) {
      progress_ += rate_ * (now_s - at_s_);
      at_s_ = now_s;
      return;
    }
    progress_ = target(++epoch_);
    at_s_ = quirks_.whole_second_epochs ? std::max(at_s_, std::nearbyint(end)) : end;
    if (finished()) return;
    choose_batch();
    refresh_rate();
  }
}

void SimJob::reconsider_batch(Seconds now_s) {
  advance(now_s);
  const bool own_choice = job_.spec.mode == ElasticMode::kAdaptive && allocation_.batch == 0;
  if (!own_choice || !running() || finished() || !trained_) return;
  choose_batch();
  refresh_rate();
}

Seconds SimJob::next_event_s() const {
  if (!running() || finished()) return std::numeric_limits<double>::infinity();
  if (resume_s_ > at_s_) return resume_s_;
  return at_s_ + (target(epoch_ + 1) - progress_) / rate_;
}

double SimJob::useful_devices(Seconds now_s) const {
  if (!running() || finished() || resume_s_ > now_s) return 0;
  return placement_.devices() * computing_ * (1 - interference_);
}

double SimJob::progress_at(Seconds now_s) const {
  const Seconds from = std::max(at_s_, resume_s_);
  if (!running() || now_s <= from) return progress_;
  return std::min(target(epoch_ + 1), progress_ + rate_ * (now_s - from));
}

double SimJob::samples_per_s() const {
  if (!job_.application) return 0;
  return total_batch(shape_, placement_.devices()) / update_s_ * (1 - interference_);
}

double SimJob::epochs_done(Seconds now_s) const {
  if (!job_.application || finished()) return job_.application ? epochs_ : 0;
  return epoch_ + (progress_at(now_s) - target(epoch_)) / (target(epoch_ + 1) - target(epoch_));
}

double SimJob::samples_done(Seconds now_s) const {
  const Seconds from = std::max(at_s_, resume_s_);
  return samples_ + (running() && now_s > from ? samples_per_s() * (now_s - from) : 0);
}

Seconds SimJob::epoch_s(int epoch, const Placement& placement) const {
  const JobSpec& spec = job_.spec;
  const int devices = placement.devices();
  BatchShape shape;
  Seconds update_s = 0;
  if (spec.logical_workers > 0) {
    DeviceCounts counts;
    counts[placement.type()] = devices;
    shape.local = spec.worker_batch();
    update_s =
        update_of_workers(*speed_, counts, placement.per_node(), spec.logical_workers, shape.local)
            .update_s;
  } else {
    if (job_.application) shape = split_batch(spec.requested_batch, devices, spec.batch);
    update_s = speed_->step_time(placement, shape.local).update_s(shape);
  }
  return (target(epoch + 1) - target(epoch)) / rate(epoch, update_s, total_batch(shape, devices));
}

Seconds SimJob::seconds_at_request(Seconds now_s) const {
  const int devices = job_.spec.requested_devices;
  if (left_at_request_s_.empty()) {
    left_at_request_s_.assign(static_cast<std::size_t>(epochs_) + 1, 0.0);
    const auto placement =
        Placement::packed(reference_type_, devices, cluster_.node_size(reference_type_));
    for (int epoch = epochs_; epoch-- > 0;) {
      const auto e = static_cast<std::size_t>(epoch);
      left_at_request_s_[e] = left_at_request_s_[e + 1] + epoch_s(epoch, placement);
    }
  }
  if (finished()) return 0;
  const auto e = static_cast<std::size_t>(epoch_);
  const double width = target(epoch_ + 1) - target(epoch_);
  const double left_share = (target(epoch_ + 1) - progress_at(now_s)) / width;
  return left_at_request_s_[e + 1] +
         left_share * (left_at_request_s_[e] - left_at_request_s_[e + 1]);
}

double SimJob::updates(std::int64_t batch, Seconds now_s) const {
  if (!job_.application) return seconds_at_request(now_s);
  if (finished()) return 0;
  const Application& app = *job_.application;
  const auto size = static_cast<double>(batch);
  const double all = app.iterations_through(size, epochs_ - 1);
  const double through_this = app.iterations_through(size, epoch_);
  if (quirks_.whole_epoch_remaining) {
    return epoch_ >= epochs_ - 1 ? 1.0 : all - through_this;
  }
  const double before_this = epoch_ == 0 ? 0.0 : app.iterations_through(size, epoch_ - 1);
  const double width = target(epoch_ + 1) - target(epoch_);
  const double left_share = (target(epoch_ + 1) - progress_at(now_s)) / width;
  return all - through_this + left_share * (through_this - before_this);
}

Seconds SimJob::isolated_s(int devices) const {
  const auto placement =
      Placement::packed(reference_type_, devices, cluster_.node_size(reference_type_));
  Seconds total = 0;
  for (int epoch = 0; epoch < epochs_; ++epoch) total += epoch_s(epoch, placement);
  return total;
}

}  // namespace rubato
