// Optional parts of a cluster: Slurm and etcd.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/text.h"
#include "control/doctor/checks.h"
#include "control/doctor/clean_text.h"

namespace rubato::control::doctor {

namespace {

using std::chrono::seconds;

// The version that an etcd server gives; empty if no etcd answers.
std::string etcd_version(const MachineView& view, const std::string& endpoint) {
  const std::string url =
      endpoint.find("://") == std::string::npos ? "http://" + endpoint : endpoint;
  const Answer answer = view.get(url + "/version");
  const nlohmann::json body = parse_json(answer.body);
  if (answer.status != 200 || !body.is_object()) return "";
  const auto version = body.find("etcdserver");
  return version != body.end() && version->is_string() ? clean(version->get<std::string>()) : "";
}

}  // namespace

Finding check_slurm(const MachineView& view) {
  const Ran version = view.run({"sinfo", "--version"}, seconds(5));
  if (version.end == Ran::End::kNotFound) {
    return {"slurm", Level::kNote, "not installed", "only needed on clusters that Slurm manages"};
  }
  const Ran nodes = view.run({"sinfo", "--noheader", "--format=%D"}, seconds(10));
  if (!version.ok() || !nodes.ok()) {
    const Ran& broken = version.ok() ? nodes : version;
    return {"slurm", Level::kWarn,
            broken.end == Ran::End::kTimedOut
                ? "sinfo is installed, but does not answer"
                : fmt::format("sinfo is installed, but fails: {}", first_line(broken.complaint())),
            "check the controller: scontrol ping, systemctl status slurmctld munge"};
  }
  std::int64_t sum = 0;
  for (const std::string_view line : split(nodes.output, '\n')) {
    if (trim(line).empty()) continue;
    const auto number = parse_int(trim(line));
    if (!number) {
      return {"slurm", Level::kWarn, fmt::format("sinfo answers '{}'", first_line(line)),
              "expected a number of nodes: check the program 'sinfo'"};
    }
    sum += *number;
  }
  return {"slurm", Level::kOk,
          fmt::format("{}, {} {}", first_line(version.output), sum, sum == 1 ? "node" : "nodes"),
          ""};
}

Finding check_etcd(const MachineView& view) {
  const std::string given = view.environment("ETCDCTL_ENDPOINTS");
  const std::string endpoints = given.empty() ? "127.0.0.1:2379" : given;
  for (const std::string_view part : split(endpoints, ',')) {
    const std::string endpoint(trim(part));
    if (const std::string version = etcd_version(view, endpoint); !version.empty()) {
      return {"etcd", Level::kOk, fmt::format("{} at {}", version, clean(endpoint)), ""};
    }
  }
  if (!given.empty()) {
    return {"etcd", Level::kWarn, fmt::format("nothing answers at {}", clean(given)),
            "start etcd, or correct ETCDCTL_ENDPOINTS"};
  }
  const bool installed = view.run({"etcdctl", "version"}, seconds(5)).end != Ran::End::kNotFound;
  return {
      "etcd", Level::kNote,
      installed ? fmt::format("installed, but nothing answers at {}", endpoints) : "not installed",
      "only needed to share a registry between machines"};
}

}  // namespace rubato::control::doctor
