// A schedule as written in scenario files: one line per moment at which something changed.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "base/ids.h"

namespace rubato {

// Times are compared in whole milliseconds: precise enough by hand, and unaffected by rounding.
using Milliseconds = std::int64_t;

inline Milliseconds to_ms(Seconds seconds) { return std::llround(seconds * 1000); }
inline std::string time_text(Milliseconds ms) {
  return fmt::format("{}", static_cast<double>(ms) / 1000);
}

// The devices of one job.
struct HeldDevices {
  int total = 0;
  std::map<int, int> by_node{};  // empty: any nodes
  bool operator==(const HeldDevices&) const = default;
};

// What each job has from `time_ms` until the next line.
struct ScheduleLine {
  Milliseconds time_ms = 0;
  std::map<std::string, HeldDevices> running{};
  std::set<std::string> waiting{};

  bool same_state(const ScheduleLine& other) const {
    return running == other.running && waiting == other.waiting;
  }
};

// Whether the line describes what happened. Nodes are compared only if the expected line names
// them.
inline bool matches(const ScheduleLine& expected, const ScheduleLine& actual) {
  if (expected.time_ms != actual.time_ms || expected.waiting != actual.waiting ||
      expected.running.size() != actual.running.size()) {
    return false;
  }
  for (const auto& [job, wanted] : expected.running) {
    const auto found = actual.running.find(job);
    if (found == actual.running.end() || found->second.total != wanted.total) return false;
    if (!wanted.by_node.empty() && found->second.by_node != wanted.by_node) return false;
  }
  return true;
}

// "a=4", or "a=2@0+2@1" with nodes.
inline std::string to_text(const std::string& job, const HeldDevices& devices, bool with_nodes) {
  if (!with_nodes || devices.by_node.empty()) return fmt::format("{}={}", job, devices.total);
  std::string text;
  for (const auto& [node, count] : devices.by_node) {
    text += fmt::format("{}{}@{}", text.empty() ? "" : "+", count, node);
  }
  return job + "=" + text;
}

// The line in the format of a scenario file.
inline std::string to_text(const ScheduleLine& line, bool with_nodes) {
  std::string text = fmt::format("{:<8}", time_text(line.time_ms));
  for (const auto& [job, devices] : line.running) text += " " + to_text(job, devices, with_nodes);
  if (!line.waiting.empty()) text += fmt::format(" ({})", fmt::join(line.waiting, " "));
  if (line.running.empty() && line.waiting.empty()) text += " -";
  return text;
}

}  // namespace rubato
