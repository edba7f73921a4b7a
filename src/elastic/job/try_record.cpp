#include "elastic/job/try_record.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/file.h"
#include "base/json_text.h"
#include "elastic/transport/descriptor.h"

namespace rubato::elastic {

namespace {

using State = TryRecord::State;

constexpr std::array<std::pair<State, const char*>, 4> kTryStates{{{State::kNone, "none"},
                                                                   {State::kRunning, "running"},
                                                                   {State::kStopped, "stopped"},
                                                                   {State::kEnded, "ended"}}};

std::string tries_file(const JobFolder& folder) { return folder.path() + "/tries.json"; }

bool sync(const std::string& path, int flags) {
  const Descriptor file(::open(path.c_str(), flags | O_CLOEXEC));
  return file.valid() && ::fsync(file.get()) == 0;
}

Result<TryRecord> parse_tries(const nlohmann::json& value) {
  TryRecord record;
  const auto state = value.at("state").get<std::string>();
  bool known = false;
  for (const auto& [each, name] : kTryStates) {
    if (state != name) continue;
    record.state = each;
    known = true;
  }
  value.at("tries").get_to(record.tries);
  value.at("worker").get_to(record.worker);
  value.at("run_s").get_to(record.run_s);
  if (value.contains("exit_code")) record.exit_code = value["exit_code"].get<int>();
  if (value.contains("signal")) record.signal = value["signal"].get<int>();
  if (!known || record.tries < 0 || record.worker < 0 || !(record.run_s >= 0)) {
    return invalid_input("a value is impossible");
  }
  return record;
}

}  // namespace

Result<TryRecord> read_tries(const JobFolder& folder) {
  const std::string path = tries_file(folder);
  if (!is_file(path)) return TryRecord{};
  const Result<std::string> text = read_file(path);
  if (!text.ok()) return text.error();
  Result<TryRecord> record = invalid_input("not a JSON object");
  try {
    const nlohmann::json value = parse_json(*text);
    if (value.is_object()) record = parse_tries(value);
  } catch (const nlohmann::json::exception& error) {
    record = invalid_input(error.what());
  }
  if (record.ok()) return record;
  return invalid_input(
      fmt::format("{}: {}; it is not known how often the program ran, so it is not started again",
                  path, record.error().message));
}

Status write_tries(const JobFolder& folder, const TryRecord& record) {
  const std::string path = tries_file(folder);
  const std::string beside = path + ".new";
  nlohmann::json value = {
      {"tries", record.tries}, {"worker", record.worker}, {"run_s", record.run_s}};
  for (const auto& [state, name] : kTryStates) {
    if (record.state == state) value["state"] = name;
  }
  if (record.exit_code) value["exit_code"] = *record.exit_code;
  if (record.signal) value["signal"] = *record.signal;
  Status written = write_file(beside, compact_json(value) + "\n");
  if (!written.ok()) return written;
  if (sync(beside, O_RDONLY) && std::rename(beside.c_str(), path.c_str()) == 0 &&
      sync(folder.path(), O_RDONLY | O_DIRECTORY)) {
    return ok_status();
  }
  return Error{ErrorCode::kIo, fmt::format("{}: cannot write: {}", path, std::strerror(errno))};
}

}  // namespace rubato::elastic
