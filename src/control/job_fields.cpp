#include "control/job_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

#include "base/names.h"
#include "base/text.h"
#include "control/arrays.h"
#include "control/dependencies.h"
#include "control/labels.h"
#include "control/result_files.h"
#include "control/shell_words.h"
#include "control/upload_unpack.h"
#include "elastic/job/checkpoint_place.h"
#include "elastic/memory/board.h"

namespace rubato::control {

namespace {

using nlohmann::json;
using Kind = DocumentNode::Kind;

constexpr std::size_t kMostWords = 1024;
constexpr std::size_t kMostVariables = 256;
constexpr std::size_t kLongestPath = 4096;
constexpr double kLongestDuration = 365 * 86400.0;

struct Limits {
  std::int64_t low;
  std::int64_t high;
};
constexpr Limits kDevices{1, elastic::kMaxWorkers};
constexpr Limits kLogicalWorkers{1, 65536};
constexpr Limits kBatch{1, 1'000'000'000};
constexpr Limits kPriority{-1000, 1000};
constexpr Limits kEpochs{1, 1'000'000'000};
constexpr Limits kKeep{1, 1000};
constexpr Limits kRetries{0, 1000};
constexpr double kShortestTimeLimit = 1;
constexpr double kShortestCheckpoint = 0.01;
constexpr Limits kMemory{16'000'000, 1LL << 50};
constexpr double kLeastCpus = 0.01;
constexpr double kMostCpus = 65536;

Error expected(const DocumentNode& node, const std::string& what) {
  return node.error(fmt::format("{}; expected {}", node.shown(), what));
}

bool is_text(const DocumentNode& node) {
  return node.kind == Kind::kPlain || node.kind == Kind::kText;
}
bool is_number(const DocumentNode& node) {
  return node.kind == Kind::kPlain || node.kind == Kind::kNumber;
}

Result<std::int64_t> read_integer(const DocumentNode& node, Limits limits) {
  const auto value = is_number(node) ? parse_int(node.text) : std::nullopt;
  if (value && *value >= limits.low && *value <= limits.high) return *value;
  return expected(node, fmt::format("a whole number from {} to {}", limits.low, limits.high));
}

Status read_int(const DocumentNode& node, Limits limits, int& out) {
  const auto value = read_integer(node, limits);
  if (!value) return value.error();
  out = static_cast<int>(*value);
  return ok_status();
}

// N or LOW..HIGH.
Result<Limits> read_range(const DocumentNode& node, Limits limits) {
  const std::string what = fmt::format("a whole number or a range such as 2..16, from {} to {}",
                                       limits.low, limits.high);
  if (!is_text(node) && !is_number(node)) return expected(node, what);
  const std::string_view text = node.text;
  const std::size_t dots = text.find("..");
  const auto low = parse_int(trim(text.substr(0, dots)));
  const auto high = dots == std::string_view::npos ? low : parse_int(trim(text.substr(dots + 2)));
  if (!low || !high || *low < limits.low || *high > limits.high) return expected(node, what);
  if (*low > *high) return expected(node, fmt::format("a range, such as {}..{}", *high, *low));
  return Limits{*low, *high};
}

Status read_name(const DocumentNode& node, std::string& out) {
  if (!is_text(node)) return expected(node, "a string");
  if (const auto problem = name_problem(node.text); !problem.empty()) {
    return node.error(fmt::format("{}; {}", node.shown(), problem));
  }
  out = node.text;
  return ok_status();
}

Status read_seconds(const DocumentNode& node, double low, double& out) {
  const std::string what = fmt::format("a duration such as 90, 90s, 15m, 2h or 1d, from {} to {} s",
                                       low, kLongestDuration);
  if (!is_text(node) && !is_number(node)) return expected(node, what);
  const auto seconds = parse_duration(node.text);
  if (!seconds || *seconds < low || *seconds > kLongestDuration) return expected(node, what);
  out = *seconds;
  return ok_status();
}

Status read_flag(const DocumentNode& node, std::optional<bool>& out) {
  const bool flag = node.kind == Kind::kFlag || node.kind == Kind::kPlain;
  if (!flag || (node.text != "true" && node.text != "false")) {
    return expected(node, "true or false");
  }
  out = node.text == "true";
  return ok_status();
}

template <typename Value>
struct Choice {
  std::string_view name;
  Value value;
};

template <typename Value, std::size_t N>
Status read_choice(const DocumentNode& node, const std::array<Choice<Value>, N>& choices,
                   Value& out) {
  std::vector<std::string> names;
  for (const auto& choice : choices) {
    if (is_text(node) && node.text == choice.name) {
      out = choice.value;
      return ok_status();
    }
    names.emplace_back(choice.name);
  }
  return expected(node, join(names, " | ") + (is_text(node) ? did_you_mean(node.text, names) : ""));
}

template <typename Value, std::size_t N>
json choices_schema(const std::array<Choice<Value>, N>& choices) {
  json names = json::array();
  for (const auto& choice : choices) names.push_back(choice.name);
  return {{"enum", std::move(names)}};
}

template <typename Value, std::size_t N>
std::string_view choice_name(const std::array<Choice<Value>, N>& choices, Value value) {
  return std::find_if(choices.begin(), choices.end(),
                      [&](const auto& choice) { return choice.value == value; })
      ->name;
}

struct Mode {
  ElasticMode elastic = ElasticMode::kConsistent;
  elastic::ProgramKind program = elastic::ProgramKind::kRuntime;
};
constexpr std::array kModes{
    Choice<Mode>{"consistent", {}}, Choice<Mode>{"adaptive", {.elastic = ElasticMode::kAdaptive}},
    Choice<Mode>{"rigid", {.elastic = ElasticMode::kRigid}},
    Choice<Mode>{"opaque",
                 {.elastic = ElasticMode::kRigid, .program = elastic::ProgramKind::kOpaque}}};
constexpr std::array kSizes{Choice<bool>{"any", false}, Choice<bool>{"power_of_two", true}};
constexpr std::array kRules{Choice<LearningRateRule>{"linear", LearningRateRule::kLinear},
                            Choice<LearningRateRule>{"sqrt", LearningRateRule::kSqrt},
                            Choice<LearningRateRule>{"none", LearningRateRule::kNone}};

json integer_schema(Limits limits) {
  return {{"type", "integer"}, {"minimum", limits.low}, {"maximum", limits.high}};
}
json range_schema(Limits limits) {
  json integer = integer_schema(limits);
  return {{"anyOf",
           {std::move(integer), {{"type", "string"}, {"pattern", R"(^[0-9]+(\.\.[0-9]+)?$)"}}}}};
}
json text_schema(std::size_t longest) {
  return {{"type", "string"}, {"minLength", 1}, {"maxLength", longest}};
}
// A word of `run` or the value of a variable. A number stands for its text.
json word_schema() { return {{"type", {"string", "number"}}}; }
json name_schema() {
  json schema = text_schema(200);
  schema["pattern"] = R"(^[ !#-+\--\[\]-~]*$)";
  return schema;
}
// As name_schema(), without '/' and, at the beginning, '.'.
json job_name_schema() {
  json schema = text_schema(200);
  schema["pattern"] = R"(^(?!j[0-9]+$)(?!\.)[ !#-+\-.0-\[\]-~]*$)";
  return schema;
}
json duration_schema(double low) {
  return {{"anyOf",
           {{{"type", "number"}, {"minimum", low}, {"maximum", kLongestDuration}},
            {{"type", "string"}, {"pattern", R"(^[0-9]+(\.[0-9]+)?[smhd]?$)"}}}}};
}

json range_json(std::int64_t low, std::int64_t high) {
  if (low == high) return low;
  return fmt::format("{}..{}", low, high);
}
json unless_empty(const std::string& text) { return text.empty() ? json() : json(text); }
json unless_zero(std::int64_t value) { return value == 0 ? json() : json(value); }

Status read_run(const DocumentNode& node, JobDocument& document) {
  const auto problem = [&](const std::string& what) { return Status(expected(node, what)); };
  if (node.kind == Kind::kList) {
    document.run.clear();
    for (const DocumentNode& item : node.items) {
      if (!is_text(item) && item.kind != Kind::kNumber) return expected(item, "a word");
      document.run.push_back(item.text);
    }
  } else if (is_text(node)) {
    auto words = shell_words(node.text);
    if (!words) return node.error(words.error().message);
    document.run = std::move(*words);
  } else {
    return problem("a program with its arguments, as a list or as one line");
  }
  if (document.run.size() > kMostWords) {
    return node.error(
        fmt::format("{} words; expected at most {}", document.run.size(), kMostWords));
  }
  if (document.run.empty() || document.run.front().empty()) {
    return problem("a program with its arguments, as a list or as one line");
  }
  return ok_status();
}

Status read_dir(const DocumentNode& node, JobDocument& document) {
  if (!is_text(node) || node.text.empty() || node.text.size() > kLongestPath) {
    return expected(node, fmt::format("the path of a folder, at most {} bytes", kLongestPath));
  }
  document.dir = node.text;
  return ok_status();
}

Status read_outputs(const DocumentNode& node, JobDocument& document) {
  const std::string_view problem =
      is_text(node) ? outputs_problem(node.text) : "expected the name of a folder, such as results";
  if (!problem.empty()) return node.error(fmt::format("{}; {}", node.shown(), problem));
  document.outputs = node.text;
  return ok_status();
}

Status read_upload(const DocumentNode& node, JobDocument& document) {
  if (!is_text(node) || (!is_digest(node.text) && !parse_upload(node.text))) {
    return expected(node, "the SHA-256 of an upload, as 'rubato submit --upload' sends it");
  }
  document.upload = node.text;
  return ok_status();
}

bool is_variable_name(std::string_view name) {
  const auto fits = [](char c) {
    return (std::isalnum(static_cast<unsigned char>(c)) != 0) || c == '_';
  };
  return !name.empty() && name.size() <= 200 &&
         std::isdigit(static_cast<unsigned char>(name.front())) == 0 &&
         std::all_of(name.begin(), name.end(), fits);
}

Status read_env(const DocumentNode& node, JobDocument& document) {
  if (node.kind != Kind::kMap) return expected(node, "variables, such as {SEED: 1}");
  if (node.entries.size() > kMostVariables) {
    return node.error(
        fmt::format("{} variables; expected at most {}", node.entries.size(), kMostVariables));
  }
  document.env.clear();
  for (const auto& entry : node.entries) {
    if (!is_variable_name(entry.name)) {
      return invalid_input(entry.place +
                           ": expected a name of letters, digits and _, not starting with a digit");
    }
    if (!is_text(entry.value) && entry.value.kind != Kind::kNumber) {
      return expected(entry.value, "a string");
    }
    document.env[entry.name] = entry.value.text;
  }
  return ok_status();
}

Status read_mode(const DocumentNode& node, JobDocument& document) {
  Mode mode;
  Status read = read_choice(node, kModes, mode);
  if (!read.ok()) return read;
  document.mode = mode.elastic;
  document.program = mode.program;
  return ok_status();
}

// Left out if the owner did not give it: then the program may be an ordinary one.
json write_mode(const JobDocument& document) {
  const bool stated = document.program != elastic::ProgramKind::kUnknown ||
                      document.mode != ElasticMode::kConsistent;
  return stated ? json(mode_name(document)) : json();
}

bool is_opaque(const JobDocument& document) {
  return document.program == elastic::ProgramKind::kOpaque;
}

Status read_env_from(const DocumentNode& node, JobDocument& document) {
  constexpr std::string_view kScheme = "file:";
  if (node.kind != Kind::kMap) return expected(node, "variables, such as {TOKEN: file:/path}");
  if (node.entries.size() > kMostVariables) {
    return node.error(
        fmt::format("{} variables; expected at most {}", node.entries.size(), kMostVariables));
  }
  document.env_from.clear();
  for (const auto& entry : node.entries) {
    if (!is_variable_name(entry.name)) {
      return invalid_input(entry.place +
                           ": expected a name of letters, digits and _, not starting with a digit");
    }
    const std::string& text = entry.value.text;
    if (!is_text(entry.value) || !text.starts_with(kScheme) || text.size() > kLongestPath ||
        text.find('/') != kScheme.size()) {
      return expected(entry.value, "file: and an absolute path, such as file:/home/me/token");
    }
    document.env_from[entry.name] = text;
  }
  return ok_status();
}

Status read_checkpoint_to(const DocumentNode& node, JobDocument& document) {
  if (!is_text(node) || node.text.size() > kLongestPath ||
      !elastic::parse_checkpoint_place(node.text).ok()) {
    return expected(node, "file: and an absolute path, such as file:/shared/checkpoints");
  }
  document.checkpoint_to = node.text;
  return ok_status();
}

// Bytes as people write them: 1000000, 512MB, 16GiB.
std::optional<std::int64_t> parse_bytes(std::string_view text) {
  struct Unit {
    std::string_view name;
    std::int64_t bytes;
  };
  static constexpr std::array<Unit, 8> kUnits{
      Unit{"KB", 1'000},         Unit{"MB", 1'000'000},
      Unit{"GB", 1'000'000'000}, Unit{"TB", 1'000'000'000'000},
      Unit{"KiB", 1LL << 10},    Unit{"MiB", 1LL << 20},
      Unit{"GiB", 1LL << 30},    Unit{"TiB", 1LL << 40}};
  std::int64_t unit = 1;
  for (const Unit& one : kUnits) {
    if (!text.ends_with(one.name)) continue;
    unit = one.bytes;
    text.remove_suffix(one.name.size());
    break;
  }
  const auto number = parse_int(text);
  if (!number || *number < 0 || *number > kMemory.high / unit) return std::nullopt;
  return *number * unit;
}

Status read_memory(const DocumentNode& node, JobDocument& document) {
  const auto bytes =
      is_text(node) || is_number(node) ? parse_bytes(node.text) : std::optional<std::int64_t>();
  if (!bytes || *bytes < kMemory.low || *bytes > kMemory.high) {
    return expected(node, "bytes such as 512MB or 16GiB, at least 16MB");
  }
  document.memory_bytes = *bytes;
  return ok_status();
}

Status read_cpus(const DocumentNode& node, JobDocument& document) {
  const auto value =
      is_number(node) || is_text(node) ? parse_double(node.text) : std::optional<double>();
  if (!value || !(*value >= kLeastCpus) || *value > kMostCpus) {
    return expected(node, fmt::format("a number from {} to {}", kLeastCpus, kMostCpus));
  }
  document.cpus = *value;
  return ok_status();
}

Status read_devices(const DocumentNode& node, JobDocument& document) {
  const auto range = read_range(node, kDevices);
  if (!range) return range.error();
  document.min_devices = static_cast<int>(range->low);
  document.max_devices = static_cast<int>(range->high);
  return ok_status();
}

Status read_batch(const DocumentNode& node, JobDocument& document) {
  const auto range = read_range(node, kBatch);
  if (!range) return range.error();
  document.min_batch = range->low;
  document.max_batch = range->high;
  return ok_status();
}

// clang-format off
constexpr std::array kFields{
    JobField{"run", "list of words, or one line", "(required)",
             "The program and its arguments. A single line is split into words as in a shell (quotes, backslash), "
             "but there is no shell: nothing is expanded.",
             read_run, [](const JobDocument& d) { return json(d.run); },
             [] {
               return json{{"anyOf", {{{"type", "array"}, {"items", word_schema()}, {"minItems", 1},
                                       {"maxItems", kMostWords}},
                                      {{"type", "string"}, {"minLength", 1}}}}};
             }},
    JobField{"name", "string", "the program's name",
             "Name shown to people; need not be unique. Printable ASCII without comma, quote, backslash and slash; must not "
             "start with a dot or be an id such as j12.",
             [](const DocumentNode& n, JobDocument& d) { return read_name(n, d.name); },
             [](const JobDocument& d) { return unless_empty(d.name); }, job_name_schema},
    JobField{"dir", "path", "where `rubato submit` runs",
             "Working directory of the program. Over HTTP it must be absolute.",
             read_dir, [](const JobDocument& d) { return unless_empty(d.dir); },
             [] { return text_schema(kLongestPath); }},
    JobField{"upload", "SHA-256 of a list of files", "none",
             "The program's working directory is made of files that were sent to the daemon before; `rubato submit --upload` sends "
             "them and fills this in. Not together with `dir`.",
             read_upload, [](const JobDocument& d) { return unless_empty(d.upload); },
             [] { return text_schema(200); }},
    JobField{"outputs", "path below the job's folder", "outputs",
             "Folder for what is to be kept: the program finds its path in `RUBATO_OUTPUT_DIR`, and `rubato cp JOB: DIR` fetches "
             "its contents. It exists when the program starts.",
             read_outputs, [](const JobDocument& d) { return unless_empty(d.outputs); },
             [] { return text_schema(kLongestPath); }},
    JobField{"env", "names with values", "none",
             "Variables added to the program's environment, at most 256.",
             read_env, [](const JobDocument& d) { return d.env.empty() ? json() : json(d.env); },
             [] {
               return json{{"type", "object"}, {"maxProperties", kMostVariables},
                           {"propertyNames", {{"pattern", "^[A-Za-z_][A-Za-z0-9_]{0,199}$"}}},
                           {"additionalProperties", word_schema()}};
             }},
    JobField{"tenant", "string", "the tenant of the token",
             "The tenant whose share the job uses. Only an administrator may name another tenant.",
             [](const DocumentNode& n, JobDocument& d) { return read_name(n, d.tenant); },
             [](const JobDocument& d) { return unless_empty(d.tenant); }, name_schema},
    JobField{"priority", "whole number", "0",
             "Larger is more urgent, whatever the policy: a job never waits for devices that jobs of lower priority hold; it stops "
             "them. Compares jobs of the same tenant.",
             [](const DocumentNode& n, JobDocument& d) { return read_int(n, kPriority, d.priority); },
             [](const JobDocument& d) { return json(d.priority); }, [] { return integer_schema(kPriority); }},
    JobField{"mode", "consistent \\| adaptive \\| rigid \\| opaque", "consistent, if the program uses the runtime",
             "consistent: any number of devices in the range, always the same result. adaptive: the batch may change too. "
             "rigid: a fixed number of devices. opaque: any program, on a fixed number of devices; its exit code counts.",
             read_mode, write_mode, [] { return choices_schema(kModes); }},
    JobField{"devices", "N or LOW..HIGH", "1..8; 1..`logical_workers` if that is given; 1 for a rigid or opaque job",
             "How many devices the job can use. A single number sets both limits; a rigid or opaque job takes a single number.",
             read_devices, [](const JobDocument& d) { return range_json(d.min_devices, d.max_devices); },
             [] { return range_schema(kDevices); }},
    JobField{"sizes", "any \\| power_of_two", "any", "Which numbers of devices within the range the program can use.",
             [](const DocumentNode& n, JobDocument& d) { return read_choice(n, kSizes, d.power_of_two_sizes); },
             [](const JobDocument& d) { return json(choice_name(kSizes, d.power_of_two_sizes)); },
             [] { return choices_schema(kSizes); }},
    JobField{"logical_workers", "whole number", "the program's own number",
             "Units of data parallelism of a consistent or rigid job: they decide the result, devices only the speed. "
             "A job can use at most as many devices as it has logical workers.",
             [](const DocumentNode& n, JobDocument& d) { return read_int(n, kLogicalWorkers, d.logical_workers); },
             [](const JobDocument& d) { return unless_zero(d.logical_workers); }, [] { return integer_schema(kLogicalWorkers); }},
    JobField{"batch", "N or LOW..HIGH", "the program's own",
             "Total batch of an adaptive job. The scheduler chooses within a range.",
             read_batch, [](const JobDocument& d) { return d.max_batch == 0 ? json() : range_json(d.min_batch, d.max_batch); },
             [] { return range_schema(kBatch); }},
    JobField{"lr_rule", "linear \\| sqrt \\| none", "linear",
             "How the learning rate of an adaptive job follows its batch.",
             [](const DocumentNode& n, JobDocument& d) { return read_choice(n, kRules, d.lr_rule); },
             [](const JobDocument& d) {
               return d.mode == ElasticMode::kAdaptive ? json(choice_name(kRules, d.lr_rule)) : json();
             },
             [] { return choices_schema(kRules); }},
    JobField{"epochs", "whole number", "unknown", "Expected number of epochs, used only to estimate the end; the program decides.",
             [](const DocumentNode& n, JobDocument& d) { return read_int(n, kEpochs, d.epochs); },
             [](const JobDocument& d) { return unless_zero(d.epochs); }, [] { return integer_schema(kEpochs); }},
    JobField{"min_runtime", "duration", "0", "Once started, the job keeps its devices at least this long.",
             [](const DocumentNode& n, JobDocument& d) { return read_seconds(n, 0, d.min_runtime_s); },
             [](const JobDocument& d) { return json(d.min_runtime_s); }, [] { return duration_schema(0); }},
    JobField{"time_limit", "duration", "none",
             "How long the job may hold devices, all its runs together. Then it is stopped and has failed; its last checkpoint is kept.",
             [](const DocumentNode& n, JobDocument& d) { return read_seconds(n, kShortestTimeLimit, d.time_limit_s); },
             [](const JobDocument& d) { return d.time_limit_s > 0 ? json(d.time_limit_s) : json(); },
             [] { return duration_schema(kShortestTimeLimit); }},
    JobField{"retries", "whole number", "0",
             "How often an opaque job is tried again after its program has failed, with growing pauses.",
             [](const DocumentNode& n, JobDocument& d) { return read_int(n, kRetries, d.retries); },
             [](const JobDocument& d) { return is_opaque(d) ? json(d.retries) : json(); }, [] { return integer_schema(kRetries); }},
    JobField{"grace", "duration", "30s",
             "How long the program of an opaque job has between SIGTERM and SIGKILL when it is preempted, paused or cancelled.",
             [](const DocumentNode& n, JobDocument& d) { return read_seconds(n, 0, d.grace_s); },
             [](const JobDocument& d) { return is_opaque(d) ? json(d.grace_s) : json(); }, [] { return duration_schema(0); }},
    JobField{"encrypt", "true \\| false", "false; true in a cluster with TLS or with `--encrypt-jobs`",
             "Whether workers encrypt what they send each other between nodes. Needs OpenSSL's libcrypto on every node.",
             [](const DocumentNode& n, JobDocument& d) { return read_flag(n, d.encrypt); },
             [](const JobDocument& d) { return d.encrypt ? json(*d.encrypt) : json(); }, [] { return json{{"type", "boolean"}}; }},
    JobField{"checkpoint.every", "duration", "30s", "Time between checkpoints.",
             [](const DocumentNode& n, JobDocument& d) { return read_seconds(n, kShortestCheckpoint, d.checkpoint_every_s); },
             [](const JobDocument& d) { return json(d.checkpoint_every_s); }, [] { return duration_schema(kShortestCheckpoint); }},
    JobField{"checkpoint.keep", "whole number", "2", "How many checkpoints to keep; older ones are removed.",
             [](const DocumentNode& n, JobDocument& d) { return read_int(n, kKeep, d.checkpoint_keep); },
             [](const JobDocument& d) { return json(d.checkpoint_keep); }, [] { return integer_schema(kKeep); }},
    JobField{"checkpoint.to", "file:/FOLDER", "the job's folder",
             "Where checkpoints are written: a folder that is the same on every node, such as one on NFS. The job has a folder of its "
             "own there, which is never copied between nodes, and stays when the job is removed. Not for adaptive and opaque jobs.",
             read_checkpoint_to, [](const JobDocument& d) { return unless_empty(d.checkpoint_to); },
             [] { return json{{"type", "string"}, {"pattern", "^file:/"}, {"maxLength", kLongestPath}}; }},
    JobField{"device_type", "string", "any", "The device type the job must run on.",
             [](const DocumentNode& n, JobDocument& d) { return read_name(n, d.device_type); },
             [](const JobDocument& d) { return unless_empty(d.device_type); }, name_schema},
    JobField{"profile", "string", "by program, arguments and folder",
             "Jobs of a tenant that give the same name share what is measured of their speed, whatever their arguments.",
             [](const DocumentNode& n, JobDocument& d) { return read_name(n, d.profile); },
             [](const JobDocument& d) { return unless_empty(d.profile); }, name_schema},
    JobField{"env_from", "names with file:PATH", "none",
             "Variables whose values are secret: each is read from a file when a process of the job starts, with the rights "
             "of the job's user. The value is not stored, logged or shown; one line feed at the end is removed.",
             read_env_from, [](const JobDocument& d) { return d.env_from.empty() ? json() : json(d.env_from); },
             [] {
               return json{{"type", "object"}, {"maxProperties", kMostVariables},
                           {"propertyNames", {{"pattern", "^[A-Za-z_][A-Za-z0-9_]{0,199}$"}}},
                           {"additionalProperties", {{"type", "string"}, {"pattern", "^file:/"},
                                                     {"maxLength", kLongestPath}}}};
             }},
    JobField{"memory", "bytes, such as 512MB or 16GB", "no limit",
             "Most memory that all processes of the job use together; beyond it, processes are killed. Needs a daemon that "
             "isolates jobs with systemd.",
             read_memory, [](const JobDocument& d) { return unless_zero(d.memory_bytes); },
             [] {
               return json{{"anyOf", {integer_schema(kMemory),
                                      {{"type", "string"}, {"pattern", "^[0-9]+(KB|MB|GB|TB|KiB|MiB|GiB|TiB)?$"}}}}};
             }},
    JobField{"cpus", "number", "no limit",
             "Most processor time that all processes of the job use together: 2.5 is that of two and a half processors. Needs "
             "a daemon that isolates jobs with systemd.",
             read_cpus, [](const JobDocument& d) { return d.cpus == 0 ? json() : json(d.cpus); },
             [] {
               return json{{"anyOf", {{{"type", "number"}, {"minimum", kLeastCpus}, {"maximum", kMostCpus}},
                                      {{"type", "string"}, {"pattern", R"(^[0-9]+(\.[0-9]+)?$)"}}}}};
             }},
    JobField{"user", "string", "who submits it, or the tenant's user",
             "Unix user that the job runs as, where the daemon isolates jobs. Only an administrator may name another.",
             [](const DocumentNode& n, JobDocument& d) { return read_name(n, d.user); },
             [](const JobDocument& d) { return unless_empty(d.user); }, name_schema},
    JobField{"labels", "names with values", "none",
             "Words to find jobs by, such as {team: vision, run: 7}: `rubato queue --label team=vision`. At most 32.",
             read_labels, write_labels, labels_schema},
    JobField{"after", "JOB, {job: JOB, when: finished \\| failed \\| ended}, or a list of these", "none",
             "Jobs that must have ended before this one starts, by id or name; the name of an array stands for all its jobs. "
             "finished (the default): with success; failed; ended: in any way. If that can no longer happen, this job is cancelled.",
             read_after, write_after, after_schema},
    JobField{"array", "LOW-HIGH or LOW-HIGH%N", "no array",
             "Submits one job for every index from LOW to HIGH (at most 1000 jobs), named NAME[INDEX], with RUBATO_ARRAY_INDEX and "
             "RUBATO_ARRAY_SIZE in its environment. With %N, at most N of them run at the same time.",
             read_array, write_array, array_schema},
};
// clang-format on

}  // namespace

std::span<const JobField> job_fields() { return kFields; }

std::string job_fields_markdown() {
  std::string page = "| field | value | default | meaning |\n|---|---|---|---|\n";
  for (const JobField& field : kFields) {
    page += fmt::format("| `{}` | {} | {} | {} |\n", field.name, field.form, field.default_text,
                        field.help);
  }
  return page;
}

}  // namespace rubato::control
