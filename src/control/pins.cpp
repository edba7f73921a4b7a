#include "control/pins.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <vector>

#include "base/text.h"

namespace rubato::control {

namespace {

Error refused(std::string message) { return {ErrorCode::kRefused, std::move(message)}; }

std::string devices_text(int devices) {
  return fmt::format("{} device{}", devices, devices == 1 ? "" : "s");
}

bool is_power_of_two(int devices) { return std::has_single_bit(static_cast<unsigned>(devices)); }

// What the pins of the other active jobs hold.
struct OtherPins {
  int devices = 0;
  int of_tenant = 0;
  int hidden = 0;                    // of tenants whose jobs the caller does not see
  std::vector<std::string> names{};  // "j3 holds 2"
};

OtherPins other_pins(const JobRecord& job, const State& state, const LiveCluster& cluster,
                     const std::string& own) {
  OtherPins pins;
  for (const auto& [number, other] : state.jobs) {
    if (number == job.number || ended(other.phase) || other.phase == Phase::kPaused) continue;
    const int pinned = pinned_devices(other, cluster);
    if (pinned == 0) continue;
    pins.devices += pinned;
    if (other.tenant == job.tenant) pins.of_tenant += pinned;
    if (own.empty() || other.tenant == own) {
      pins.names.push_back(fmt::format("{} {}", job_name_of(number), pinned));
    } else {
      pins.hidden += pinned;
    }
  }
  if (pins.hidden > 0) pins.names.push_back(fmt::format("other tenants {}", pins.hidden));
  return pins;
}

Status check_size(const JobRecord& job, int devices, const LiveCluster& cluster) {
  const std::string name = job_name_of(job.number);
  const DeviceRange range = device_range(job);
  if (devices > range.high && range.high < job.document.max_devices) {
    return invalid_input(
        fmt::format("devices: {} has {} logical worker{} and can use at most {}, not {}", name,
                    range.high, range.high == 1 ? "" : "s", devices_text(range.high), devices));
  }
  if (devices < range.low || devices > range.high) {
    return invalid_input(
        range.low == range.high
            ? fmt::format("devices: {} runs on {}, not on {}", name, devices_text(range.low),
                          devices)
            : fmt::format(
                  "devices: {} runs on {} to {} devices, not on {}; 0 leaves it to the policy",
                  name, range.low, range.high, devices));
  }
  if (const int most = cluster.most_devices(job.document); devices > most) {
    return invalid_input(fmt::format("devices: {} has {}{}, not {}", cluster.here(),
                                     devices_text(most),
                                     most < cluster.devices() ? " of one type" : "", devices));
  }
  if (job.document.power_of_two_sizes && !is_power_of_two(devices)) {
    return invalid_input(
        fmt::format("devices: {} runs on 1, 2, 4, 8, ... devices (sizes: power_of_two), not on {}",
                    name, devices));
  }
  return ok_status();
}

}  // namespace

int pinned_devices(const JobRecord& job, const LiveCluster& cluster) {
  if (job.scale == 0) return 0;
  int devices = std::min(job.scale, device_range(job).high);
  if (job.document.power_of_two_sizes) {
    devices = static_cast<int>(std::bit_floor(static_cast<unsigned>(devices)));
  }
  return devices <= cluster.most_devices(job.document) && devices >= device_range(job).low ? devices
                                                                                           : 0;
}

Status check_pin(const JobRecord& job, int devices, const State& state, const LiveCluster& cluster,
                 const std::string& own) {
  if (devices == 0) return ok_status();
  Status possible = check_size(job, devices, cluster);
  if (!possible.ok()) return possible;
  const OtherPins pins = other_pins(job, state, cluster, own);
  const auto tenant = state.tenants.find(job.tenant);
  const int quota = tenant == state.tenants.end() ? 0 : tenant->second.quota;
  if (quota > 0 && devices + pins.of_tenant > quota) {
    return refused(fmt::format(
        "{} cannot be guaranteed {}: tenant {} may hold {}, and its other pinned jobs hold {}",
        job_name_of(job.number), devices_text(devices), job.tenant, quota, pins.of_tenant));
  }
  int reserved = 0;
  for (const auto& [number, reservation] : state.reservations) reserved += reservation.devices;
  reserved = std::min(reserved, cluster.devices());
  const int left = cluster.devices() - reserved - pins.devices;
  if (devices <= left) return ok_status();
  return refused(fmt::format(
      "{} cannot be guaranteed {}: of {}, {} {} reserved and {} pinned to other jobs{}; at most {} "
      "can be pinned now",
      job_name_of(job.number), devices_text(devices), devices_text(cluster.devices()), reserved,
      reserved == 1 ? "is" : "are", pins.devices,
      pins.names.empty() ? "" : fmt::format(" ({})", join(pins.names, ", ")), std::max(0, left)));
}

}  // namespace rubato::control
