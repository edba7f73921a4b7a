// rubato nodes, drain, undrain.
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <thread>

#include "commands.h"
#include "control/job_document.h"
#include "control/labels.h"
#include "output.h"

namespace rubato::cli {

namespace {

using nlohmann::json;

struct NodeArguments {
  std::string name;
  std::string deadline;
  bool wait = false;
  bool as_json = false;
};

std::string jobs_text(const json& jobs) {
  std::string text;
  for (const json& job : jobs) {
    if (!text.empty()) text += ", ";
    text += fmt::format("{} ({})", job.value("job", ""), job.value("devices", 0));
  }
  return text.empty() ? "-" : text;
}

// Only a node that should have been heard again by now.
std::string silent_text(const json& node) {
  constexpr double kUsual = 3;
  const double seconds = node.value("silent_s", 0.0);
  return seconds < kUsual ? "-" : duration_text(seconds);
}

void show_nodes(const json& answer) {
  const json nodes = answer.value("nodes", json::array());
  if (nodes.empty()) {
    fmt::print(stderr, "no nodes; next: rubatod agent --join URL --token-file FILE\n");
    return;
  }
  Table table({{"NODE", 24},
               {"STATE", 8},
               {"TYPE", 18},
               {"DEVICES", 7, true},
               {"SILENT", 7, true},
               {"JOBS", 30},
               {"LABELS", 26}});
  for (const json& node : nodes) {
    table.row({node.value("name", ""), node.value("state", ""), node.value("device_type", ""),
               std::to_string(node.value("devices", 0)), silent_text(node),
               jobs_text(node.value("jobs", json::array())),
               control::labels_text(node.value("labels", control::Labels()))});
  }
  fmt::print("{}", table.text());
}

int list(const NodeArguments& a, const ServerChoice& server) {
  Result<Client> client = Client::make(server);
  if (!client.ok()) return fail(client.error());
  const Result<json> answer = client->send("GET", "/nodes", nullptr);
  if (!answer.ok()) return fail(answer.error());
  if (a.as_json) {
    print_json(*answer);
  } else {
    show_nodes(*answer);
  }
  return 0;
}

Status change(Client& client, const char* method, const std::string& path) {
  const Result<json> answer = client.send(method, path, nullptr);
  return answer.ok() ? ok_status() : Status(answer.error());
}

// Returns when the node has no jobs, or is not there any more.
Status wait_until_drained(Client& client, const std::string& name) {
  constexpr auto kLook = std::chrono::milliseconds(200);
  for (;; std::this_thread::sleep_for(kLook)) {
    const Result<json> answer = client.send("GET", "/nodes", nullptr);
    if (!answer.ok()) return answer.error();
    bool busy = false;
    for (const json& node : answer->value("nodes", json::array())) {
      if (node.value("name", "") == name) busy = node.value("state", "") == "draining";
    }
    if (!busy) return ok_status();
  }
}

int drain(const NodeArguments& a, const ServerChoice& server) {
  std::string query;
  if (!a.deadline.empty()) {
    const Result<double> seconds = control::parse_duration(a.deadline);
    if (!seconds.ok()) {
      return fail(invalid_input(fmt::format("--deadline: {}", seconds.error().message)));
    }
    query = fmt::format("?deadline_s={:.0f}", std::ceil(*seconds));
  }
  Result<Client> client = Client::make(server);
  if (!client.ok()) return fail(client.error());
  Status done =
      change(*client, "POST", fmt::format("/nodes/{}/drain{}", url_quoted(a.name), query));
  if (done.ok() && a.wait) done = wait_until_drained(*client, a.name);
  if (!done.ok()) return fail(done.error());
  fmt::print("node {} {}\n", a.name,
             a.wait ? "is drained" : "gets no jobs; those that it has continue elsewhere");
  print_next({"rubato nodes", fmt::format("rubato undrain {}", a.name),
              fmt::format("rubato nodes remove {}", a.name)});
  return 0;
}

int undrain(const NodeArguments& a, const ServerChoice& server) {
  Result<Client> client = Client::make(server);
  if (!client.ok()) return fail(client.error());
  const Status done = change(*client, "POST", fmt::format("/nodes/{}/undrain", url_quoted(a.name)));
  if (!done.ok()) return fail(done.error());
  fmt::print("node {} gets jobs again\n", a.name);
  return 0;
}

int remove(const NodeArguments& a, const ServerChoice& server) {
  Result<Client> client = Client::make(server);
  if (!client.ok()) return fail(client.error());
  const Status done = change(*client, "DELETE", fmt::format("/nodes/{}", url_quoted(a.name)));
  if (!done.ok()) return fail(done.error());
  fmt::print("node {} is removed\n", a.name);
  return 0;
}

}  // namespace

void add_node_commands(CLI::App& app, const Context& context, Command& chosen) {
  auto a = std::make_shared<NodeArguments>();
  const auto runs = [&](CLI::App* sub, int (*run)(const NodeArguments&, const ServerChoice&)) {
    sub->callback([a, run, &context, &chosen] {
      if (!chosen) chosen = [a, run, &context] { return run(*a, context.server); };
    });
    return sub;
  };
  CLI::App* nodes = app.add_subcommand("nodes", "List the machines on which jobs run");
  nodes->add_flag("--json", a->as_json, "As JSON");
  runs(nodes, list);
  CLI::App* removing = nodes->add_subcommand(
      "remove", "Forget a node that has no jobs or is lost; its agent's token becomes invalid");
  removing->add_option("node", a->name, "Name of the node")->required();
  runs(removing, remove);
  CLI::App* draining =
      app.add_subcommand("drain", "Give a node no more jobs; those that it has continue elsewhere");
  draining->add_option("node", a->name, "Name of the node")->required();
  draining->add_option("--deadline", a->deadline,
                       "Kill what still runs there after this time: 30s, 10m (default: never)");
  draining->add_flag("--wait", a->wait, "Return when the node has no jobs");
  runs(draining, drain);
  CLI::App* undraining = app.add_subcommand("undrain", "Give a drained node jobs again");
  undraining->add_option("node", a->name, "Name of the node")->required();
  runs(undraining, undrain);
}

}  // namespace rubato::cli
