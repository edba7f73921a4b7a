#include "control/profile.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <tuple>

#include "base/json_text.h"
#include "base/sha256.h"
#include "base/stats.h"
#include "model/measured.h"

namespace rubato::control {

namespace {

constexpr double kNewShare = 0.25;
constexpr double kNotable = 0.1;
constexpr double kSlower = 1.05;
constexpr int kTrusted = 4;  // reports
constexpr int kMostReports = 1'000'000;
constexpr std::size_t kRecentChanges = 31;
constexpr Seconds kLongestChange = 3600;

// Micro-batches per step on the busiest of `devices`.
int hosted(int logical_workers, int devices) {
  return (logical_workers + devices - 1) / std::max(1, devices);
}

// Names of arguments that say nothing about speed.
constexpr std::array<std::string_view, 16> kBesideThePoint{
    "seed",   "lr",       "learning-rate", "name",      "run-name", "tag",
    "out",    "output",   "output-dir",    "out-dir",   "log",      "log-dir",
    "logdir", "save-dir", "save",          "experiment"};

// "--Learning_Rate=3" and "--learning-rate" both have the name "learning-rate"; a word that is no
// such argument has none.
std::string argument_name(std::string_view word) {
  if (!word.starts_with("--")) return "";
  std::string name(word.substr(2, word.find('=') - 2));
  for (char& c : name) c = c == '_' ? '-' : static_cast<char>(std::tolower(c));
  return name;
}

std::vector<std::string> arguments_that_matter(const std::vector<std::string>& run) {
  std::vector<std::string> kept;
  for (std::size_t i = 1; i < run.size(); ++i) {
    const std::string name = argument_name(run[i]);
    if (std::find(kBesideThePoint.begin(), kBesideThePoint.end(), name) == kBesideThePoint.end()) {
      kept.push_back(run[i]);
      continue;
    }
    const bool value_follows = run[i].find('=') == std::string::npos && i + 1 < run.size() &&
                               !run[i + 1].starts_with("--");
    if (value_follows) ++i;
  }
  return kept;
}

// The compute time of a micro-batch is the fastest one measured for any size. Everything that a
// size takes beyond that counts as synchronization, including any other effect that gets worse with
// more devices.
class LogicalSpeed final : public SpeedModel {
 public:
  explicit LogicalSpeed(const Profile& profile) : profile_(profile) {
    compute_s_ = std::numeric_limits<double>::infinity();
    for (const ProfilePoint& point : profile_.points()) {
      compute_s_ = std::min(compute_s_, point.step_s / hosted(workers(), point.devices));
    }
  }

  StepTime step_time(const Placement& placement, std::int64_t) const override {
    const int devices = std::max(1, placement.devices());
    const StepTime whole =
        profile_.whole_step(devices, std::max(1, placement.nodes()), profile_.batch());
    const Seconds sync_s = std::max(0.0, whole.step_s - hosted(workers(), devices) * compute_s_);
    return {.step_s = compute_s_ + sync_s, .sync_s = sync_s, .confidence = whole.confidence};
  }

 private:
  int workers() const { return profile_.logical_workers(); }
  Profile profile_;
  Seconds compute_s_ = 0;
};

}  // namespace

nlohmann::json profile_key_parts(const JobRecord& job, const std::string& machine_type) {
  const JobDocument& document = job.document;
  nlohmann::json parts = {
      {"tenant", job.tenant},
      {"device_type", document.device_type.empty() ? machine_type : document.device_type},
      {"mode", to_string(document.mode)},
      {"logical_workers", document.logical_workers}};
  if (!document.profile.empty()) {
    parts["profile"] = document.profile;
    return parts;
  }
  parts["program"] = document.run.empty() ? "" : document.run.front();
  parts["arguments"] = arguments_that_matter(document.run);
  parts["dir"] = document.dir;
  parts["env"] = nlohmann::json::array();
  for (const auto& [name, value] : document.env) parts["env"].push_back(name);
  return parts;
}

std::string profile_key(const JobRecord& job, const std::string& machine_type) {
  nlohmann::json what = profile_key_parts(job, machine_type);
  if (what.contains("env")) what["env"] = job.document.env;
  return sha256_hex(compact_json(what)).substr(0, 16);
}

Result<Profile> Profile::from_json(const nlohmann::json& json) {
  const auto number = [](const nlohmann::json& object, const char* name) {
    return object.is_object() && object.contains(name) && object[name].is_number()
               ? object[name].get<double>()
               : -1.0;
  };
  Profile profile;
  const double workers = number(json, "logical_workers");
  if (workers < 0 || workers > 1e6) return invalid_input("profile: logical_workers is missing");
  profile.logical_workers_ = static_cast<int>(workers);
  profile.note_length(static_cast<std::int64_t>(number(json, "total_steps")),
                      static_cast<std::int64_t>(number(json, "steps_per_epoch")),
                      static_cast<std::int64_t>(number(json, "samples")));
  if (!json.contains("points") || !json["points"].is_array()) {
    return invalid_input("profile: points is missing");
  }
  for (const nlohmann::json& row : json["points"]) {
    const ProfilePoint point{.devices = static_cast<int>(number(row, "devices")),
                             // Younger than the first profiles, which were of one machine.
                             .nodes = static_cast<int>(std::clamp(number(row, "nodes"), 1.0, 1e9)),
                             .batch = static_cast<std::int64_t>(number(row, "batch")),
                             .step_s = number(row, "step_s")};
    if (point.devices < 1 || point.nodes > point.devices || point.batch < 0 ||
        !(point.step_s > 0)) {
      return invalid_input(
          "profile: a point needs devices, batch and step_s, and no more nodes than devices");
    }
    profile.note(point);
  }
  if (json.contains("changes") && json["changes"].is_array()) {
    for (const nlohmann::json& seconds : json["changes"]) {
      if (seconds.is_number()) profile.note_change(seconds.get<double>());
    }
  }
  return profile;
}

nlohmann::json Profile::to_json() const {
  nlohmann::json rows = nlohmann::json::array();
  for (const ProfilePoint& point : points_) {
    rows.push_back({{"devices", point.devices},
                    {"nodes", point.nodes},
                    {"batch", point.batch},
                    {"step_s", point.step_s}});
  }
  return {{"logical_workers", logical_workers_}, {"total_steps", total_steps_},
          {"steps_per_epoch", steps_per_epoch_}, {"samples", samples_},
          {"points", std::move(rows)},           {"changes", changes_}};
}

Profile::News Profile::note(const ProfilePoint& point) {
  const auto before = [](const ProfilePoint& a, const ProfilePoint& b) {
    return std::tuple(a.batch, a.devices, a.nodes) < std::tuple(b.batch, b.devices, b.nodes);
  };
  const auto at = std::lower_bound(points_.begin(), points_.end(), point, before);
  const auto index = at - points_.begin();
  if (at == points_.end() || before(point, *at)) {
    points_.insert(at, point);
    told_.insert(told_.begin() + index, point.step_s);
    return News::kSize;
  }
  const bool warm_up = at->reports == 1 && at->at > 0;  // one from a stored profile is an average
  at->step_s += (warm_up ? 1.0 : kNewShare) * (point.step_s - at->step_s);
  at->reports = std::min(at->reports + 1, kMostReports);
  at->at = std::max(at->at, point.at);
  Seconds& told = told_[static_cast<std::size_t>(index)];
  if (at->reports != kTrusted && std::abs(at->step_s - told) <= kNotable * told) {
    return News::kNone;
  }
  told = at->step_s;
  return at->reports == kTrusted ? News::kSize : News::kMoved;
}

void Profile::note_length(std::int64_t total_steps, std::int64_t steps_per_epoch,
                          std::int64_t samples) {
  if (total_steps > 0) total_steps_ = total_steps;
  if (steps_per_epoch > 0) steps_per_epoch_ = steps_per_epoch;
  if (samples > 0) samples_ = samples;
}

void Profile::note_change(Seconds seconds) {
  if (!(seconds >= 0) || seconds > kLongestChange) return;
  if (changes_.size() >= kRecentChanges) changes_.erase(changes_.begin());
  changes_.push_back(seconds);
}

std::optional<Seconds> Profile::resize_cost() const {
  if (changes_.empty()) return std::nullopt;
  return percentile_sorted(sorted_copy(changes_), 50);
}

int Profile::largest_useful(double now) const {
  if (logical_workers_ == 0) return 0;  // an adaptive job's batch grows with its devices
  // From small to large: a size that is slower than the best smaller one does not help. Neither do
  // larger sizes, unless one of them is faster than all before it.
  Seconds best = std::numeric_limits<double>::infinity();
  int best_devices = 0;
  bool slower = false;
  for (auto point = points_.begin(); point != points_.end();) {
    const ProfilePoint* fastest = nullptr;  // of this size
    const ProfilePoint& first = *point;
    for (; point != points_.end() && point->devices == first.devices && point->batch == first.batch;
         ++point) {
      if (point->reports < kTrusted) continue;
      if (fastest == nullptr || point->step_s < fastest->step_s) fastest = &*point;
    }
    if (fastest == nullptr) continue;
    if (fastest->step_s < best) {
      best = fastest->step_s;
      best_devices = fastest->devices;
      slower = false;
    } else if (fastest->step_s > kSlower * best && now - fastest->at < kSlowerForgotten) {
      slower = true;
    }
  }
  return slower ? best_devices : 0;
}

StepTime Profile::whole_step(int devices, int nodes, std::int64_t batch) const {
  const auto counts = [&](const ProfilePoint& point) {
    return logical_workers_ > 0 || point.batch == batch;
  };
  int nearest = 0;
  for (const ProfilePoint& point : points_) {
    if (!counts(point)) continue;
    const auto distance = [&](int measured) { return std::abs(measured - nodes); };
    if (nearest == 0 || distance(point.nodes) < distance(nearest)) nearest = point.nodes;
  }
  const ProfilePoint* below = nullptr;
  const ProfilePoint* above = nullptr;
  for (const ProfilePoint& point : points_) {
    if (!counts(point) || point.nodes != nearest) continue;
    if (point.devices == devices && nearest == nodes)
      return {point.step_s, 0, Confidence::kMeasured};
    if (point.devices <= devices) below = &point;
    if (point.devices > devices && above == nullptr) above = &point;
  }
  if (below == nullptr && above == nullptr) return {};
  const auto scaled = [&](const ProfilePoint& from) {
    if (logical_workers_ == 0) return from.step_s * from.devices / devices;
    return from.step_s * hosted(logical_workers_, devices) / hosted(logical_workers_, from.devices);
  };
  if (below != nullptr && above != nullptr) {
    const double share = static_cast<double>(devices - below->devices) /
                         static_cast<double>(above->devices - below->devices);
    return {scaled(*below) + share * (scaled(*above) - scaled(*below)), 0,
            Confidence::kInterpolated};
  }
  return {scaled(below != nullptr ? *below : *above), 0, Confidence::kExtrapolated};
}

Profile known_profile(const State& state, const JobRecord& job, const std::string& machine_type) {
  return stored_profile(state, job.document, profile_key(job, machine_type));
}

Profile stored_profile(const State& state, const JobDocument& document, const std::string& key) {
  const auto known = state.profiles.find(key);
  if (known != state.profiles.end()) {
    Result<Profile> read = Profile::from_json(known->second);
    if (read.ok()) return std::move(*read);
  }
  return Profile(document.mode == ElasticMode::kAdaptive ? 0 : document.logical_workers);
}

std::vector<int> split_evenly(int devices, int nodes) {
  std::vector<int> per_node(static_cast<std::size_t>(nodes), devices / nodes);
  for (int i = 0; i < devices % nodes; ++i) ++per_node[static_cast<std::size_t>(i)];
  return per_node;
}

std::unique_ptr<SpeedModel> speed_of(const Profile& profile) {
  RUBATO_CHECK(!profile.empty(), "a speed model needs a measurement");
  if (profile.logical_workers() > 0) return std::make_unique<LogicalSpeed>(profile);
  std::vector<MeasuredRow> rows;
  for (const ProfilePoint& point : profile.points()) {
    rows.push_back({.per_node = split_evenly(point.devices, point.nodes),
                    .nodes = point.nodes,
                    .devices = point.devices,
                    .local = std::max<std::int64_t>(1, point.batch / point.devices),
                    .step_s = point.step_s,
                    .sync_s = 0});
  }
  return std::make_unique<MeasuredSpeed>(rows);
}

}  // namespace rubato::control
