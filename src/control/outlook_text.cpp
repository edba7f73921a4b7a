// An outlook as callers get it: as JSON and in words.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/text.h"
#include "control/outlook.h"

namespace rubato::control {

namespace {

using nlohmann::json;
using NameOf = std::function<std::string(JobNumber)>;

std::string words(Seconds seconds) {
  const auto s = std::max<long long>(1, std::llround(seconds));
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{} min {} s", s / 60, s % 60);
  if (s < 86'400) return fmt::format("{} h {} min", s / 3600, s / 60 % 60);
  return fmt::format("{} d {} h", s / 86'400, s / 3600 % 24);
}

Expected since(Expected time, double passed_s) {
  for (std::optional<Seconds>* part : {&time.at, &time.earliest, &time.latest}) {
    if (*part) *part = std::max(0.0, **part - passed_s);
  }
  return time;
}

// "in about 5 min 0 s (4 min 10 s to 6 min 0 s)"; empty: nothing is known.
std::string when_words(const Expected& time) {
  if (!time.at) return time.earliest ? fmt::format("in {} or later", words(*time.earliest)) : "";
  std::string text = fmt::format("in about {}", words(*time.at));
  if (!time.earliest || !time.latest) return text;
  const std::string low = words(*time.earliest);
  const std::string high = words(*time.latest);
  return low == high ? text : fmt::format("{} ({} to {})", text, low, high);
}

// "j3 (vision) and 2 other jobs"; those that the caller may not see are among the others.
std::string names(const std::vector<JobNumber>& jobs, const NameOf& name_of) {
  constexpr std::size_t kShown = 2;
  std::vector<std::string> shown;
  for (const JobNumber job : jobs) {
    const std::string name = name_of(job);
    if (!name.empty() && shown.size() < kShown) {
      shown.push_back(fmt::format("{} ({})", job_name_of(job), name));
    }
  }
  const std::size_t others = jobs.size() - shown.size();
  if (others > 0)
    shown.push_back(shown.empty() ? counted(std::ssize(jobs), "job")
                                  : counted(static_cast<std::int64_t>(others), "other job"));
  return join(shown, " and ");
}

std::string change_words(const NextChange& change, const NameOf& name_of) {
  std::string text;
  if (change.from == 0) {
    text = fmt::format("starts on {}", counted(change.to, "device"));
  } else if (change.to == 0) {
    text = fmt::format("gives up its {}", counted(change.from, "device"));
  } else {
    text = fmt::format("{} from {} to {}", change.to > change.from ? "grows" : "shrinks",
                       change.from, counted(change.to, "device"));
  }
  if (!change.gains.empty()) text += " for " + names(change.gains, name_of);
  if (change.when.at && *change.when.at == 0) return text + " with the next decision";
  if (!change.after.empty()) {
    text += fmt::format(" when {} {}", names(change.after, name_of),
                        change.after.size() == 1 ? "ends" : "end");
  }
  if (!change.when.at) return text + ", at a time that depends on jobs of unknown length";
  return text + ", " + when_words(change.when);
}

json or_null(const std::optional<Seconds>& seconds) {
  return seconds ? json(*seconds) : json(nullptr);
}

json ids(const std::vector<JobNumber>& jobs, const NameOf& name_of) {
  json list = json::array();
  for (const JobNumber job : jobs) {
    if (!name_of(job).empty()) list.push_back(job_name_of(job));
  }
  return list;
}

}  // namespace

json outlook_json(const JobOutlook& job, double passed_s, const NameOf& name_of) {
  const Expected end = since(job.end, passed_s);
  json answer = {{"end_in_s", or_null(end.at)},
                 {"earliest_s", or_null(end.earliest)},
                 {"latest_s", or_null(end.latest)},
                 {"change", nullptr}};
  std::vector<std::string> parts;
  if (job.change) {
    NextChange change = *job.change;
    if (change.when.at != 0.0) change.when = since(change.when, passed_s);
    answer["change"] = {{"in_s", or_null(change.when.at)},
                        {"earliest_s", or_null(change.when.earliest)},
                        {"latest_s", or_null(change.when.latest)},
                        {"from", change.from},
                        {"to", change.to},
                        {"after", ids(change.after, name_of)},
                        {"gains", ids(change.gains, name_of)}};
    parts.push_back(change_words(change, name_of));
  } else if (job.keeps) {
    parts.emplace_back("keeps its devices to its end");
  }
  const std::string ends = when_words(end);
  parts.push_back(ends.empty() ? "when it ends is unknown" : "ends " + ends);
  answer["text"] = join(parts, "; ");
  return answer;
}

}  // namespace rubato::control
