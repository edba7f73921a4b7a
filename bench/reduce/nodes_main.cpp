// What several nodes cost a step: the bytes that each node sends, compared with the least that any
// all-reduce must send, and the time, compared with Gloo's ring. Nodes are network namespaces at
// one switch. Prints Markdown.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "cluster/hosts.h"
#include "reduce/group.h"
#include "reduce/ours.h"

namespace {

using rubato::bench::Group;
using rubato::cluster::Hosts;

struct Options {
  std::vector<int> mebibytes{1, 16, 64};
  int rounds = 7;
};

struct System {
  std::string name;
  int members = 1;  // of each node
  std::unique_ptr<Group> group;
  std::vector<double> seconds;
  double sent = 0;  // bytes per node and exchange, the most of all nodes
};

// Bytes that the host has sent, with all headers.
double sent_by(const Hosts& hosts, int host) {
  const std::set<pid_t> processes = hosts.processes(host);
  if (processes.empty()) return 0;
  std::ifstream devices(fmt::format("/proc/{}/net/dev", *processes.begin()));
  for (std::string line; std::getline(devices, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos || line.substr(0, colon).find("v0") == std::string::npos)
      continue;
    std::istringstream fields(line.substr(colon + 1));
    double value = 0;
    for (int field = 0; field < 9; ++field) fields >> value;
    return value;
  }
  return 0;
}

std::vector<System> start_systems(const Hosts& hosts, int nodes, const std::string& programs) {
  std::vector<System> systems;
  for (const int members : {1, 2}) {
    systems.push_back({.name = "ours",
                       .members = members,
                       .group = Group::fork_ranks(fmt::format("ours, {} members per node", members),
                                                  nodes * members,
                                                  [&](const Group& group, int rank) {
                                                    const int host = rank / members;
                                                    if (!hosts.enter(host)) _exit(1);
                                                    rubato::bench::serve_ours_between_nodes(
                                                        group.control_name(), rank,
                                                        {.members = members,
                                                         .logical_workers = 4 * nodes,
                                                         .host = Hosts::address(host)});
                                                  }),
                       .seconds = {}});
  }
  const std::string gloo = programs + "/gloo_rank";
  if (std::filesystem::exists(gloo)) {
    systems.push_back({.name = "Gloo's ring",
                       .group = Group::fork_ranks("gloo", nodes,
                                                  [&](const Group& group, int rank) {
                                                    if (!hosts.enter(rank)) _exit(1);
                                                    rubato::bench::execute(
                                                        {gloo, group.control_name(),
                                                         std::to_string(rank), group.folder(),
                                                         Hosts::address(rank)});
                                                  }),
                       .seconds = {}});
  }
  return systems;
}

void measure(const Hosts& hosts, int nodes, std::vector<System>& systems, std::size_t bytes,
             int rounds) {
  constexpr int kExchanges = 3;
  for (System& system : systems) {
    system.seconds.clear();
    system.sent = 0;
    system.group->prepare(bytes / sizeof(float));
    system.group->round(0, 2, false);  // warms up
  }
  // In every round each system has a turn, so that a temporary load affects all of them.
  for (int round = 0; round < rounds; ++round) {
    for (System& system : systems) {
      std::vector<double> before;
      before.reserve(static_cast<std::size_t>(nodes));
      for (int host = 0; host < nodes; ++host) before.push_back(sent_by(hosts, host));
      system.seconds.push_back(system.group->round(0, kExchanges, false));
      for (int host = 0; host < nodes; ++host) {
        const double sent = sent_by(hosts, host) - before[static_cast<std::size_t>(host)];
        system.sent = std::max(system.sent, sent / kExchanges);
      }
    }
  }
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

int run(const Options& options, const std::string& programs) {
  fmt::print(
      "| nodes | MiB | system | members per node | MiB sent per node | sent / limit | ms, median "
      "[fastest] | Gloo's time / this |\n|--:|--:|:--|--:|--:|--:|--:|--:|\n");
  for (const int nodes : {2, 3, 4}) {
    const std::optional<Hosts> hosts = Hosts::make(nodes);
    if (!hosts) {
      fmt::print(stderr, "bench-nodes: needs network namespaces: {}", Hosts::why());
      return 77;
    }
    std::vector<System> systems = start_systems(*hosts, nodes, programs);
    for (const int size : options.mebibytes) {
      const double bytes = static_cast<double>(size) * (1U << 20U);
      measure(*hosts, nodes, systems, static_cast<std::size_t>(bytes), options.rounds);
      const double limit = 2.0 * (nodes - 1) / nodes * bytes;
      const System& last = systems.back();
      for (const System& system : systems) {
        const bool peer = system.name != "ours";
        fmt::print("| {} | {} | {} | {} | {:.2f} | {:.3f} | {:.1f} [{:.1f}] | {} |\n", nodes, size,
                   system.name, system.members, system.sent / (1U << 20U), system.sent / limit,
                   median(system.seconds) * 1e3,
                   *std::min_element(system.seconds.begin(), system.seconds.end()) * 1e3,
                   peer || last.name == "ours"
                       ? ""
                       : fmt::format("{:.2f}", median(last.seconds) / median(system.seconds)));
      }
    }
  }
  double load = 0;
  if (getloadavg(&load, 1) != 1) load = 0;
  fmt::print("\nProcessor cores: {}. Load average at the end: {:.1f}.\n",
             sysconf(_SC_NPROCESSORS_ONLN), load);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("What the exchange between nodes sends and how long it takes, beside Gloo's ring");
  Options options;
  app.add_option("--mib", options.mebibytes, "Sizes of the gradient in MiB")->capture_default_str();
  app.add_option("--rounds", options.rounds, "Number of rounds")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  return run(options, std::filesystem::read_symlink("/proc/self/exe").parent_path().string());
}
