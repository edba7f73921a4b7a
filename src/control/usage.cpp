#include "control/usage.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>

#include "control/json_fields.h"

namespace rubato::control {

namespace {

using nlohmann::json;

// More than this at once is a clock that was set wrong.
constexpr double kMostAtOnce = 4000 * kSecondsPerDay;
constexpr double kLastTime = 4e9 * kSecondsPerDay;  // days stay small enough to count

bool is_end(const std::string& type) {
  return type == "finished" || type == "failed" || type == "cancelled";
}

}  // namespace

Day day_of(double at) {
  return static_cast<Day>(std::floor(std::clamp(at, 0.0, kLastTime) / kSecondsPerDay));
}

std::optional<Day> parse_day(std::string_view text) {
  if (text.size() != 10 || text[4] != '-' || text[7] != '-') return std::nullopt;
  std::array<int, 3> parts{};
  const std::array<std::string_view, 3> words{text.substr(0, 4), text.substr(5, 2),
                                              text.substr(8, 2)};
  for (std::size_t i = 0; i < words.size(); ++i) {
    const char* end = words[i].data() + words[i].size();
    const auto [stop, problem] = std::from_chars(words[i].data(), end, parts[i]);
    if (problem != std::errc() || stop != end || parts[i] < 0) return std::nullopt;
  }
  const std::chrono::year_month_day date{std::chrono::year(parts[0]),
                                         std::chrono::month(static_cast<unsigned>(parts[1])),
                                         std::chrono::day(static_cast<unsigned>(parts[2]))};
  if (!date.ok() || parts[0] < 1970) return std::nullopt;
  return std::chrono::sys_days(date).time_since_epoch().count();
}

std::string day_text(Day day) {
  const std::chrono::year_month_day date{
      std::chrono::sys_days(std::chrono::days(static_cast<int>(day)))};
  return fmt::format("{:04}-{:02}-{:02}", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()));
}

double UsageMeter::training() const {
  if (ordinary_) return held_;
  return stalled_ || ended_ ? 0 : std::min(members_, held_);
}

// From `idle_from` on, nothing was trained.
DeviceTimeByDay UsageMeter::between(double from, double to, double idle_from) const {
  DeviceTimeByDay days;
  if (held_ == 0 || !(to > from)) return days;
  from = std::max(from, to - kMostAtOnce);
  for (Day day = day_of(from); day <= day_of(to); ++day) {
    const double begin = std::max(from, static_cast<double>(day) * kSecondsPerDay);
    const double end = std::min(to, static_cast<double>(day + 1) * kSecondsPerDay);
    if (end <= begin) continue;
    days[day] = {.held_s = held_ * (end - begin),
                 .trained_s = training() * std::max(0.0, std::min(end, idle_from) - begin)};
  }
  return days;
}

DeviceTimeByDay UsageMeter::until(double now) const { return between(since_, now, now); }

DeviceTimeByDay UsageMeter::note(const Event& event) {
  const std::string& type = event.type;
  double idle_from = event.at;
  // It was found out late: nothing was done since the last step.
  if (type == "stalled" && !ordinary_) idle_from -= number_in(event.body, "for_s");
  DeviceTimeByDay passed = between(since_, event.at, idle_from);
  since_ = std::max(since_, event.at);
  if (type == "held") {
    held_ = static_cast<int>(whole_in(event.body, "devices"));
    if (held_ == 0) {
      members_ = 0;
      stalled_ = false;
    }
  } else if (type == "view") {
    const std::string what = text_of(event.body, "type");
    if (what == "started" || what == "view") spoke_ = true;
    if (what == "view") {
      constexpr std::int64_t kMost = 1'000'000;
      members_ =
          static_cast<int>(std::clamp<std::int64_t>(whole_in(event.body, "workers"), 0, kMost));
    }
  } else if (type == "stalled") {
    stalled_ = true;
  } else if (type == "recovered") {
    stalled_ = false;
  } else if (type == "restarted") {
    members_ = 0;
    stalled_ = false;
  } else if (is_end(type)) {
    ended_ = true;
  }
  return passed;
}

json UsageMeter::to_json() const {
  return {{"since", since_},     {"first_day", first_day_}, {"held", held_},
          {"members", members_}, {"ordinary", ordinary_},   {"spoke", spoke_},
          {"stalled", stalled_}, {"ended", ended_}};
}

Result<UsageMeter> UsageMeter::from_json(const json& object) {
  try {
    UsageMeter meter;
    object.at("since").get_to(meter.since_);
    object.at("first_day").get_to(meter.first_day_);
    object.at("held").get_to(meter.held_);
    object.at("members").get_to(meter.members_);
    object.at("ordinary").get_to(meter.ordinary_);
    object.at("spoke").get_to(meter.spoke_);
    object.at("stalled").get_to(meter.stalled_);
    object.at("ended").get_to(meter.ended_);
    return meter;
  } catch (const json::exception& problem) {
    return invalid_input(problem.what());
  }
}

}  // namespace rubato::control
