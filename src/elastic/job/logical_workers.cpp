#include "elastic/job/logical_workers.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace rubato::elastic {

namespace {

using nlohmann::json;

constexpr const char* kAgreedRecord = "logical_workers";

void warn_of_conflict(const JobFolder& folder, int given, int own) {
  static_cast<void>(folder.append_event(
      {{"type", "warning"},
       {"at", unix_seconds()},
       {"message", fmt::format("the job asks for {} logical workers and its program for {} "
                               "(--logical {}); it trains with {}",
                               given, own, own, given)}}));
}

std::optional<int> number_in(const Record& record) {
  if (record.version == 0) return std::nullopt;
  const json value = json::parse(record.value, nullptr, false);
  if (!value.is_number_integer() || value < 1 || value > kMostLogicalWorkers) return std::nullopt;
  return value.get<int>();
}

}  // namespace

std::optional<int> agreed_logical_workers(Registry& registry) {
  const Result<Record> record = registry.get(kAgreedRecord);
  return record.ok() ? number_in(*record) : std::nullopt;
}

Result<int> agree_on_logical_workers(const JobSettings& settings, const WorkerOptions& options,
                                     const JobFolder& folder, Registry& registry) {
  const bool given = settings.logical_workers > 0;
  const int number = given ? settings.logical_workers : options.logical_workers;
  if (number < 1 || number > kMostLogicalWorkers) {
    return invalid_input(
        fmt::format("{} logical workers; a program has 1 to {}", number, kMostLogicalWorkers));
  }
  const Result<bool> first = registry.compare_and_swap(kAgreedRecord, 0, json(number).dump());
  if (!first.ok()) return first.error();
  if (*first) {
    if (given && options.logical_workers_asked && options.logical_workers != number) {
      warn_of_conflict(folder, number, options.logical_workers);
    }
    return number;
  }
  const Result<Record> there = registry.get(kAgreedRecord);
  if (!there.ok()) return there.error();
  const std::optional<int> agreed = number_in(*there);
  if (agreed && *agreed != number) {
    return invalid_input(fmt::format(
        "the job trains with {} logical workers, and this program asks for {}; continue the job "
        "with --logical {}, or start another one",
        *agreed, number, *agreed));
  }
  return number;
}

}  // namespace rubato::elastic
