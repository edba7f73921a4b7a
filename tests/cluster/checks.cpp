#include "cluster/checks.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/file.h"
#include "base/json_text.h"

namespace rubato::cluster {

namespace {

using elastic::View;
using nlohmann::json;

struct Update {
  double at = 0;
  std::int64_t step = 0;
};

Result<std::vector<Committed>> views_in(const std::string& folder) {
  std::vector<Committed> views;
  for (std::int64_t number = 1;; ++number) {
    const std::string file = fmt::format("{}/registry/view.{}", folder, number);
    struct stat status {};
    if (::stat(file.c_str(), &status) != 0) return views;
    const Result<std::string> text = read_file(file);
    if (!text.ok()) return text.error();
    Result<elastic::View> view = elastic::parse_view(parse_json(*text));
    if (!view.ok()) return view.error();
    views.push_back({std::move(*view), static_cast<double>(status.st_mtim.tv_sec) +
                                           1e-9 * static_cast<double>(status.st_mtim.tv_nsec)});
  }
}

bool has(const elastic::View& view, int worker) { return view.find(worker) != nullptr; }

// By the views, the end of a worker's membership: its last view, and the first one without it.
// Null: it was a member to the end.
struct End {
  const Committed* last = nullptr;
  const Committed* next = nullptr;
};
End end_of(const std::vector<Committed>& views, int worker) {
  End end;
  for (const Committed& each : views) {
    if (has(each.view, worker)) {
      end.last = &each;
    } else if (end.last != nullptr) {
      end.next = &each;
      break;
    }
  }
  return end;
}

// The first view that has this worker, or null.
const View* first_with(const std::vector<Committed>& views, int worker) {
  for (const Committed& each : views) {
    if (has(each.view, worker)) return &each.view;
  }
  return nullptr;
}

bool on_one_node(const elastic::View& view) {
  std::set<std::string> nodes;
  for (const elastic::Member& member : view.members) nodes.insert(member.address.node);
  return nodes.size() == 1;
}

// Whether all its nodes were lost before the next view was committed.
bool out_of_reach(const Committed& last, const Committed& next, const std::vector<json>& events) {
  constexpr double kCoarse = 0.05;  // of a file's time
  std::set<std::string> lost;
  for (const json& event : events) {
    const double at = event.value("at", 0.0);
    if (event.value("type", "") != "node_lost") continue;
    if (at >= last.at && at <= next.at + kCoarse) lost.insert(event["body"].value("name", ""));
  }
  return std::all_of(last.view.members.begin(), last.view.members.end(),
                     [&](const auto& member) { return lost.contains(member.address.node); });
}

}  // namespace

std::string check_devices(const std::vector<json>& events,
                          const std::map<std::string, int>& devices) {
  std::map<std::int64_t, json> now;  // by job
  for (const json& event : events) {
    const std::string type = event.value("type", "");
    const std::int64_t job = event.value("job", std::int64_t{0});
    const json& body = event.contains("body") ? event["body"] : json::object();
    if (type != "held") continue;
    now[job] = body.value("nodes", json::array());
    std::map<std::string, int> sum;
    for (const auto& [number, nodes] : now) {
      for (const json& node : nodes) {
        sum[node.value("node", "")] += node.value("devices", 0);
      }
    }
    for (const auto& [node, given] : sum) {
      const auto most = devices.find(node);
      if (most != devices.end() && given > most->second) {
        return fmt::format("event {}: {} devices of {} are held, it has {}",
                           event.value("seq", std::int64_t{0}), given, node, most->second);
      }
    }
  }
  return "";
}

std::string check_views(const std::string& folder, const std::string& trace, std::int64_t steps,
                        const std::vector<json>& events) {
  const auto views = views_in(folder);
  return views.ok() ? check_views(*views, trace, steps, events) : views.error().message;
}

std::string check_views(const std::vector<Committed>& views, const std::string& trace,
                        std::int64_t steps, const std::vector<json>& events) {
  if (views.empty()) return "there are no views";
  std::map<int, std::vector<Update>> updates;
  std::ifstream file(trace);
  for (std::string line; std::getline(file, line);) {
    double at = 0;
    int worker = 0;
    long long step = 0;
    if (std::sscanf(line.c_str(), "%lf %d %lld", &at, &worker, &step) != 3) continue;
    updates[worker].push_back({at, step});
  }
  std::set<std::int64_t> made;  // by members
  for (const auto& [worker, own] : updates) {
    const View* const first = first_with(views, worker);
    for (const Update& update : own) {
      if (first != nullptr && update.step >= first->first_step) made.insert(update.step);
    }
  }
  for (std::int64_t step = 0; step < steps; ++step) {
    if (!made.contains(step)) return fmt::format("nobody made step {}", step);
  }
  for (const auto& [worker, own] : updates) {
    // Until it is a member, a worker makes what members have made, with what they send.
    if (first_with(views, worker) == nullptr) continue;
    const auto [last, next] = end_of(views, worker);
    if (next == nullptr) continue;
    const std::string& cause = next->view.cause;
    const bool failure = cause == "failure" || cause == "restart" || next->view.empty();
    if (failure && (on_one_node(last->view) || out_of_reach(*last, *next, events))) continue;
    int late = 0;
    for (const Update& update : own) {
      if (failure && cause != "stop") {
        late += update.at > next->at ? 1 : 0;
      } else if (update.step >= next->view.first_step) {
        return fmt::format("worker {} made step {}, but view {} ({}) without it begins with {}",
                           worker, update.step, next->view.number, cause, next->view.first_step);
      }
    }
    if (late > 1) {
      return fmt::format("worker {} made {} updates after view {} ({}) without it was committed",
                         worker, late, next->view.number, cause);
    }
  }
  return "";
}

}  // namespace rubato::cluster
