#include "control/dependencies.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/names.h"
#include "base/text.h"

namespace rubato::control {

namespace {

using nlohmann::json;

struct Ending {
  JobNumber job = 0;
  Phase phase = Phase::kFinished;
};

std::optional<Phase> end_of(const Event& event) {
  for (const Phase phase : {Phase::kFinished, Phase::kFailed, Phase::kCancelled}) {
    if (event.type == to_string(phase)) return phase;
  }
  return std::nullopt;
}

Result<std::string> read_other_job(const DocumentNode& node) {
  using Kind = DocumentNode::Kind;
  if (node.kind != Kind::kPlain && node.kind != Kind::kText && node.kind != Kind::kNumber) {
    return node.error(node.shown() + "; expected the id or name of a job");
  }
  if (const auto problem = name_problem(node.text); !problem.empty()) {
    return node.error(fmt::format("{}; {}", node.shown(), problem));
  }
  return node.text;
}

Result<When> read_when(const DocumentNode& node) {
  if (const auto when = node.scalar() ? parse_when(node.text) : std::nullopt) return *when;
  return node.error(node.shown() + "; expected finished | failed | ended");
}

Result<After> read_one(const DocumentNode& node) {
  After after;
  if (node.kind != DocumentNode::Kind::kMap) {
    auto job = read_other_job(node);
    if (!job) return job.error();
    after.job = std::move(*job);
    return after;
  }
  for (const auto& entry : node.entries) {
    if (entry.name == "job") {
      auto job = read_other_job(entry.value);
      if (!job) return job.error();
      after.job = std::move(*job);
    } else if (entry.name == "when") {
      const auto when = read_when(entry.value);
      if (!when) return when.error();
      after.when = *when;
    } else {
      return invalid_input(
          fmt::format("{}: unknown field; expected job and when, such as {{job: prep, when: "
                      "ended}}",
                      entry.place));
    }
  }
  if (after.job.empty()) return node.error("`job` is missing; expected the id or name of a job");
  return after;
}

}  // namespace

Verdict verdict(When when, Phase phase) {
  if (!ended(phase)) return Verdict::kOpen;
  switch (when) {
    case When::kFinished:
      return phase == Phase::kFinished ? Verdict::kMet : Verdict::kNever;
    case When::kFailed:
      return phase == Phase::kFailed ? Verdict::kMet : Verdict::kNever;
    case When::kEnded:
      break;
  }
  return Verdict::kMet;
}

std::string waits_text(const WaitsFor& waits_for) {
  constexpr std::size_t kShown = 10;
  std::vector<std::string> parts;
  for (const auto& [job, when] : waits_for) {
    if (parts.size() == kShown) break;
    const char* what = when == When::kFinished ? "finish" : when == When::kFailed ? "fail" : "end";
    parts.push_back(fmt::format("{} to {}", job_name_of(job), what));
  }
  const std::size_t more = waits_for.size() - parts.size();
  std::string last = more > 0 ? counted(static_cast<std::int64_t>(more), "other job") : "";
  if (more == 0 && parts.size() > 1) {
    last = parts.back();
    parts.pop_back();
  }
  return "waits for " + join(parts, ", ") + (last.empty() ? "" : " and " + last);
}

std::string never_text(JobNumber job, When when, Phase phase) {
  const std::string id = job_name_of(job);
  const char* was = phase == Phase::kCancelled ? "was " : "";
  return fmt::format("{0} {1}{2}, and this job was to start after {0} had {3}", id, was,
                     to_string(phase), to_string(when));
}

Result<After> parse_after(std::string_view text) {
  After after{.job = std::string(text)};
  if (const std::size_t colon = text.rfind(':'); colon != std::string_view::npos) {
    const auto when = parse_when(text.substr(colon + 1));
    if (!when) {
      return invalid_input(fmt::format(
          "'{}': expected JOB, JOB:finished, JOB:failed or JOB:ended; a job whose name has a colon "
          "can be named by its id",
          text.substr(0, 80)));
    }
    after = {.job = std::string(text.substr(0, colon)), .when = *when};
  }
  if (after.job.empty()) return invalid_input("expected the id or name of a job");
  return after;
}

void DependentJobs::note(const JobRecord& job) {
  for (const auto& [other, when] : job.waits_for) waiting_[other].insert(job.number);
}

std::vector<Event> DependentJobs::consequences(const std::vector<Event>& events,
                                               const State& state) const {
  std::vector<Event> follow;
  if (waiting_.empty()) return follow;
  std::vector<Ending> endings;
  std::set<JobNumber> over;
  double at = 0;
  for (const Event& event : events) {
    const std::optional<Phase> phase = end_of(event);
    if (!phase) continue;
    endings.push_back({event.job, *phase});
    over.insert(event.job);
    at = event.at;
  }
  for (std::size_t i = 0; i < endings.size(); ++i) {
    const Ending end = endings[i];
    const auto waiting = waiting_.find(end.job);
    if (waiting == waiting_.end()) continue;
    for (const JobNumber number : waiting->second) {
      const auto found = state.jobs.find(number);
      if (found == state.jobs.end() || ended(found->second.phase)) continue;
      const JobRecord& job = found->second;
      const auto awaited = job.waits_for.find(end.job);
      if (awaited == job.waits_for.end() || over.contains(number)) continue;
      Event& event = follow.emplace_back();
      event.at = at;
      event.job = number;
      event.tenant = job.tenant;
      if (verdict(awaited->second, end.phase) == Verdict::kMet) {
        event.type = "unblocked";
        event.body = {{"by", job_name_of(end.job)}, {"outcome", std::string(to_string(end.phase))}};
      } else {
        event.type = "cancelled";
        event.body = {{"message", never_text(end.job, awaited->second, end.phase)}};
        over.insert(number);
        endings.push_back({number, Phase::kCancelled});
      }
    }
  }
  return follow;
}

Status read_after(const DocumentNode& node, JobDocument& document) {
  document.after.clear();
  const bool list = node.kind == DocumentNode::Kind::kList;
  if (list && node.items.size() > kMostAfter) {
    return node.error(fmt::format("{} jobs; expected at most {}", node.items.size(), kMostAfter));
  }
  for (std::size_t i = 0; i < (list ? node.items.size() : 1); ++i) {
    const DocumentNode& item = list ? node.items[i] : node;
    auto after = read_one(item);
    if (!after) return after.error();
    const bool twice = std::any_of(document.after.begin(), document.after.end(),
                                   [&](const After& other) { return other.job == after->job; });
    if (twice) return item.error(fmt::format("'{}' is named twice", after->job));
    document.after.push_back(std::move(*after));
  }
  return ok_status();
}

json write_after(const JobDocument& document) {
  if (document.after.empty()) return {};
  json list = json::array();
  for (const After& after : document.after) {
    if (after.when == When::kFinished) {
      list.push_back(after.job);
    } else {
      list.push_back({{"job", after.job}, {"when", std::string(to_string(after.when))}});
    }
  }
  return list;
}

json after_schema() {
  const json name = {{"type", "string"}, {"minLength", 1}, {"maxLength", 200}};
  const json one = {
      {"type", "object"},
      {"required", {"job"}},
      {"additionalProperties", false},
      {"properties", {{"job", name}, {"when", {{"enum", {"finished", "failed", "ended"}}}}}}};
  const json list = {
      {"type", "array"}, {"maxItems", kMostAfter}, {"items", {{"anyOf", {name, one}}}}};
  return {{"anyOf", {name, one, list}}};
}

}  // namespace rubato::control
