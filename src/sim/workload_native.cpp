// Rubato's own format: JSON lines, one job each.
#include <fmt/format.h>

#include <unordered_map>

#include "base/file.h"
#include "base/located_json.h"
#include "base/names.h"
#include "base/text.h"
#include "sim/workload_readers.h"

namespace rubato {

namespace {

using nlohmann::json;

const std::vector<std::string>& job_fields() {
  static const std::vector<std::string> kFields{
      "id",         "submit_s", "application", "duration_s",  "mode",          "devices",
      "batch",      "tenant",   "priority",    "device_type", "resize_cost_s", "logical_workers",
      "mixes_types"};
  return kFields;
}

// One line of the file.
class JobLine {
 public:
  JobLine(const LocatedJson& line, const JobBuilder& builder) : line_(line), builder_(builder) {}

  std::optional<Error> read(WorkloadJob& job) {
    if (!line_.root().is_object()) {
      return line_.error_at("", "expected a JSON object, one job per line");
    }
    if (auto status = line_.only_fields(line_.root(), "", job_fields()); !status) {
      return status.error();
    }
    if (auto error = read_identity(job.spec)) return error;
    if (auto error = read_work()) return error;
    if (auto error = read_devices()) return error;
    const auto problem = builder_.build(request_, job);
    if (!problem) return std::nullopt;
    return line_.error_at(field_of(problem->field), problem->text);
  }

 private:
  const json* find(const char* name) const {
    const auto found = line_.root().find(name);
    return found == line_.root().end() ? nullptr : &*found;
  }

  static std::string_view field_of(JobProblem::Field field) {
    switch (field) {
      case JobProblem::Field::kApplication:
        return "application";
      case JobProblem::Field::kDeviceType:
        return "device_type";
      case JobProblem::Field::kMode:
        return "mode";
      case JobProblem::Field::kDevices:
        return "devices";
      case JobProblem::Field::kBatch:
        return "batch";
      case JobProblem::Field::kWorkers:
        return "logical_workers";
      case JobProblem::Field::kMixing:
        return "mixes_types";
    }
    return "";
  }

  // A field that must be a valid name if present.
  std::optional<Error> read_name(const char* field, std::string& target) const {
    const json* value = find(field);
    if (value == nullptr) return std::nullopt;
    auto text = line_.text(*value, field);
    if (!text) return text.error();
    if (const auto problem = name_problem(*text); !problem.empty()) {
      return line_.error_at(field, std::string(problem));
    }
    target = std::move(*text);
    return std::nullopt;
  }

  std::optional<Error> read_identity(JobSpec& spec) const {
    for (const char* required : {"id", "submit_s"}) {
      if (find(required) != nullptr) continue;
      return line_.error_at("", fmt::format("field '{}' is missing", required));
    }
    if (auto error = read_name("id", spec.name)) return error;
    if (auto error = read_name("tenant", spec.tenant)) return error;
    const auto submit = line_.number(*find("submit_s"), "submit_s", kTimeRange);
    if (!submit) return submit.error();
    spec.submit_s = *submit;
    if (const json* value = find("priority")) {
      const auto priority = line_.integer(*value, "priority", {-1e6, 1e6});
      if (!priority) return priority.error();
      spec.priority = static_cast<int>(*priority);
    }
    if (const json* value = find("resize_cost_s")) {
      const auto cost = line_.number(*value, "resize_cost_s", {0, 1e6});
      if (!cost) return cost.error();
      spec.resize_cost_s = *cost;
    }
    return std::nullopt;
  }

  std::optional<Error> read_work() {
    const json* application = find("application");
    const json* duration = find("duration_s");
    if ((application == nullptr) == (duration == nullptr)) {
      return line_.error_at(application != nullptr ? "duration_s" : "",
                            "expected exactly one of 'application' and 'duration_s'");
    }
    if (auto error = read_name("application", application_)) return error;
    request_.application = application_;
    if (duration != nullptr) {
      const auto seconds = line_.number(*duration, "duration_s", kDurationRange);
      if (!seconds) return seconds.error();
      request_.duration_s = *seconds;
    }
    if (const json* value = find("mode")) {
      const auto text = line_.text(*value, "mode");
      if (!text) return text.error();
      request_.mode = parse_elastic_mode(*text);
      if (!request_.mode) {
        return line_.error_at(
            "mode", fmt::format("expected consistent, adaptive or rigid, not {}", shown(*value)));
      }
    }
    if (const json* value = find("batch")) {
      const auto batch = line_.integer(*value, "batch", kBatchRange);
      if (!batch) return batch.error();
      request_.batch = *batch;
    }
    if (const json* value = find("logical_workers")) {
      if (auto error = read_count(*value, "logical_workers", request_.logical_workers)) {
        return error;
      }
    }
    if (const json* value = find("mixes_types")) {
      if (!value->is_boolean()) {
        return line_.error_at("mixes_types",
                              fmt::format("expected true or false, not {}", shown(*value)));
      }
      request_.mixes_types = value->get<bool>();
    }
    if (auto error = read_name("device_type", device_type_)) return error;
    request_.device_type = device_type_;
    return std::nullopt;
  }

  std::optional<Error> read_count(const json& value, const std::string& path, int& target) const {
    const auto count = line_.integer(value, path, kDeviceRange);
    if (!count) return count.error();
    target = static_cast<int>(*count);
    return std::nullopt;
  }

  std::optional<Error> read_devices() {
    const json* devices = find("devices");
    if (devices == nullptr) return std::nullopt;
    if (devices->is_number()) {
      return read_count(*devices, "devices", request_.requested_devices);
    }
    if (devices->is_string()) return read_range(devices->get<std::string>());
    if (!devices->is_object()) {
      return line_.error_at(
          "devices", fmt::format("expected a number, \"MIN..MAX\" or an object with min, max, "
                                 "requested, not {}",
                                 shown(*devices)));
    }
    static const std::vector<std::string> kFields{"min", "max", "requested"};
    if (auto status = line_.only_fields(*devices, "devices", kFields); !status) {
      return status.error();
    }
    int* const targets[] = {&request_.min_devices, &request_.max_devices,
                            &request_.requested_devices};
    for (std::size_t i = 0; i < kFields.size(); ++i) {
      const auto found = devices->find(kFields[i]);
      if (found == devices->end()) continue;
      if (auto error = read_count(*found, "devices." + kFields[i], *targets[i])) return error;
    }
    return std::nullopt;
  }

  std::optional<Error> read_range(std::string_view text) {
    const std::size_t dots = text.find("..");
    if (dots != std::string_view::npos) {
      const auto low = parse_int(text.substr(0, dots));
      const auto high = parse_int(text.substr(dots + 2));
      constexpr auto kMost = static_cast<std::int64_t>(kDeviceRange.high);
      if (low && high && *low >= 1 && *low <= *high && *high <= kMost) {
        request_.min_devices = static_cast<int>(*low);
        request_.max_devices = static_cast<int>(*high);
        return std::nullopt;
      }
    }
    return line_.error_at(
        "devices", fmt::format("expected \"MIN..MAX\" with whole numbers from 1 to {}, not {}",
                               kDeviceRange.high, shown(std::string(text))));
  }

  const LocatedJson& line_;
  const JobBuilder& builder_;
  JobRequest request_;
  std::string application_;
  std::string device_type_;
};

}  // namespace

Result<std::vector<WorkloadJob>> read_native(const std::string& path, const JobBuilder& builder) {
  const auto content = read_file(path);
  if (!content) return content.error();
  if (content->empty()) return invalid_input(path + ":1:1: the file is empty; expected JSON lines");

  std::vector<WorkloadJob> jobs;
  std::unordered_map<std::string, std::size_t> line_of_name;
  std::string_view rest = *content;
  for (std::size_t number = 1; !rest.empty(); ++number) {
    const std::size_t end = rest.find('\n');
    const bool last = end == std::string_view::npos;
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(last ? rest.size() : end + 1);
    if (line.size() > kLongestLine) {
      return invalid_input(fmt::format("{}:{}:1: the line has {} characters; expected at most {}",
                                       path, number, line.size(), kLongestLine));
    }
    if (trim(line).empty()) continue;
    const auto parsed = LocatedJson::parse(path, line, number);
    if (!parsed) {
      Error error = parsed.error();
      if (last) error.message += " (the file ends with this line: is it truncated?)";
      return error;
    }
    WorkloadJob job;
    if (auto error = JobLine(*parsed, builder).read(job)) return std::move(*error);
    const auto [first, fresh] = line_of_name.emplace(job.spec.name, number);
    if (!fresh) {
      return parsed->error_at("id", fmt::format("duplicate of the job on line {}; expected a "
                                                "unique id",
                                                first->second));
    }
    jobs.push_back(std::move(job));
  }
  return jobs;
}

}  // namespace rubato
