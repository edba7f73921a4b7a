#include <fmt/format.h>

#include <chrono>

#include "api/handlers.h"
#include "control/usage.h"

namespace rubato::api {

namespace {

using control::Day;
using control::UsageBy;
using nlohmann::json;

UsageBy grouping(const std::string& by) {
  return by == "user"    ? UsageBy::kUser
         : by == "job"   ? UsageBy::kJob
         : by == "label" ? UsageBy::kLabel
                         : UsageBy::kTenant;
}

Day first_of_month(Day day) {
  return *control::parse_day(control::day_text(day).substr(0, 8) + "01");
}
Day last_of_month(Day day) { return first_of_month(first_of_month(day) + 31) - 1; }

Day today() {
  using std::chrono::system_clock;
  return control::day_of(
      std::chrono::duration<double>(system_clock::now().time_since_epoch()).count());
}

}  // namespace

Reply get_usage(const Call& call) {
  std::array<std::optional<Day>, 2> given;
  for (const auto& [name, place] : {std::pair("from", 0), std::pair("to", 1)}) {
    const std::string text = call.text(name);
    if (text.empty()) continue;
    given[static_cast<std::size_t>(place)] = control::parse_day(text);
    if (!given[static_cast<std::size_t>(place)]) {
      return error_reply(400, "invalid",
                         fmt::format("{}: expected a day such as 2026-11-01, from 1970 on", name));
    }
  }
  const Day from = given[0].value_or(first_of_month(given[1].value_or(today())));
  const Day to = given[1].value_or(last_of_month(from));
  if (to < from) return error_reply(400, "invalid", "to: is before `from`");
  const std::string by = call.text("by");
  const Result<control::UsageReport> report =
      call.controller.usage(call.caller, {.by = grouping(by),
                                          .from = from,
                                          .to = to,
                                          .limit = static_cast<int>(call.number("limit"))});
  if (!report.ok()) return error_reply(report.error());
  json rows = json::array();
  for (const control::UsageRow& row : report->rows) {
    json& one = rows.emplace_back(json{{"key", row.key},
                                       {"jobs", row.jobs},
                                       {"held_s", row.time.held_s},
                                       {"trained_s", row.time.trained_s}});
    if (by != "job") continue;
    one["name"] = row.name;
    one["tenant"] = row.tenant;
  }
  return json_reply({{"by", by},
                     {"from", control::day_text(from)},
                     {"to", control::day_text(to)},
                     {"rows", std::move(rows)},
                     {"jobs", report->jobs},
                     {"held_s", report->total.held_s},
                     {"trained_s", report->total.trained_s},
                     {"more", report->more}});
}

}  // namespace rubato::api
