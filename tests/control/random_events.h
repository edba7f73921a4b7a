// Generates random histories of a daemon: mostly events that fit the state, some that do not.
#pragma once

#include <fmt/format.h>

#include <limits>
#include <string>
#include <vector>

#include "base/random.h"
#include "control/event_types.h"
#include "control/state.h"

namespace rubato::control {

class RandomEvents {
 public:
  explicit RandomEvents(std::uint64_t seed) : random_(seed) {}

  // An event for this state. Some events do not fit; with `wild`, most do not.
  Event next(const State& state, bool wild = false) {
    now_ += random_.chance(0.05) ? -3 : random_.uniform() * 10;  // clocks are sometimes set back
    Event event;
    event.at = now_;
    const auto types = event_types();
    event.type = types[random_.below(static_cast<std::uint32_t>(types.size()))].name;
    if (state.jobs.size() < 3 || random_.chance(0.1)) event.type = "submitted";
    const EventType* type = find_event_type(event.type);
    if (event.type == "submitted") {
      event.job = state.next_job;
      event.tenant = random_.chance(0.5) ? "red" : "blue";
    } else if (type->subject == Subject::kJob || event.type == "view") {
      event.job = 1 + random_.below(static_cast<std::uint32_t>(state.next_job));
      const auto job = state.jobs.find(event.job);
      event.tenant = job == state.jobs.end() ? "red" : job->second.tenant;
    }
    fill_body(*type, state, event);
    if (random_.chance(wild ? 0.7 : 0.05)) spoil(event);
    return event;
  }

 private:
  void fill_body(const EventType& type, const State& state, Event& event) {
    for (const EventField& field : type.fields) {
      if (!field.required && random_.chance(0.5)) continue;
      const std::string name(field.name);
      switch (field.kind) {
        case FieldKind::kCount:
          event.body[name] = random_.between(0, 8);
          break;
        case FieldKind::kWhole:
          event.body[name] = random_.between(0, 1000);
          break;
        case FieldKind::kNumber:
          event.body[name] = random_.uniform() * 100;
          break;
        case FieldKind::kText:
          event.body[name] = fmt::format("text-{}", random_.below(30));
          break;
        case FieldKind::kObject:
          event.body[name] = {{"x", random_.uniform()}, {"devices", random_.between(1, 4)}};
          break;
        case FieldKind::kNodes:
          event.body[name] = nodes_with(random_.between(0, 8));
          break;
        case FieldKind::kTexts:
          event.body[name] = {{"population", std::to_string(random_.below(100))}};
          break;
      }
    }
    // Where devices are is said, if it is said, of all of them.
    if ((event.type == "granted" || event.type == "held") && event.body.contains("nodes") &&
        !random_.chance(0.1)) {
      event.body["nodes"] = nodes_with(event.body["devices"]);
    } else if (event.type == "placed" && !random_.chance(0.1)) {
      const auto job = state.jobs.find(event.job);
      event.body["nodes"] = nodes_with(job == state.jobs.end() ? 0 : job->second.granted);
    }
    if (event.type == "submitted") {
      event.body["document"] = {{"run", {"train", "--seed", std::to_string(random_.below(9))}},
                                {"devices", fmt::format("1..{}", random_.between(1, 8))}};
    } else if (event.type == "changed") {
      event.body["fields"] = {{"priority", random_.between(-5, 5)}};
      if (random_.chance(0.5)) event.body["fields"]["name"] = fmt::format("n{}", random_.below(9));
    } else if (event.type == "reserved") {
      event.body["number"] = state.next_reservation;
      event.body["until"] = now_ + 5;
    } else if (event.type == "released") {
      event.body["number"] = random_.below(static_cast<std::uint32_t>(state.next_reservation + 1));
    } else if (event.type == "removed") {
      const auto job = state.jobs.find(event.job);
      const auto phase = job == state.jobs.end() ? Phase::kFinished : job->second.phase;
      event.body["phase"] = std::string(to_string(phase));
    } else if (event.type == "renumbered") {
      event.body["next_job"] = state.next_job + random_.between(0, 2);
    } else if (event.type == "tenant") {
      event.body["token_sha256"] = random_.chance(0.5) ? "" : std::string(64, 'a');
    }
  }

  nlohmann::json nodes_with(int devices) {
    JobPlacement nodes;
    for (int node = 0; devices > 0; ++node) {
      const int part = random_.between(1, devices);
      nodes.push_back({.node = fmt::format("n{}", node),
                       .device_type = random_.chance(0.5) ? "a100" : "t4",
                       .devices = part});
      devices -= part;
    }
    return placement_json(nodes);
  }

  void spoil(Event& event) {
    switch (random_.below(8)) {
      case 0:
        event.type += "x";
        break;
      case 1:
        event.job = random_.between(-3, 1000);
        break;
      case 2:
        event.tenant = "nobody";
        break;
      case 3:
        event.body = random_.chance(0.5) ? nlohmann::json::array() : nlohmann::json(nullptr);
        break;
      case 4:
        event.at = random_.chance(0.5) ? -1 : std::numeric_limits<double>::quiet_NaN();
        break;
      case 5:
        event.body["unexpected"] = 1;
        break;
      default:
        for (auto& value : event.body) {
          if (!random_.chance(0.5)) continue;
          const std::vector<nlohmann::json> others{-1,      1e300, 18446744073709551615ULL,   "x",
                                                   nullptr, true,  nlohmann::json::array({1})};
          value = others[random_.below(static_cast<std::uint32_t>(others.size()))];
        }
    }
  }

  Random random_;
  double now_ = 1000;
};

}  // namespace rubato::control
