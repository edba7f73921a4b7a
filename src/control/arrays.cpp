#include "control/arrays.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text.h"

namespace rubato::control {

namespace {

using nlohmann::json;

constexpr int kLargestIndex = 999'999;
constexpr std::size_t kLongestArrayName = 190;  // with the index at most 200
constexpr std::size_t kMostArrayBytes = 16 << 20;
constexpr std::size_t kMostOwnVariables = 254;  // two are added

bool has_limit(const JobRecord& job) { return job.array.first > 0 && job.array.at_once > 0; }

}  // namespace

Result<ArrayRange> parse_array(std::string_view text) {
  const Error wrong = invalid_input(
      fmt::format("'{}': expected LOW-HIGH or LOW-HIGH%N, such as 0-99 or 0-99%10, with indices up "
                  "to {}",
                  text.substr(0, 80), kLargestIndex));
  const std::size_t percent = text.find('%');
  const std::string_view range = text.substr(0, percent);
  const std::size_t dash = range.find('-');
  if (dash == std::string_view::npos) return wrong;
  const auto low = parse_int(range.substr(0, dash));
  const auto high = parse_int(range.substr(dash + 1));
  if (!low || !high || *low < 0 || *high < *low || *high > kLargestIndex) return wrong;
  if (*high - *low >= kLargestArray) {
    return invalid_input(fmt::format("'{}': {} jobs; an array has at most {}", text.substr(0, 80),
                                     *high - *low + 1, kLargestArray));
  }
  ArrayRange array{.low = static_cast<int>(*low), .high = static_cast<int>(*high)};
  if (percent != std::string_view::npos) {
    const auto at_once = parse_int(text.substr(percent + 1));
    if (!at_once || *at_once < 1 || *at_once > kLargestArray) return wrong;
    array.at_once = static_cast<int>(*at_once);
  }
  return array;
}

std::string array_text(const ArrayRange& range) {
  const std::string limit = range.at_once > 0 ? fmt::format("%{}", range.at_once) : "";
  return fmt::format("{}-{}{}", range.low, range.high, limit);
}

Status check_array(const JobDocument& document) {
  if (document.array.size() < 1) return ok_status();
  if (job_title(document).size() > kLongestArrayName) {
    return invalid_input(
        fmt::format("/name: of an array it has at most {} characters", kLongestArrayName));
  }
  if (document.env.size() > kMostOwnVariables) {
    return invalid_input(
        fmt::format("/env: {} variables; an array has at most {}, as two are added",
                    document.env.size(), kMostOwnVariables));
  }
  const std::size_t bytes = to_json(document).dump().size();
  if (bytes * static_cast<std::size_t>(document.array.size()) > kMostArrayBytes) {
    return invalid_input(
        fmt::format("/array: {} jobs with a document of {} bytes; together they may have {} MiB. "
                    "Submit fewer, or put what is long into a file",
                    document.array.size(), bytes, kMostArrayBytes >> 20));
  }
  return ok_status();
}

std::vector<NewJob> jobs_of(const JobDocument& document, JobNumber first) {
  const int size = document.array.size();
  if (size < 1) return {{.document = document}};
  const std::string name = job_title(document);
  std::vector<NewJob> jobs;
  for (int index = document.array.low; index <= document.array.high; ++index) {
    NewJob& job = jobs.emplace_back();
    job.document = document;
    job.document.array = {};
    job.document.name = fmt::format("{}[{}]", name, index);
    job.document.env["RUBATO_ARRAY_INDEX"] = std::to_string(index);
    job.document.env["RUBATO_ARRAY_SIZE"] = std::to_string(size);
    job.place = {.first = first,
                 .name = name,
                 .index = index,
                 .size = size,
                 .at_once = document.array.at_once};
  }
  return jobs;
}

ArrayName parse_array_name(std::string_view text) {
  const std::size_t open = text.rfind('[');
  if (!text.ends_with(']') || open == std::string_view::npos) return {.name = std::string(text)};
  const std::string_view inside = text.substr(open + 1, text.size() - open - 2);
  const auto index = parse_int(inside);
  if (!inside.empty() && (!index || *index < 0 || *index > kLargestIndex)) {
    return {.name = std::string(text)};
  }
  ArrayName name{.name = std::string(text.substr(0, open))};
  if (index) name.index = static_cast<int>(*index);
  return name;
}

bool is_named(const ArrayPlace& place, const ArrayName& name) {
  if (place.first == 0 || (name.index && *name.index != place.index)) return false;
  return place.name == name.name || job_name_of(place.first) == name.name;
}

void ArrayTurns::begin(std::span<const JobRecord* const> jobs) {
  std::vector<const JobRecord*> members;
  for (const JobRecord* job : jobs) {
    if (has_limit(*job) && job->waits_for.empty()) members.push_back(job);
  }
  const auto rank = [](const JobRecord* job) {
    return job->granted > 0 ? 0 : job->started_at > 0 ? 1 : 2;
  };
  std::stable_sort(members.begin(), members.end(),
                   [&](const JobRecord* a, const JobRecord* b) { return rank(a) < rank(b); });
  for (const JobRecord* job : members) static_cast<void>(join(*job));
}

bool ArrayTurns::join(const JobRecord& job) {
  if (!has_limit(job)) return true;
  Array& array = arrays_[job.array.first];
  array_of_[job.number] = job.array.first;
  if (array.turns.contains(job.number)) return true;
  // Devices that it holds were granted by an earlier program.
  if (job.granted == 0 && static_cast<int>(array.turns.size()) >= job.array.at_once) {
    array.waiting.insert(job.number);
    return false;
  }
  array.waiting.erase(job.number);
  array.turns.insert(job.number);
  return true;
}

std::optional<JobNumber> ArrayTurns::leave(JobNumber job) {
  const auto member = array_of_.find(job);
  if (member == array_of_.end()) return std::nullopt;
  const auto found = arrays_.find(member->second);
  array_of_.erase(member);
  Array& array = found->second;
  array.waiting.erase(job);
  std::optional<JobNumber> next;
  if (array.turns.erase(job) > 0 && !array.waiting.empty()) {
    next = *array.waiting.begin();
    array.waiting.erase(array.waiting.begin());
    array.turns.insert(*next);
  }
  if (array.turns.empty() && array.waiting.empty()) arrays_.erase(found);
  return next;
}

Status read_array(const DocumentNode& node, JobDocument& document) {
  using Kind = DocumentNode::Kind;
  if (node.kind != Kind::kPlain && node.kind != Kind::kText) {
    return node.error(node.shown() + "; expected LOW-HIGH or LOW-HIGH%N, such as 0-99%10");
  }
  const auto array = parse_array(node.text);
  if (!array) return node.error(array.error().message);
  document.array = *array;
  return ok_status();
}

json write_array(const JobDocument& document) {
  return document.array.size() < 1 ? json() : json(array_text(document.array));
}

json array_schema() {
  return {{"type", "string"}, {"pattern", "^[0-9]{1,6}-[0-9]{1,6}(%[0-9]{1,4})?$"}};
}

}  // namespace rubato::control
