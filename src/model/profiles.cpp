// Reads profile directories: the folders of the Pollux and Sia artifacts, and Rubato's own JSON
// files.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/csv.h"
#include "base/file.h"
#include "base/json_text.h"
#include "base/text.h"
#include "model/application.h"
#include "model/measured.h"

namespace rubato {

namespace {

// Facts about the artifacts' applications that are in their code but not in their folders.
struct ArtifactFact {
  std::string_view name;
  int epochs;
  std::int64_t max_local;  // 0: the largest that was measured
  bool one_device;         // fixed batch on one device
};
constexpr std::array<ArtifactFact, 6> kArtifactFacts{{{"bert", 2, 0, false},
                                                      {"cifar10", 100, 0, false},
                                                      {"ncf", 10, 0, true},
                                                      {"imagenet", 90, 0, false},
                                                      {"deepspeech2", 80, 0, false},
                                                      {"yolov3", 50, 8, false}}};

// File suffixes under which a device type was recorded, best first.
std::vector<std::string> suffixes_of(const std::string& type) {
  if (type == "gpu") return {""};
  if (type == "t4") return {"-t4", "-aws", ""};
  if (type == "a100") return {"-a100", "-dgx-ext"};
  return {"-" + type};
}

Result<BatchRecord> read_record(const std::string& path) {
  const auto table = CsvTable::read(path, {"progress", "iteration", "grad_sqr", "grad_var"});
  if (!table) return table.error();
  constexpr NumberRange kPositive{0, 1e300};
  BatchRecord record;
  double last_progress = 0;
  for (std::size_t row = 0; row < table->rows(); ++row) {
    std::array<double, 4> cell{};
    std::size_t i = 0;
    for (const char* name : {"progress", "iteration", "grad_sqr", "grad_var"}) {
      const auto value = table->number(row, table->column(name), kPositive);
      if (!value) return value.error();
      cell[i++] = *value;
    }
    if (cell[0] <= last_progress) {
      return table->error_at(row, table->column("progress"),
                             "expected a larger value than in the row before");
    }
    last_progress = cell[0];
    record.progress.push_back(cell[0]);
    record.iteration.push_back(cell[1]);
    record.noise.push_back({.squared_norm = cell[2], .variance = cell[3]});
  }
  if (record.progress.empty()) return invalid_input(path + ": no epoch recorded");
  return record;
}

Result<Application::Description> read_artifact_folder(const std::string& folder,
                                                      const std::string& name,
                                                      const Cluster& cluster) {
  Application::Description d{.name = name};
  const auto fact = std::find_if(kArtifactFacts.begin(), kArtifactFacts.end(),
                                 [&](const ArtifactFact& f) { return f.name == name; });
  const auto files = list_directory(folder);
  if (!files) return files.error();
  constexpr std::string_view kPrefix = "validation-";
  for (const std::string& file : *files) {
    if (!file.starts_with(kPrefix) || !file.ends_with(".csv")) continue;
    const std::string_view digits =
        std::string_view(file).substr(kPrefix.size(), file.size() - kPrefix.size() - 4);
    const auto batch = parse_int(digits);
    if (!batch || *batch < 1) {
      return invalid_input(fmt::format("{}/{}: expected validation-BATCH.csv", folder, file));
    }
    auto record = read_record(folder + "/" + file);
    if (!record) return record.error();
    d.records.emplace(*batch, std::move(*record));
  }
  if (d.records.empty()) return invalid_input(folder + ": no validation-BATCH.csv");

  for (std::size_t type = 0; type < cluster.type_count(); ++type) {
    std::shared_ptr<const SpeedModel> speed;
    for (const std::string& suffix : suffixes_of(cluster.type_name(DeviceTypeId(type)))) {
      const std::string placements = folder + "/placements" + suffix + ".csv";
      if (!is_file(placements)) continue;
      const std::string scalability = folder + "/scalability" + suffix + ".csv";
      auto measured = MeasuredSpeed::read(placements, is_file(scalability) ? scalability : "");
      if (!measured) return measured.error();
      const MeasuredSpeed& table = **measured;
      d.batch.min_local = d.batch.min_local == 0 ? table.min_local()
                                                 : std::min(d.batch.min_local, table.min_local());
      d.batch.max_local = std::max(d.batch.max_local, table.max_local());
      speed = std::move(*measured);
      break;
    }
    d.speed.push_back(std::move(speed));
  }
  if (fact != kArtifactFacts.end() && fact->max_local > 0) d.batch.max_local = fact->max_local;
  d.batch.initial = d.records.begin()->first;
  d.batch.max = d.records.rbegin()->first;
  std::size_t shortest = d.records.begin()->second.progress.size();
  for (const auto& [batch, record] : d.records) {
    shortest = std::min(shortest, record.progress.size());
  }
  d.epochs = static_cast<int>(shortest);
  if (fact != kArtifactFacts.end()) {
    if (fact->epochs > d.epochs) {
      return invalid_input(fmt::format("{}: {} epochs recorded; expected at least {}", folder,
                                       d.epochs, fact->epochs));
    }
    d.epochs = fact->epochs;
    if (fact->one_device) {
      d.fixed_batch = true;
      d.max_devices = 1;
    }
  }
  return d;
}

// Field access with errors that name the file and the field.
class JsonFields {
 public:
  JsonFields(std::string where, const nlohmann::json& object)
      : where_(std::move(where)), object_(object) {}

  Result<double> number(const char* name, NumberRange range) const {
    const auto found = object_.find(name);
    if (found == object_.end()) {
      return invalid_input(fmt::format("{}: field '{}' is missing", where_, name));
    }
    if (!found->is_number() || found->get<double>() < range.low ||
        found->get<double>() > range.high) {
      return invalid_input(fmt::format("{}: field '{}': expected a number from {} to {}", where_,
                                       name, range.low, range.high));
    }
    return found->get<double>();
  }
  Result<std::int64_t> whole(const char* name, NumberRange range) const {
    const auto value = number(name, range);
    if (!value) return value.error();
    if (*value != std::floor(*value)) {
      return invalid_input(fmt::format("{}: field '{}': expected a whole number from {} to {}",
                                       where_, name, range.low, range.high));
    }
    return static_cast<std::int64_t>(*value);
  }

 private:
  std::string where_;
  const nlohmann::json& object_;
};

Result<PerfParams> read_params(const std::string& where, const nlohmann::json& object) {
  PerfParams params;
  const JsonFields fields(where, object);
  constexpr NumberRange kTime{1e-9, 1e4};
  const std::array<std::pair<const char*, double*>, 6> times{{{"alpha_c", &params.alpha_c},
                                                              {"beta_c", &params.beta_c},
                                                              {"alpha_n", &params.alpha_n},
                                                              {"beta_n", &params.beta_n},
                                                              {"alpha_r", &params.alpha_r},
                                                              {"beta_r", &params.beta_r}}};
  for (const auto& [name, target] : times) {
    const auto value = fields.number(name, kTime);
    if (!value) return value.error();
    *target = *value;
  }
  const auto gamma = fields.number("gamma", {1, 10});
  if (!gamma) return gamma.error();
  params.gamma = *gamma;
  return params;
}

// The record of one total batch, computed from a noise scale that changes linearly from `first` to
// `last`.
BatchRecord synthesize(std::int64_t batch, std::int64_t initial, int epochs, double epoch_updates,
                       double first, double last) {
  BatchRecord record;
  double iterations = 0;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    const double at = epochs > 1 ? static_cast<double>(epoch) / (epochs - 1) : 0.0;
    const double scale = first + at * (last - first);
    const GradientNoise noise{.squared_norm = 1.0,
                              .variance = scale / static_cast<double>(initial)};
    iterations += epoch_updates /
                  update_gain(noise, static_cast<double>(batch) / static_cast<double>(initial));
    record.progress.push_back(epoch_updates * (epoch + 1));
    record.iteration.push_back(iterations);
    record.noise.push_back(noise);
  }
  return record;
}

Result<Application::Description> read_native_file(const std::string& path, const std::string& name,
                                                  const Cluster& cluster) {
  const auto text = read_file(path);
  if (!text) return text.error();
  const auto json = parse_json(*text);
  if (json.is_discarded() || !json.is_object()) {
    return invalid_input(path + ": not a JSON object");
  }
  // References, because copying is recursive and a hostile file may be deeply nested.
  const nlohmann::json nothing = nlohmann::json::object();
  const auto sub = [&](const char* field) -> const nlohmann::json& {
    const auto found = json.find(field);
    return found != json.end() && found->is_object() ? *found : nothing;
  };
  const nlohmann::json& batch_json = sub("batch");
  const nlohmann::json& noise_json = sub("noise_scale");
  const nlohmann::json& speed_json = sub("speed");
  Application::Description d{.name = name};

  constexpr NumberRange kBatch{1, 1e9};
  const JsonFields batch(path + ": batch", batch_json);
  const std::array<std::pair<const char*, std::int64_t*>, 4> limits{
      {{"initial", &d.batch.initial},
       {"max", &d.batch.max},
       {"min_local", &d.batch.min_local},
       {"max_local", &d.batch.max_local}}};
  for (const auto& [field, target] : limits) {
    const auto value = batch.whole(field, kBatch);
    if (!value) return value.error();
    *target = *value;
  }
  if (d.batch.initial > d.batch.max || d.batch.min_local > d.batch.max_local) {
    return invalid_input(path + ": batch: expected initial <= max and min_local <= max_local");
  }
  const JsonFields fields(path, json);
  const auto epochs = fields.whole("epochs", {1, 100'000});
  if (!epochs) return epochs.error();
  const auto updates = fields.number("updates_per_epoch", {1, 1e9});
  if (!updates) return updates.error();
  const JsonFields noise(path + ": noise_scale", noise_json);
  const auto first = noise.number("first", {0, 1e9});
  if (!first) return first.error();
  const auto last = noise.number("last", {0, 1e9});
  if (!last) return last.error();
  d.epochs = static_cast<int>(*epochs);
  for (std::int64_t total = d.batch.initial;; total = std::min(2 * total, d.batch.max)) {
    d.records.emplace(total, synthesize(total, d.batch.initial, d.epochs, *updates, *first, *last));
    if (total == d.batch.max) break;
  }
  bool anywhere = false;
  for (std::size_t type = 0; type < cluster.type_count(); ++type) {
    const std::string& type_name = cluster.type_name(DeviceTypeId(type));
    auto found = speed_json.find(type_name);
    if (found == speed_json.end()) found = speed_json.find("*");
    if (found == speed_json.end()) {
      d.speed.push_back(nullptr);
      continue;
    }
    const auto params = read_params(fmt::format("{}: speed of '{}'", path, type_name), *found);
    if (!params) return params.error();
    d.speed.push_back(std::make_shared<ParametricSpeed>(*params));
    anywhere = true;
  }
  if (const nlohmann::json slower_json = sub("portable_slowdown"); !slower_json.empty()) {
    const JsonFields slower(path + ": portable_slowdown", slower_json);
    for (std::size_t type = 0; type < cluster.type_count(); ++type) {
      const std::string& type_name = cluster.type_name(DeviceTypeId(type));
      const char* field = slower_json.contains(type_name) ? type_name.c_str() : "*";
      const auto factor =
          slower_json.contains(field) ? slower.number(field, {1, 100}) : Result<double>(1.0);
      if (!factor) return factor.error();
      d.portable_slowdown.push_back(*factor);
    }
  }
  if (!anywhere && speed_json.empty()) return invalid_input(path + ": field 'speed' is missing");
  return d;
}

}  // namespace

Result<Applications> read_profiles(const std::string& directory, const Cluster& cluster) {
  const auto entries = list_directory(directory);
  if (!entries) return entries.error();
  Applications applications;
  for (const std::string& entry : *entries) {
    const std::string path = directory + "/" + entry;
    const bool folder = is_directory(path);
    if (!folder && !entry.ends_with(".json")) continue;
    const std::string name = folder ? entry : entry.substr(0, entry.size() - 5);
    auto description =
        folder ? read_artifact_folder(path, name, cluster) : read_native_file(path, name, cluster);
    if (!description) return description.error();
    applications.emplace(name, std::make_shared<const Application>(std::move(*description)));
  }
  if (applications.empty()) {
    return invalid_input(
        directory +
        ": no application profile; expected folders with placements.csv or NAME.json files");
  }
  return applications;
}

}  // namespace rubato
