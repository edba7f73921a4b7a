// rubato usage: device time of a period.
#include <fmt/format.h>

#include <memory>

#include "base/text.h"
#include "commands.h"
#include "control/usage.h"
#include "output.h"

namespace rubato::cli {

namespace {

using nlohmann::json;

struct UsageArguments {
  std::string by = "tenant";
  std::string month;
  std::string from;
  std::string to;
  std::int64_t limit = 1000;
  bool as_json = false;
};

// The days of the period; empty ones are the daemon's choice (this month).
struct Period {
  std::string from{};
  std::string to{};
};

Result<Period> period_of(const UsageArguments& a) {
  if (a.month.empty()) return Period{a.from, a.to};
  const std::optional<control::Day> first = control::parse_day(a.month + "-01");
  if (!first) {
    return invalid_input(
        fmt::format("--month: '{}' is not a month; expected one such as 2026-11", a.month));
  }
  const std::string next_month = control::day_text(*first + 31).substr(0, 8) + "01";
  return Period{control::day_text(*first), control::day_text(*control::parse_day(next_month) - 1)};
}

std::string hours_text(double seconds) { return fmt::format("{:.2f}", seconds / 3600); }
std::string share_text(double part, double whole) {
  return whole > 0 ? fmt::format("{:.0f}%", 100 * part / whole) : "-";
}

// "(none)" for what has no name.
std::string key_text(const std::string& by, const json& row) {
  const std::string key = row.value("key", "");
  if (!key.empty()) return key;
  return by == "user" ? "(daemon's)" : "(none)";
}

void print_usage(const std::string& by, const json& usage) {
  std::string title = by;
  for (char& c : title) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  std::vector<Table::Column> columns{{title, 40}};
  if (by == "job") {
    columns.push_back({"NAME", 20});
    columns.push_back({"TENANT", 12});
  } else {
    columns.push_back({"JOBS", 8, true});
  }
  columns.push_back({"HELD H", 12, true});
  columns.push_back({"TRAINED H", 12, true});
  columns.push_back({"TRAINED", 8});
  Table table(columns);
  const auto add = [&](std::string key, const json& row) {
    std::vector<std::string> cells{std::move(key)};
    if (by == "job") {
      cells.push_back(row.value("name", ""));
      cells.push_back(row.value("tenant", ""));
    } else {
      cells.push_back(std::to_string(row.value("jobs", std::int64_t{0})));
    }
    const double held_s = row.value("held_s", 0.0);
    const double trained_s = row.value("trained_s", 0.0);
    cells.push_back(hours_text(held_s));
    cells.push_back(hours_text(trained_s));
    cells.push_back(share_text(trained_s, held_s));
    table.row(std::move(cells));
  };
  for (const json& row : usage.value("rows", json::array())) add(key_text(by, row), row);
  add("total", usage);
  fmt::print("device hours from {} to {} (UTC)\n{}", usage.value("from", ""), usage.value("to", ""),
             table.text());
  if (usage.value("more", false)) {
    fmt::print(stderr, "there are more rows; see them with --limit\n");
  }
}

int usage(const UsageArguments& a, const Context& context) {
  const Result<Period> period = period_of(a);
  if (!period.ok()) return fail(period.error());
  Result<Client> client = Client::make(context.server);
  if (!client.ok()) return fail(client.error());
  std::string path = fmt::format("/usage?by={}&limit={}", a.by, a.limit);
  if (!period->from.empty()) path += "&from=" + url_quoted(period->from);
  if (!period->to.empty()) path += "&to=" + url_quoted(period->to);
  const Result<json> answer = client->get(path);
  if (!answer.ok()) return fail(answer.error());
  if (a.as_json) {
    print_json(*answer);
  } else {
    print_usage(a.by, *answer);
  }
  return 0;
}

}  // namespace

void add_usage(CLI::App& app, const Context& context, Command& chosen) {
  auto a = std::make_shared<UsageArguments>();
  CLI::App* sub =
      app.add_subcommand("usage", "Device time that jobs held and trained, for accounts");
  sub->add_option("--by", a->by, "tenant, user, job or label")
      ->check(CLI::IsMember({"tenant", "user", "job", "label"}));
  CLI::Option* month = sub->add_option("--month", a->month, "2026-11 (default: this month, UTC)");
  sub->add_option("--from", a->from, "First day: 2026-11-01")->excludes(month);
  sub->add_option("--to", a->to, "Last day: 2026-11-30")->excludes(month);
  sub->add_option("--limit", a->limit, "Most rows, those with the most device time")
      ->check(between(1, 100'000));
  sub->add_flag("--json", a->as_json, "As JSON, in seconds");
  sub->callback([a, &context, &chosen] { chosen = [a, &context] { return usage(*a, context); }; });
}

}  // namespace rubato::cli
