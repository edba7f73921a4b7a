#include "elastic/job/job_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/file.h"
#include "base/json_text.h"
#include "elastic/transport/secret.h"

namespace rubato::elastic {

namespace {

using nlohmann::json;

constexpr std::array<std::pair<ProgramKind, std::string_view>, 3> kProgramKinds{
    {{ProgramKind::kRuntime, "runtime"},
     {ProgramKind::kUnknown, "unknown"},
     {ProgramKind::kOpaque, "opaque"}}};

Result<json> parse(const std::string& text, const std::string& where) {
  json parsed = parse_json(text);
  if (parsed.is_discarded() || !parsed.is_object()) {
    return invalid_input(fmt::format("{}: not a JSON object", where));
  }
  return parsed;
}

// On NFS, machines that append to a file at the same time may overwrite each other's lines. Whoever
// has the lock, which ends with the descriptor, knows the end of the file. A process may be stopped
// while it has the lock, and blocks nobody: the others wait for a moment, then go on without it.
void lock_for_append(int file) {
  constexpr int kTries = 20;
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  for (int tries = 0; tries < kTries; ++tries) {
    if (fcntl(file, F_OFD_SETLK, &whole) == 0) return;
    if (errno != EAGAIN && errno != EACCES) return;  // no locks on this storage
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

}  // namespace

std::string_view to_string(ProgramKind kind) {
  for (const auto& [each, name] : kProgramKinds) {
    if (each == kind) return name;
  }
  return "?";
}

std::optional<ProgramKind> parse_program_kind(std::string_view text) {
  for (const auto& [kind, name] : kProgramKinds) {
    if (name == text) return kind;
  }
  return std::nullopt;
}

std::string JobFolder::log_file(int worker) const {
  return fmt::format("{}/logs/worker-{}.log", path_, worker);
}

std::string JobFolder::node_file(const std::string& node) const {
  return fmt::format("{}/nodes/{}.json", path_, node);
}

json to_json(const JobSettings& s) {
  json description = {{"name", s.name},
                      {"token", s.token},
                      {"logical_workers", s.logical_workers},
                      {"max_workers", s.max_workers},
                      {"spares", s.spares},
                      {"home", s.home},
                      {"registry", s.registry},
                      {"encrypt", s.encrypt},
                      {"failure_timeout_s", s.failure_timeout_s},
                      {"checkpoint_every_s", s.checkpoint_every_s},
                      {"checkpoint_every_steps", s.checkpoint_every_steps},
                      {"checkpoint_keep", s.checkpoint_keep},
                      {"checkpoints", s.checkpoints},
                      {"ledger", s.ledger},
                      {"consistency", s.consistency},
                      {"mode", s.adaptive ? "adaptive" : "consistent"},
                      {"batch_range", s.adaptive ? to_string(s.batch_range) : ""},
                      {"lr_rule", to_string(s.lr_rule)},
                      {"first_workers", s.first_workers},
                      {"program", to_string(s.program)},
                      {"retries", s.retries},
                      {"grace_s", s.grace_s},
                      {"command", s.command}};
  return description;
}

Result<JobSettings> parse_settings(const json& settings, const std::string& where) {
  const json* const value = &settings;
  JobSettings s;
  try {
    s.name = value->at("name").get<std::string>();
    s.token = value->at("token").get<std::string>();
    s.logical_workers = value->at("logical_workers").get<int>();
    s.max_workers = value->at("max_workers").get<int>();
    s.spares = value->value("spares", 0);
    s.home = value->value("home", "");
    s.registry = value->value("registry", "");
    s.encrypt = value->value("encrypt", false);
    s.failure_timeout_s = value->at("failure_timeout_s").get<double>();
    s.checkpoint_every_s = value->at("checkpoint_every_s").get<double>();
    s.checkpoint_every_steps = value->at("checkpoint_every_steps").get<std::int64_t>();
    s.checkpoint_keep = value->at("checkpoint_keep").get<int>();
    s.checkpoints = value->value("checkpoints", "");
    s.ledger = value->at("ledger").get<std::string>();
    s.consistency = value->at("consistency").get<std::string>();
    s.adaptive = value->value("mode", "consistent") == "adaptive";
    s.first_workers = value->value("first_workers", 1);
    const auto program = parse_program_kind(value->value("program", "runtime"));
    if (!program) return invalid_input(where + ": program: expected runtime, unknown or opaque");
    s.program = *program;
    s.retries = value->value("retries", s.retries);
    s.grace_s = value->value("grace_s", s.grace_s);
    s.command = value->at("command").get<std::vector<std::string>>();
    const Result<LrRule> rule = parse_lr_rule(value->value("lr_rule", "linear"));
    if (!rule.ok()) return invalid_input(where + ": " + rule.error().message);
    s.lr_rule = *rule;
    if (s.adaptive) {
      const Result<BatchRange> range =
          parse_batch_range(value->at("batch_range").get<std::string>());
      if (!range.ok()) return invalid_input(where + ": " + range.error().message);
      s.batch_range = *range;
    }
  } catch (const json::exception& error) {
    return invalid_input(fmt::format("{}: {}", where, error.what()));
  }
  if (s.logical_workers < 0 || s.max_workers < 1 || s.spares < 0 || s.failure_timeout_s <= 0 ||
      s.first_workers < 1 || s.retries < 0 || !(s.grace_s >= 0)) {
    return invalid_input(fmt::format("{}: counts and times must be positive", where));
  }
  return s;
}

Status JobFolder::write_settings(const JobSettings& settings) const {
  return write_private_file(settings_file(), indented_json(to_json(settings)) + "\n");
}

Status JobFolder::check_settings_are_own() const {
  struct stat info {};
  if (lstat(settings_file().c_str(), &info) != 0) {
    return Error{errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
                 fmt::format("{}: cannot read: {}", settings_file(), std::strerror(errno))};
  }
  if (!S_ISREG(info.st_mode) || info.st_uid != geteuid()) {
    return invalid_input(
        fmt::format("{}: belongs to user {}, and its command would run as user {}; join a job as "
                    "the user who started it",
                    settings_file(), info.st_uid, geteuid()));
  }
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return invalid_input(
        fmt::format("{}: other users can change the job's command; run: chmod 600 {}",
                    settings_file(), settings_file()));
  }
  return ok_status();
}

Result<JobSettings> JobFolder::read_settings() const {
  Result<std::string> text = read_file(settings_file());
  if (!text.ok()) return text.error();
  Result<json> value = parse(*text, settings_file());
  if (!value.ok()) return value.error();
  return parse_settings(*value, settings_file());
}

Status JobFolder::make_secret() const { return create_secret(secret_file()); }

Result<std::string> JobFolder::read_secret() const {
  return rubato::elastic::read_secret(secret_file());
}

void JobFolder::say_hello() const {
  if (!is_file(hello_file())) static_cast<void>(write_file(hello_file(), ""));
}

Status JobFolder::append_event(const json& event) const {
  // An event may contain a program's last output, which need not be valid text.
  const std::string line = compact_json(event) + "\n";
  const int file = ::open(events_file().c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file >= 0) lock_for_append(file);
  const bool written =
      file >= 0 && write(file, line.data(), line.size()) == static_cast<ssize_t>(line.size());
  const int code = errno;
  if (file >= 0) close(file);
  if (written) return ok_status();
  return Error{ErrorCode::kIo,
               fmt::format("{}: cannot append: {}", events_file(), std::strerror(code))};
}

Result<View> newest_view(Registry& registry) {
  Result<Record> record = registry.get(kViewRecord);
  if (!record.ok()) return record.error();
  if (record->version == 0) return View{};
  Result<json> value = parse(record->value, "view in the registry");
  if (!value.ok()) return value.error();
  Result<View> view = parse_view(*value);
  if (view.ok() && view->number != record->version) {
    return invalid_input("view in the registry: its number differs from its version");
  }
  return view;
}

Result<Target> newest_target(Registry& registry, std::int64_t* version) {
  Result<Record> record = registry.get(kTargetRecord);
  if (!record.ok()) return record.error();
  if (version != nullptr) *version = record->version;
  Target target;
  if (record->version == 0) return target;
  Result<json> value = parse(record->value, "target in the registry");
  if (!value.ok()) return value.error();
  try {
    target.workers = value->at("workers").get<int>();
    target.batch = value->value("batch", std::int64_t{0});
    target.elsewhere = value->value("elsewhere", std::map<std::string, int>());
    target.migrate = value->at("migrate").get<std::vector<int>>();
    target.stop = value->at("stop").get<bool>();
    target.at = value->at("at").get<double>();
    target.audits = value->value("audits", std::int64_t{0});
    target.devices = value->value("devices", std::vector<std::string>());
  } catch (const json::exception& error) {
    return invalid_input(fmt::format("target in the registry: {}", error.what()));
  }
  return target;
}

Status change_target(Registry& registry, const std::function<Status(Target&)>& change) {
  for (int tries = 0; tries < 100; ++tries) {
    std::int64_t version = 0;
    Result<Target> target = newest_target(registry, &version);
    if (!target.ok()) return target.error();
    Status changed = change(*target);
    if (!changed.ok()) return changed.error();
    const json value = {{"workers", target->workers},     {"batch", target->batch},
                        {"elsewhere", target->elsewhere}, {"migrate", target->migrate},
                        {"stop", target->stop},           {"at", target->at},
                        {"devices", target->devices},     {"audits", target->audits}};
    Result<bool> won = registry.compare_and_swap(kTargetRecord, version, compact_json(value));
    if (!won.ok()) return won.error();
    if (*won) return ok_status();
  }
  return Error{ErrorCode::kIo, "target in the registry: others change it all the time; try again"};
}

int Target::on_node(const std::string& node, const std::string& home) const {
  int rest = workers;
  for (const auto& [name, count] : elsewhere) {
    const int share = std::min(count, rest);
    if (name == node) return share;
    rest -= share;
  }
  return node == home ? rest : 0;
}

const std::string& Target::first_node(const std::string& home) const {
  if (on_node(home, home) > 0 || elsewhere.empty()) return home;
  return elsewhere.begin()->first;
}

Result<int> next_worker_id(Registry& registry) {
  for (;;) {
    Result<Record> record = registry.get(kWorkerRecord);
    if (!record.ok()) return record.error();
    // Version v of the record is the claim to id v - 1; the value is irrelevant.
    Result<bool> won = registry.compare_and_swap(kWorkerRecord, record->version, "{}");
    if (!won.ok()) return won.error();
    if (*won) return static_cast<int>(record->version);
  }
}

double unix_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace rubato::elastic
