#include "sim/external_events.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/csv.h"

namespace rubato {

namespace {

constexpr NumberRange kTimes{0, 1e10};

template <typename Event>
void sort_by_time(std::vector<Event>& events) {
  std::stable_sort(events.begin(), events.end(),
                   [](const Event& a, const Event& b) { return a.time_s < b.time_s; });
}

}  // namespace

Result<std::vector<NodeEvent>> read_node_events(const std::string& path, const Cluster& cluster) {
  const auto table = CsvTable::read(path, {"time", "node", "event"});
  if (!table) return table.error();
  const int time_column = table->column("time");
  const int node_column = table->column("node");
  const int event_column = table->column("event");
  std::vector<NodeEvent> events;
  for (std::size_t row = 0; row < table->rows(); ++row) {
    const auto time = table->number(row, time_column, kTimes);
    if (!time) return time.error();
    const auto last = static_cast<double>(cluster.nodes().size()) - 1;
    const auto node = table->integer(row, node_column, {0, last});
    if (!node) return node.error();
    const std::string_view event = table->cell(row, event_column);
    if (event != "down" && event != "up") {
      return table->error_at(row, event_column, "expected down or up");
    }
    events.push_back({*time, NodeId(static_cast<std::size_t>(*node)), event == "down"});
  }
  sort_by_time(events);
  return events;
}

Result<std::vector<ServingLoad>> read_serving_load(const std::string& path,
                                                   const Cluster& cluster) {
  const auto table = CsvTable::read(path, {"time", "devices"});
  if (!table) return table.error();
  const int time_column = table->column("time");
  const int device_column = table->column("devices");
  const int type_column = table->column("type");
  if (type_column < 0 && cluster.type_count() > 1) {
    return invalid_input(path + ":1:1: column 'type' is missing; the cluster has several types");
  }
  std::vector<ServingLoad> loads;
  for (std::size_t row = 0; row < table->rows(); ++row) {
    const auto time = table->number(row, time_column, kTimes);
    if (!time) return time.error();
    DeviceTypeId type(0);
    if (type_column >= 0) {
      type = cluster.find_type(table->cell(row, type_column));
      if (!type.valid())
        return table->error_at(row, type_column, "expected a device type of the cluster");
    }
    const auto devices =
        table->integer(row, device_column, {0, static_cast<double>(cluster.capacity()[type])});
    if (!devices) return devices.error();
    loads.push_back({*time, type, static_cast<int>(*devices)});
  }
  sort_by_time(loads);
  return loads;
}

}  // namespace rubato
