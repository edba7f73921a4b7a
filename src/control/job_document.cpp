#include "control/job_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <map>

#include "base/text.h"
#include "control/document_node.h"
#include "control/job_fields.h"
#include "control/result_files.h"
#include "elastic/memory/board.h"

namespace rubato::control {

namespace {

using nlohmann::json;
using Kind = DocumentNode::Kind;

// Reads the fields of one document and remembers the location of each.
class FieldReader {
 public:
  Status read(const DocumentNode& map, const std::string& prefix) {
    if (map.kind != Kind::kMap) {
      return map.error(map.shown() + "; expected fields, such as " +
                       (prefix.empty() ? "run: ./train" : "{every: 30s, keep: 2}"));
    }
    for (const auto& entry : map.entries) {
      const std::string name = prefix + entry.name;
      if (const JobField* field = find(name)) {
        if (auto status = field->read(entry.value, document_); !status) return status;
        places_[field->name] = entry.value.place;
      } else if (is_group(name)) {
        if (auto status = read(entry.value, name + "."); !status) return status;
      } else {
        const std::vector<std::string> names = valid_names(prefix);
        return invalid_input(fmt::format("{}: unknown field{}; expected one of {}", entry.place,
                                         did_you_mean(entry.name, names), join(names, ", ")));
      }
    }
    return ok_status();
  }

  // Applies the rules between fields. This also fills in defaults that depend on other fields.
  Status check_rules(const DocumentNode& root) {
    JobDocument& d = document_;
    if (d.run.empty()) return root.error("`run` is missing; expected a program to run");
    if (const auto problem = job_name_problem(d.name); said("name") && !problem.empty()) {
      return error_at("name", fmt::format("'{}': {}", d.name, problem));
    }
    const bool adaptive = d.mode == ElasticMode::kAdaptive;
    const bool rigid = d.mode == ElasticMode::kRigid;
    for (const std::string_view name : {"batch", "lr_rule"}) {
      if (said(name) && !adaptive) {
        return error_at(name,
                        fmt::format("only for adaptive jobs; this job's mode is {}", mode_name(d)));
      }
    }
    const bool opaque = d.program == elastic::ProgramKind::kOpaque;
    if (said("checkpoint.to") && (adaptive || opaque)) {
      return error_at("checkpoint.to",
                      opaque
                          ? "an opaque job has no checkpoints of Rubato's"
                          : "not for adaptive jobs: what they compute depends on their nodes, so "
                            "a node that was given up must not write into the same folder");
    }
    for (const std::string_view name : {"retries", "grace"}) {
      if (said(name) && !opaque) {
        return error_at(name, fmt::format("only for opaque jobs; this job's mode is {}; others "
                                          "continue from their checkpoint",
                                          mode_name(d)));
      }
    }
    if (said("logical_workers") && opaque) {
      return error_at("logical_workers",
                      "only for consistent and rigid jobs; an opaque job has one process");
    }
    if (said("logical_workers") && adaptive) {
      return error_at("logical_workers",
                      "only for consistent and rigid jobs; an adaptive job has as many logical "
                      "workers as devices");
    }
    // Only a program that uses the runtime has logical workers.
    if (said("logical_workers")) d.program = elastic::ProgramKind::kRuntime;
    if (!said("devices")) {
      if (rigid) {
        d.max_devices = d.min_devices;
      } else if (said("logical_workers")) {
        d.max_devices = std::min(d.logical_workers, elastic::kMaxWorkers);
      }
    }
    if (rigid && d.min_devices != d.max_devices) {
      return error_at("devices", fmt::format("{}..{}; {} job takes a single number", d.min_devices,
                                             d.max_devices, opaque ? "an opaque" : "a rigid"));
    }
    if (d.logical_workers > 0 && d.logical_workers < d.max_devices) {
      const int least = std::min(d.min_devices, d.logical_workers);
      return error_at(
          "logical_workers",
          fmt::format("{0}; {0} logical worker{1} can use at most {0} of the {2} devices; write "
                      "devices: {3} or logical_workers: {2}",
                      d.logical_workers, d.logical_workers == 1 ? "" : "s", d.max_devices,
                      rigid || least == d.logical_workers
                          ? std::to_string(d.logical_workers)
                          : fmt::format("{}..{}", least, d.logical_workers)));
    }
    if (d.power_of_two_sizes && std::bit_ceil(static_cast<unsigned>(d.min_devices)) >
                                    static_cast<unsigned>(d.max_devices)) {
      return error_at(said("devices") ? "devices" : "sizes",
                      fmt::format("no power of two in {}..{}, but `sizes` is power_of_two",
                                  d.min_devices, d.max_devices));
    }
    return ok_status();
  }

  JobDocument take() { return std::move(document_); }

 private:
  static const JobField* find(std::string_view name) {
    const auto fields = job_fields();
    const auto found = std::find_if(fields.begin(), fields.end(),
                                    [&](const JobField& field) { return field.name == name; });
    return found == fields.end() ? nullptr : &*found;
  }
  static bool is_group(const std::string& name) {
    const auto fields = job_fields();
    return std::any_of(fields.begin(), fields.end(),
                       [&](const JobField& field) { return field.name.starts_with(name + "."); });
  }
  static std::vector<std::string> valid_names(const std::string& prefix) {
    std::vector<std::string> names;
    for (const JobField& field : job_fields()) {
      if (!field.name.starts_with(prefix)) continue;
      const std::string_view rest = field.name.substr(prefix.size());
      std::string name(rest.substr(0, rest.find('.')));
      if (names.empty() || names.back() != name) names.push_back(std::move(name));
    }
    return names;
  }
  bool said(std::string_view name) const { return places_.contains(name); }
  Error error_at(std::string_view name, const std::string& problem) const {
    return invalid_input(places_.find(name)->second + ": " + problem);
  }

  JobDocument document_;
  std::map<std::string_view, std::string> places_;
};

Result<JobDocument> read_document(const Result<DocumentNode>& root, bool with_rules) {
  if (!root) return root.error();
  FieldReader reader;
  if (auto status = reader.read(*root, ""); !status) return status.error();
  if (with_rules) {
    if (auto status = reader.check_rules(*root); !status) return status.error();
  }
  return reader.take();
}

// The object that contains a field, and the field's name in it.
std::pair<json*, std::string> slot(json& object, std::string_view name) {
  const std::size_t dot = name.find('.');
  if (dot == std::string_view::npos) return {&object, std::string(name)};
  return {&object[std::string(name.substr(0, dot))], std::string(name.substr(dot + 1))};
}

}  // namespace

Result<JobDocument> parse_job_yaml(std::string_view text, const std::string& file) {
  return read_document(document_from_yaml(text, file), true);
}

Result<JobDocument> parse_job_json(const json& object) {
  return read_document(document_from_json(object), true);
}

Result<JobDocument> stored_document(const json& object) {
  return read_document(document_from_json(object), false);
}

json to_json(const JobDocument& document) {
  json object = json::object();
  for (const JobField& field : job_fields()) {
    json value = field.write(document);
    if (value.is_null()) continue;
    const auto [parent, name] = slot(object, field.name);
    (*parent)[name] = std::move(value);
  }
  return object;
}

json job_schema() {
  json properties = json::object();
  for (const JobField& field : job_fields()) {
    json schema = field.schema();
    schema["description"] = field.help;
    if (json standard = field.write(JobDocument{}); !standard.is_null() && field.name != "run") {
      schema["default"] = std::move(standard);
    }
    const std::size_t dot = field.name.find('.');
    if (dot == std::string_view::npos) {
      properties[std::string(field.name)] = std::move(schema);
      continue;
    }
    json& group = properties[std::string(field.name.substr(0, dot))];
    group["type"] = "object";
    group["additionalProperties"] = false;
    group["properties"][std::string(field.name.substr(dot + 1))] = std::move(schema);
  }
  return {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
          {"title", "Rubato job"},
          {"type", "object"},
          {"required", {"run"}},
          {"additionalProperties", false},
          {"properties", std::move(properties)}};
}

std::string_view to_string(When when) {
  switch (when) {
    case When::kFinished:
      return "finished";
    case When::kFailed:
      return "failed";
    case When::kEnded:
      return "ended";
  }
  return "?";
}

std::optional<When> parse_when(std::string_view text) {
  for (const When when : {When::kFinished, When::kFailed, When::kEnded}) {
    if (text == to_string(when)) return when;
  }
  return std::nullopt;
}

Result<double> parse_duration(std::string_view text) {
  static constexpr std::array<std::pair<char, double>, 4> kUnits{
      {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}}};
  std::string_view number = text;
  double unit = 1;
  for (const auto& [letter, seconds] : kUnits) {
    if (text.ends_with(letter)) {
      unit = seconds;
      number.remove_suffix(1);
    }
  }
  const auto value = parse_double(number);
  if (!value || *value < 0) {
    return invalid_input(
        fmt::format("'{}' is not a duration; expected 90, 90s, 15m, 2h or 1d", text.substr(0, 40)));
  }
  return *value * unit;
}

std::string_view job_name_problem(std::string_view name) {
  if (name.find('/') != std::string_view::npos) return "a name must not contain '/'";
  if (name.starts_with('.')) return "a name must not start with '.'";
  if (name.starts_with('j') && name.size() > 1 &&
      name.find_first_not_of("0123456789", 1) == std::string_view::npos) {
    return "this is the id of a job; choose another name";
  }
  return "";
}

Result<JobDocument> with_changes(const JobDocument& document, const json& fields) {
  const std::vector<std::string> names(kChangeableFields.begin(), kChangeableFields.end());
  if (!fields.is_object() || fields.empty()) {
    return invalid_input("expected fields to change: " + join(names, ", "));
  }
  for (const auto& [name, value] : fields.items()) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    return invalid_input(fmt::format("/{}: cannot be changed while the job lives{}; these can: {}",
                                     name, did_you_mean(name, names), join(names, ", ")));
  }
  json checked = fields;
  checked["run"] = document.run;
  if (auto valid = parse_job_json(checked); !valid) return valid;
  json changed = to_json(document);
  changed.update(fields);
  return stored_document(changed);
}

std::string_view mode_name(const JobDocument& document) {
  return document.program == elastic::ProgramKind::kOpaque ? "opaque" : to_string(document.mode);
}

std::string outputs_of(const JobDocument& document) {
  return document.outputs.empty() ? std::string(kOutputs) : document.outputs;
}

std::string job_title(const JobDocument& document) {
  if (!document.name.empty() || document.run.empty()) return document.name;
  const std::string& program = document.run.front();
  return program.substr(program.find_last_of('/') + 1);
}

}  // namespace rubato::control
