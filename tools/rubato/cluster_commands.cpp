// rubato cluster, tenants, policy, reserve.
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <optional>

#include "commands.h"
#include "control/job_document.h"
#include "control/labels.h"
#include "output.h"

namespace rubato::cli {

namespace {

using nlohmann::json;

struct ClusterArguments {
  std::string name;
  int devices = 0;
  std::string duration;
  std::int64_t reservation = 0;
  std::optional<double> weight;
  std::optional<int> quota;
  std::optional<int> max_queued;
  std::optional<int> max_streams;
  std::string expires;  // "30d" or "never"
  bool new_token = false;
  bool cancel = false;
  std::string user;
  std::vector<std::string> settings;
  bool as_json = false;
};

// Sends a request and prints the response as JSON or with `show`.
template <typename Show>
int ask(const ServerChoice& server, const ClusterArguments& a, const char* method,
        const std::string& path, const json& body, const Show& show) {
  Result<Client> client = Client::make(server);
  if (!client.ok()) return fail(client.error());
  const Result<json> answer = client->send(method, path, body);
  if (!answer.ok()) return fail(answer.error());
  if (a.as_json) {
    print_json(answer->is_null() ? json::object() : *answer);
  } else {
    show(*answer);
  }
  return 0;
}

// Of a single machine the first line says all of it.
void show_nodes(const json& nodes) {
  if (nodes.size() < 2) return;
  Table table({{"NODE", 24},
               {"TYPE", 18},
               {"DEVICES", 8, true},
               {"GRANTED", 8, true},
               {"HELD", 8, true},
               {"LABELS", 26}});
  for (const json& node : nodes) {
    table.row({node.value("node", ""), node.value("device_type", ""),
               std::to_string(node.value("devices", 0)), std::to_string(node.value("granted", 0)),
               std::to_string(node.value("held", 0)),
               control::labels_text(node.value("labels", control::Labels()))});
  }
  fmt::print("{}", table.text());
}

void show_cluster(const json& c) {
  fmt::print("{}\n", cluster_line(c));
  const json nodes = c.value("nodes", json::array());
  show_nodes(nodes);
  const json jobs = c.value("jobs", json::array());
  if (jobs.empty()) return;
  std::vector<Table::Column> columns{
      {"JOB", 9}, {"NAME", 40}, {"GRANTED", 8, true}, {"HELD", 8, true}};
  if (nodes.size() > 1) columns.push_back({"NODES", 30});
  Table table(std::move(columns));
  for (const json& job : jobs) {
    std::vector<std::string> row{job.value("job", ""), job.value("name", ""),
                                 std::to_string(job.value("granted", 0)),
                                 std::to_string(job.value("held", 0))};
    if (nodes.size() > 1) row.push_back(nodes_text(job.value("nodes", json::array())));
    table.row(std::move(row));
  }
  fmt::print("{}", table.text());
}

void show_tenants(const json& answer) {
  Table table({{"TENANT", 32},
               {"WEIGHT", 10, true},
               {"QUOTA", 10, true},
               {"QUEUED", 10, true},
               {"TOKEN UNTIL", 16}});
  const auto limit = [](int most) { return most > 0 ? std::to_string(most) : std::string("-"); };
  for (const json& tenant : answer.value("tenants", json::array())) {
    const double expires = tenant.value("token_expires", 0.0);
    table.row({tenant.value("name", ""), fmt::format("{:g}", tenant.value("weight", 1.0)),
               limit(tenant.value("quota", 0)), limit(tenant.value("max_queued", 0)),
               expires > 0 ? time_text(expires) : "-"});
  }
  fmt::print("{}", table.text());
}

// Left out, the user stays as it is.
void show_new_tenant(const json& tenant) {
  fmt::print(stderr, "tenant {}: weight {:g}, quota {}\n", tenant.value("name", ""),
             tenant.value("weight", 1.0), tenant.value("quota", 0));
  if (!tenant.contains("token")) return;
  fmt::print("{}\n", tenant.value("token", ""));
  fmt::print(stderr, "this is the tenant's token; it is not shown again\n");
  print_next({"save it in a file (mode 0600) and use rubato --token-file FILE"});
}

void show_policies(const json& answer) {
  Table table({{"", 1}, {"POLICY", 20}, {"WHAT IT DOES", 75}});
  for (const json& policy : answer.value("policies", json::array())) {
    const std::string name = policy.value("name", "");
    table.row({name == answer.value("active", "") ? "*" : "", name, policy.value("summary", "")});
  }
  fmt::print("{}", table.text());
}

void show_reservations(const json& answer) {
  const json list = answer.value("reservations", json::array());
  if (list.empty()) {
    fmt::print(stderr, "no reservations; next: rubato reserve N --for 2h\n");
    return;
  }
  Table table(
      {{"NUMBER", 10, true}, {"DEVICES", 8, true}, {"FROM", 16}, {"UNTIL", 16}, {"LEFT", 8}});
  for (const json& one : list) {
    const double until = one.value("until", 0.0);
    table.row({std::to_string(one.value("number", std::int64_t{0})),
               std::to_string(one.value("devices", 0)), time_text(one.value("from", 0.0)),
               time_text(until), duration_text(std::max(0.0, until - unix_now()))});
  }
  fmt::print("{}", table.text());
}

// Sends only what was given, so that the rest stays as it is.
int set_tenant(const ClusterArguments& a, const ServerChoice& server) {
  json body = json::object();
  if (a.weight) body["weight"] = *a.weight;
  if (a.quota) body["quota"] = *a.quota;
  if (a.max_queued) body["max_queued"] = *a.max_queued;
  if (a.max_streams) body["max_streams"] = *a.max_streams;
  if (a.new_token) body["new_token"] = true;
  if (!a.user.empty()) body["user"] = a.user;
  if (a.expires == "never") {
    body["expires_in_s"] = 0;
  } else if (!a.expires.empty()) {
    const Result<double> seconds = control::parse_duration(a.expires);
    if (!seconds.ok()) {
      return fail(invalid_input(fmt::format("--expires: {}", seconds.error().message)));
    }
    body["expires_in_s"] = *seconds;
  }
  return ask(server, a, "PUT", "/tenants/" + url_quoted(a.name), body, show_new_tenant);
}

int use_policy(const ClusterArguments& a, const ServerChoice& server) {
  json settings = json::object();
  for (const std::string& setting : a.settings) {
    const std::size_t equals = setting.find('=');
    if (equals == std::string::npos) {
      return fail(invalid_input(fmt::format("--set {}: expected PARAMETER=VALUE", setting)));
    }
    settings[setting.substr(0, equals)] = setting.substr(equals + 1);
  }
  return ask(server, a, "PUT", "/policy", {{"name", a.name}, {"settings", settings}},
             [](const json& answer) {
               fmt::print("policy {} is now active\n", answer.value("active", ""));
               print_next({"rubato cluster", "rubato top", "rubato sim --from-live"});
             });
}

int reserve(const ClusterArguments& a, const ServerChoice& server) {
  const Result<double> seconds = control::parse_duration(a.duration);
  if (!seconds.ok()) {
    return fail(invalid_input(fmt::format("--for: {}", seconds.error().message)));
  }
  return ask(server, a, "POST", "/reservations", {{"devices", a.devices}, {"seconds", *seconds}},
             [](const json& made) {
               const std::int64_t number = made.value("number", std::int64_t{0});
               fmt::print("reservation {}: {} devices until {}\n", number, made.value("devices", 0),
                          time_text(made.value("until", 0.0)));
               print_next({"rubato cluster", fmt::format("rubato reserve release {}", number)});
             });
}

using Run = std::function<int(const ClusterArguments&, const ServerChoice&)>;

}  // namespace

void add_cluster_commands(CLI::App& app, const Context& context, Command& chosen) {
  auto a = std::make_shared<ClusterArguments>();
  const auto runs = [&](CLI::App* sub, Run run) {
    sub->add_flag("--json", a->as_json, "As JSON");
    // A subcommand's callback runs before its parent's, so the innermost command wins.
    sub->callback([a, run = std::move(run), &context, &chosen] {
      if (!chosen) chosen = [a, run, &context] { return run(*a, context.server); };
    });
    return sub;
  };
  const auto getter = [](const char* path, void (*show)(const json&)) -> Run {
    return [path, show](const ClusterArguments& arguments, const ServerChoice& server) {
      return ask(server, arguments, "GET", path, nullptr, show);
    };
  };

  runs(app.add_subcommand("cluster", "Show devices, the jobs that hold them, and the policy"),
       getter("/cluster", show_cluster));

  CLI::App* tenants = app.add_subcommand("tenants", "List, create, change or delete tenants");
  runs(tenants, getter("/tenants", show_tenants));
  CLI::App* set = tenants->add_subcommand(
      "set", "Create a tenant (prints its token), or change what is given and nothing else");
  set->add_option("name", a->name, "Name of the tenant")->required();
  set->add_option("--weight", a->weight,
                  "Share relative to other tenants that want devices (of a new tenant: 1)");
  set->add_option("--quota", a->quota, "Maximum number of devices; 0: no limit");
  set->add_option("--max-queued", a->max_queued, "Maximum number of waiting jobs; 0: no limit");
  set->add_option("--max-streams", a->max_streams,
                  "Maximum number of open event and log streams; 0: the server's limit");
  set->add_flag("--new-token", a->new_token, "Replace its token; open streams end");
  set->add_option("--expires", a->expires,
                  "How long its token is valid from now on: 30d, 12h, or never");
  set->add_option("--user", a->user, "Unix user that runs its jobs and is this tenant locally");
  runs(set, set_tenant);
  CLI::App* remove = tenants->add_subcommand("rm", "Delete a tenant and its token");
  remove->add_option("name", a->name, "Name of the tenant")->required();
  remove->add_flag("--cancel", a->cancel, "Cancel its jobs that have not ended");
  runs(remove, [](const ClusterArguments& arguments, const ServerChoice& server) {
    return ask(server, arguments, "DELETE",
               fmt::format("/tenants/{}{}", url_quoted(arguments.name),
                           arguments.cancel ? "?cancel=true" : ""),
               nullptr, [&](const json&) { fmt::print("tenant {} is deleted\n", arguments.name); });
  });

  CLI::App* policy = app.add_subcommand("policy", "Show or change the daemon's scheduling policy");
  runs(policy, getter("/policies", show_policies));
  runs(policy->add_subcommand("show", "List the policies; * marks the active one"),
       getter("/policies", show_policies));
  CLI::App* use = policy->add_subcommand("use", "Switch to another policy");
  use->add_option("name", a->name, "Name as listed by 'rubato policies'")->required();
  use->add_option("--set", a->settings, "PARAMETER=VALUE (repeatable)")->allow_extra_args(false);
  runs(use, use_policy);

  CLI::App* reserving = app.add_subcommand(
      "reserve", "Reserve devices for something other than training (see also list, release)");
  CLI::Option* devices = reserving->add_option("devices", a->devices, "Number of devices");
  CLI::Option* duration = reserving->add_option("--for", a->duration, "How long: 90s, 15m, 2h, 1d");
  runs(reserving,
       [devices, duration](const ClusterArguments& arguments, const ServerChoice& server) {
         if (devices->count() == 0 || duration->count() == 0) {
           return fail(
               invalid_input("reserve: give how many devices and how long, as in 'rubato reserve "
                             "2 --for 2h'"));
         }
         return reserve(arguments, server);
       });
  runs(reserving->add_subcommand("list", "List the reservations"),
       getter("/reservations", show_reservations));
  CLI::App* release = reserving->add_subcommand("release", "Release reserved devices");
  release->add_option("number", a->reservation, "Number as listed by 'rubato reserve list'")
      ->required();
  runs(release, [](const ClusterArguments& arguments, const ServerChoice& server) {
    return ask(server, arguments, "DELETE", fmt::format("/reservations/{}", arguments.reservation),
               nullptr, [&](const json&) { fmt::print("released\n"); });
  });
}

}  // namespace rubato::cli
