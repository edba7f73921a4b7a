#include "control/live_job.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <utility>

#include "control/json_fields.h"
#include "control/pins.h"

namespace rubato::control {

namespace {

// Assumed cost of a resize for a program that was never resized. Survivors lose less than a step,
// but a newcomer needs about this long before it computes. So does a job that was preempted and
// starts again.
constexpr Seconds kResizeCost = 1.0;
// Assumed length of a job about which nothing is known.
constexpr Seconds kUnknownLength = 600;
constexpr std::int64_t kUnknownSteps = 1000;
constexpr std::int64_t kMostEpochs = 1'000'000'000;

}  // namespace

LiveProgress LiveProgress::from_json(const nlohmann::json& json) {
  if (!json.is_object()) return {};
  return {.step = whole_in(json, "step"),
          .total_steps = whole_in(json, "total_steps"),
          .steps_per_epoch = whole_in(json, "steps_per_epoch"),
          .batch = whole_in(json, "batch"),
          .samples_done = number_in(json, "samples_done"),
          .loss = number_in(json, "loss"),
          .workers = static_cast<int>(whole_in(json, "workers")),
          .logical_workers = static_cast<int>(whole_in(json, "logical_workers")),
          .step_s = number_in(json, "step_s")};
}

nlohmann::json LiveProgress::to_json() const {
  nlohmann::json json = {{"step", step},       {"total_steps", total_steps},
                         {"batch", batch},     {"loss", loss},
                         {"workers", workers}, {"logical_workers", logical_workers},
                         {"step_s", step_s},   {"samples_done", samples_done}};
  json["steps_per_epoch"] = steps_per_epoch;
  if (steps_per_epoch > 0) {
    json["epoch"] = static_cast<double>(step) / static_cast<double>(steps_per_epoch);
    json["epochs"] = static_cast<double>(total_steps) / static_cast<double>(steps_per_epoch);
  }
  return json;
}

LiveJob::LiveJob(const JobRecord& record, Profile profile, LiveCluster cluster)
    : document_(record.document),
      cluster_(std::move(cluster)),
      profile_(std::move(profile)),
      progress_(LiveProgress::from_json(record.progress)) {
  refresh(record, 0);
  learn();
}

// Of a consistent or rigid job. While nobody knows it, the job may be given every size of its
// range.
int LiveJob::logical_workers(const JobRecord& record) const {
  if (const int known = logical_workers_of(record); known > 0) return known;
  if (profile_.logical_workers() > 0) return profile_.logical_workers();
  return std::max(1, document_.max_devices);
}

bool LiveJob::may_forget_cap(double now) const {
  return capped_since_ > 0 && now - capped_since_ >= Profile::kSlowerForgotten &&
         profile_.largest_useful(now) == 0;
}

void LiveJob::cap(int devices, DeviceLimit limit) {
  if (spec_.max_devices <= devices) return;
  spec_.max_devices = devices;
  spec_.limit = limit;
}

void LiveJob::refresh(const JobRecord& record, Seconds now_s) {
  const std::int64_t batch_before = spec_.requested_batch;
  if (logical_workers_of(record) > 0) profile_.note_logical_workers(logical_workers_of(record));
  if (record.max_useful == 0) capped_since_ = 0;
  if (record.max_useful > 0 && capped_since_ == 0) capped_since_ = now_s;
  document_.priority = record.document.priority;
  // A job that lost its devices may get them back: it still knows how fast they were.
  if (type_.empty() || !record.nodes.empty()) {
    const std::string type = cluster_.type_of(record);
    if (!type_.empty() && type != type_) start_anew();
    type_ = type;
  }
  per_node_.clear();
  for (const NodeDevices& part : record.nodes) per_node_.push_back(part.devices);
  spec_ = {};
  spec_.id = JobId(static_cast<std::int32_t>(record.number));
  spec_.name = job_name_of(record.number);
  spec_.tenant = record.tenant;
  spec_.priority = document_.priority;
  spec_.mode = document_.mode;
  spec_.starts_over = document_.program == elastic::ProgramKind::kOpaque;
  spec_.one_node = cluster_.keeps_some_together() && !spans_nodes(document_);
  spec_.submit_s = record.submitted_at;
  spec_.application = profile_key(record, type_);
  spec_.power_of_two_sizes = document_.power_of_two_sizes;
  if (!document_.device_type.empty()) {
    const DeviceTypeId type = cluster_.cluster().find_type(document_.device_type);
    spec_.allowed_types = type.valid() ? 1U << static_cast<unsigned>(type.value) : 0;
  }
  const bool adaptive = spec_.mode == ElasticMode::kAdaptive;
  const int logical = logical_workers(record);
  const DeviceRange range = device_range(record);
  spec_.min_devices = range.low;
  if (spec_.power_of_two_sizes) {
    const auto size = static_cast<int>(std::bit_ceil(static_cast<unsigned>(range.low)));
    // The program may have said that it has too few logical workers for any such size.
    spec_.power_of_two_sizes = size <= range.high;
    if (spec_.power_of_two_sizes) spec_.min_devices = size;
  }
  spec_.max_devices = std::min(range.high, cluster_.most_devices(document_));
  if (!adaptive) cap(logical, DeviceLimit::kLogicalWorkers);
  if (range.high < document_.max_devices && spec_.max_devices == range.high) {
    spec_.limit = DeviceLimit::kLogicalWorkers;
  }
  const int useful = record.max_useful > 0 ? record.max_useful : profile_.largest_useful(now_s);
  if (useful > 0) cap(useful, DeviceLimit::kMeasured);
  spec_.max_devices = std::max(spec_.max_devices, spec_.min_devices);
  spec_.pinned_devices = pinned_devices(record, cluster_);
  // A pin counts more than what was measured.
  spec_.max_devices = std::max(spec_.max_devices, spec_.pinned_devices);
  const bool settling = record.granted > 0 && spec_.pinned_devices == 0 && now_s > 0 &&
                        now_s - record.started_at < document_.min_runtime_s;
  if (settling)
    spec_.min_devices = std::clamp(record.granted, spec_.min_devices, spec_.max_devices);
  spec_.requested_devices = spec_.min_devices;
  spec_.round_to_sizes();
  spec_.epochs = document_.epochs;
  if (total_steps() > 0 && steps_per_epoch() > 0) {
    spec_.epochs = static_cast<int>(std::clamp<std::int64_t>(
        (total_steps() + steps_per_epoch() - 1) / steps_per_epoch(), 1, kMostEpochs));
  } else if (total_steps() > 0 && spec_.epochs == 0) {
    spec_.epochs = 1;  // a program without epochs counts as a single one
  }
  if (adaptive) {
    if (document_.min_batch > 0) {
      spec_.batch = {
          .initial = document_.min_batch,
          .max = document_.max_batch,
          .min_local = std::max<std::int64_t>(1, document_.min_batch / spec_.max_devices),
          .max_local = document_.max_batch};
      spec_.requested_batch = document_.min_batch;
    }
  } else {
    // The batch never changes, so it is counted in shares of a logical worker. That number is known
    // before the first step.
    spec_.batch = {.initial = logical, .max = logical, .min_local = 1, .max_local = 1};
    spec_.requested_batch = logical;
    spec_.logical_workers = logical;
  }
  if (learned_ != nullptr && spec_.requested_batch != batch_before) {
    learned().restart(spec_.batch);  // it counts in batches of another size
    learn();
  }
}

Profile::News LiveJob::report(const LiveProgress& progress, double now, int nodes) {
  progress_ = progress;
  if (spec_.mode != ElasticMode::kAdaptive && progress.logical_workers > 0) {
    profile_.note_logical_workers(progress.logical_workers);
  }
  profile_.note_length(progress.total_steps, progress.steps_per_epoch,
                       progress.steps_per_epoch * progress.batch);
  if (progress.workers < 1 || progress.step_s <= 0 || progress.batch < 1) {
    return Profile::News::kNone;
  }
  const Profile::News news = profile_.note({.devices = progress.workers,
                                            .nodes = std::clamp(nodes, 1, progress.workers),
                                            .batch = progress.batch,
                                            .step_s = progress.step_s,
                                            .at = now});
  if (news != Profile::News::kNone) learn();
  return news;
}

void LiveJob::start_anew() {
  Profile fresh(profile_.logical_workers());
  fresh.note_length(profile_.total_steps(), profile_.steps_per_epoch(), profile_.samples());
  profile_ = std::move(fresh);
  speed_ = nullptr;
  if (learned_ != nullptr) learned().restart(spec_.batch);
}

Placement LiveJob::placement(int devices) const {
  const DeviceTypeId type = cluster_.cluster().find_type(type_);
  if (std::accumulate(per_node_.begin(), per_node_.end(), 0) == devices) return {type, per_node_};
  const int node_size = type.valid() ? cluster_.cluster().node_size(type) : devices;
  return Placement::packed(type, devices, std::max(1, node_size));
}

void LiveJob::learn() {
  if (profile_.empty()) return;
  speed_ = speed_of(profile_);
  if (!spec_.batch.known()) return;
  // Its revisions go on for as long as the job lives: policies remember what they have seen of it.
  LearnedModel& model = learned();
  if (!(model.limits() == spec_.batch)) model.restart(spec_.batch);
  const DeviceTypeId type = cluster_.cluster().find_type(type_);
  if (!type.valid()) return;
  for (const ProfilePoint& point : profile_.points()) {
    const std::int64_t local = spec_.logical_workers > 0
                                   ? spec_.batch.min_local
                                   : std::max<std::int64_t>(1, point.batch / point.devices);
    const StepTime time =
        speed_->step_time(Placement(type, split_evenly(point.devices, point.nodes)), local);
    model.report({.type = type,
                  .nodes = point.nodes,
                  .devices = point.devices,
                  .local = local,
                  .step_s = time.step_s,
                  .sync_s = time.sync_s,
                  .measurements = point.reports},
                 {});
  }
}

JobKnowledge LiveJob::knowledge() {
  if (learned_ == nullptr && spec_.batch.known()) {
    learned_ = std::make_shared<LearnedModel>(spec_.batch);
  }
  return {.profiled = speed_.get(),
          .learned = learned_.get(),
          .remaining = this,
          .progress = this,
          .resize_cost_s = start_cost()};
}

LearnedModel& LiveJob::learned() {
  if (learned_ == nullptr) {
    learned_ = std::make_shared<LearnedModel>(spec_.batch);
  } else if (learned_.use_count() > 1) {
    learned_ = std::make_shared<LearnedModel>(learned_->copy());
  }
  return *learned_;
}

KnownJob LiveJob::known() const {
  return {.progress =
              KnownProgress(epochs_done(0), samples_done(0), seconds_at_request(0), updates(0, 0)),
          .speed = speed_,
          .learned = learned_};
}

std::int64_t LiveJob::total_steps() const {
  return progress_.total_steps > 0 ? progress_.total_steps : profile_.total_steps();
}

std::int64_t LiveJob::steps_per_epoch() const {
  return progress_.total_steps > 0 ? progress_.steps_per_epoch : profile_.steps_per_epoch();
}

std::optional<std::int64_t> LiveJob::steps_left() const {
  if (total_steps() <= 0) return std::nullopt;
  return std::max<std::int64_t>(1, total_steps() - progress_.step);
}

Seconds LiveJob::step_s(int devices) const {
  if (speed_ == nullptr || devices < 1) return 0;
  const std::int64_t batch = progress_.batch > 0 ? progress_.batch : profile_.batch();
  const Placement where = placement(devices);
  if (profile_.logical_workers() > 0) {
    return profile_.whole_step(devices, where.nodes(), batch).step_s;
  }
  return speed_->step_time(where, std::max<std::int64_t>(1, batch / devices)).step_s;
}

std::optional<Seconds> LiveJob::seconds_left(int devices) const {
  const std::optional<std::int64_t> steps = steps_left();
  const Seconds each_s = step_s(devices);
  if (!steps || each_s <= 0) return std::nullopt;
  return static_cast<double>(*steps) * each_s;
}

Seconds LiveJob::start_cost() const { return profile_.resize_cost().value_or(kResizeCost); }

Seconds LiveJob::seconds_at_request(Seconds) const {
  return seconds_left(spec_.requested_devices).value_or(kUnknownLength);
}

double LiveJob::updates(std::int64_t, Seconds) const {
  return static_cast<double>(steps_left().value_or(kUnknownSteps));
}

double LiveJob::epochs_done(Seconds) const {
  const auto step = static_cast<double>(progress_.step);
  if (steps_per_epoch() > 0) return step / static_cast<double>(steps_per_epoch());
  return total_steps() > 0 ? spec_.epochs * step / static_cast<double>(total_steps()) : 0;
}

double LiveJob::samples_done(Seconds) const {
  if (progress_.samples_done > 0) return progress_.samples_done;
  return static_cast<double>(progress_.step * spec_.requested_batch);
}

}  // namespace rubato::control
