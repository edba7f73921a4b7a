#include "control/standby/shared_registry.h"

#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/file.h"
#include "base/json_text.h"
#include "base/text.h"
#include "control/job_registry.h"
#include "control/json_fields.h"
#include "elastic/job/job_folder.h"
#include "elastic/job/records.h"

namespace rubato::control {

namespace {

using nlohmann::json;
using Outcome = SharedLog::Outcome;

constexpr auto kAwayFor = std::chrono::seconds(1);
constexpr const char* kHome = "home";

std::string place_of(const std::string& uid) { return fmt::format("job/{}/", uid); }

// What a value is in etcd: with who wrote it, so that no two are the same.
std::string stored_value(const std::string& value) {
  return compact_json({{"writer", elastic::registry_draft_name()}, {"value", value}});
}

// The versions of all records of a registry in a folder.
using Versions = std::map<std::string, std::map<std::int64_t, std::string>>;
Versions versions_in(const std::string& folder) {
  Versions all;
  JobRegistry files(folder);
  const auto names = list_directory(folder + "/registry");
  if (!names.ok()) return all;
  for (const std::string& file : *names) {
    const std::size_t dot = file.rfind('.');
    const auto version = dot == std::string::npos || dot == 0
                             ? std::optional<std::int64_t>()
                             : parse_int(std::string_view(file).substr(dot + 1));
    if (!version) continue;
    const std::string name = file.substr(0, dot);
    auto value = files.at(name, *version);
    if (value.ok() && value->has_value()) all[name][*version] = std::move(**value);
  }
  return all;
}

}  // namespace

class SharedRegistries::One final : public elastic::Registry {
 public:
  One(SharedRegistries& all, std::string uid, std::string folder)
      : all_(all), uid_(std::move(uid)), folder_(std::move(folder)), files_(folder_) {}

  Result<elastic::Record> get(const std::string& name) override {
    if (Status brought = all_.bring(uid_, folder_); !brought.ok()) return brought.error();
    return files_.get(name);
  }
  Result<std::optional<std::string>> at(const std::string& name, std::int64_t version) override {
    if (Status brought = all_.bring(uid_, folder_); !brought.ok()) return brought.error();
    return files_.at(name, version);
  }
  Result<bool> compare_and_swap(const std::string& name, std::int64_t expected,
                                const std::string& value) override {
    if (Status brought = all_.bring(uid_, folder_); !brought.ok()) return brought.error();
    return all_.swap(uid_, folder_, name, expected, value);
  }
  bool may_be_away() const override { return true; }

 private:
  SharedRegistries& all_;
  const std::string uid_;
  const std::string folder_;
  JobRegistry files_;
};

std::unique_ptr<elastic::Registry> SharedRegistries::open(const std::string& uid,
                                                          const std::string& folder) {
  return std::make_unique<One>(*this, uid, folder);
}

Error SharedRegistries::away(const std::string& problem) {
  const MutexLock lock(mutex_);
  away_until_ = Clock::now() + kAwayFor;
  return {ErrorCode::kIo, "the registry in etcd: " + problem};
}

Status SharedRegistries::check() {
  const MutexLock lock(mutex_);
  if (Clock::now() >= away_until_) return ok_status();
  return Error{ErrorCode::kIo, "the registry in etcd did not answer a moment ago; retry"};
}

Status SharedRegistries::bring(const std::string& uid, const std::string& folder) {
  {
    const MutexLock lock(mutex_);
    if (brought_.contains(uid)) return ok_status();
  }
  if (Status able = check(); !able.ok()) return able;
  const auto pairs = log_->read(place_of(uid));
  if (!pairs.ok()) return away(pairs.error().message);
  Versions shared;
  for (const SharedLog::Pair& pair : *pairs) {
    const std::size_t slash = pair.key.find('/');
    const auto version = slash == std::string::npos
                             ? std::optional<std::int64_t>()
                             : parse_int(std::string_view(pair.key).substr(slash + 1));
    const json value = parse_json(pair.value);
    if (!version || !value.is_object()) {
      return invalid_input(fmt::format("etcd: {}{} is not a record", place_of(uid), pair.key));
    }
    if (pair.key.substr(0, slash) == kHome) continue;
    shared[pair.key.substr(0, slash)][*version] = text_of(value, "value");
  }
  if (const auto made = JobRegistry::create(folder); !made.ok()) return made.error();
  const Versions here = versions_in(folder);
  for (const auto& [name, versions] : here) {
    for (const auto& [version, value] : versions) {
      const std::string record = fmt::format("{}/{:016}", name, version);
      if (pairs->empty()) {  // it was decided before the daemon shared its log
        bool won = false;
        const auto answer =
            log_->create(leadership_->leader(), place_of(uid) + record, stored_value(value), won);
        if (answer.outcome != Outcome::kDone) return away(answer.problem);
      } else if (!shared.contains(name) || !shared[name].contains(version) ||
                 shared[name][version] != value) {  // it was replaced, while another daemon led
        std::error_code none;
        std::filesystem::remove(fmt::format("{}/registry/{}.{}", folder, name, version), none);
      }
    }
  }
  JobRegistry files(folder);
  for (const auto& [name, versions] : shared) {
    for (const auto& [version, value] : versions) {
      const auto written = files.compare_and_swap(name, version - 1, value);
      if (!written.ok()) return written.error();
    }
  }
  const MutexLock lock(mutex_);
  brought_.insert(uid);
  return ok_status();
}

void SharedRegistries::forget_files(const std::string& uid) {
  const MutexLock lock(mutex_);
  brought_.erase(uid);
}

Result<bool> SharedRegistries::swap(const std::string& uid, const std::string& folder,
                                    const std::string& name, std::int64_t expected,
                                    const std::string& value) {
  JobRegistry files(folder);
  // Versions have no gaps.
  if (expected > 0) {
    const auto before = files.at(name, expected);
    if (!before.ok()) return before.error();
    if (!before->has_value()) return false;
  }
  if (Status able = check(); !able.ok()) return able.error();
  bool won = false;
  const auto answer = log_->create(leadership_->leader(),
                                   fmt::format("{}{}/{:016}", place_of(uid), name, expected + 1),
                                   stored_value(value), won);
  if (answer.outcome != Outcome::kDone) {
    forget_files(uid);  // it may have been written
    return away(answer.problem);
  }
  const auto written = won ? files.compare_and_swap(name, expected, value) : Result<bool>(false);
  // Somebody else has won, or the disk is full: what is here is old.
  if (!written.ok() || !*written) forget_files(uid);
  return won;
}

std::string SharedRegistries::home(const std::string& uid) {
  const auto pairs = log_->read(place_of(uid) + kHome + "/");
  if (!pairs.ok() || pairs->empty()) return "";
  return text_of(parse_json(pairs->front().value), "value");
}

Status SharedRegistries::begin(const std::string& uid, const std::string& folder,
                               const std::string& home) {
  const elastic::JobFolder job(folder);
  const LeaderKey leader = leadership_->leader();
  if (Status able = check(); !able.ok()) return able;
  for (const std::string& name : {std::string(kHome), std::string(elastic::kResultRecord)}) {
    if (name != kHome && is_file(job.result_file())) continue;
    const auto removed = log_->remove(leader, fmt::format("{}{}/", place_of(uid), name));
    if (removed.outcome != Outcome::kDone) return away(removed.problem);
  }
  bool won = false;
  const auto noted = log_->create(leader, fmt::format("{}{}/{:016}", place_of(uid), kHome, 1),
                                  stored_value(home), won);
  if (noted.outcome != Outcome::kDone) return away(noted.problem);
  return ok_status();
}

void SharedRegistries::forget(const std::string& uid) {
  forget_files(uid);
  if (!check().ok()) return;  // some keys stay, and harm nobody
  static_cast<void>(log_->remove(leadership_->leader(), place_of(uid)));
}

}  // namespace rubato::control
