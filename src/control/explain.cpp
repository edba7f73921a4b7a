#include "control/explain.h"

#include <fmt/format.h>

#include <algorithm>

#include "sched/reasons.h"

namespace rubato::control {

namespace {

struct Usage {
  int reserved = 0;
  int granted = 0;         // to others
  int tenant_granted = 0;  // to other jobs of the tenant
  int ahead = 0;           // queued jobs that were submitted earlier
  int free(const Machine& machine) const {
    return std::max(0, machine.devices - reserved - granted);
  }
};

Usage usage_of(const JobRecord& job, const State& state) {
  Usage usage;
  for (const auto& [number, reservation] : state.reservations)
    usage.reserved += reservation.devices;
  for (const auto& [number, other] : state.jobs) {
    if (number == job.number || ended(other.phase)) continue;
    usage.granted += other.granted;
    if (other.tenant == job.tenant) usage.tenant_granted += other.granted;
    if (other.phase == Phase::kQueued && number < job.number) ++usage.ahead;
  }
  return usage;
}

std::string describe_code(const std::string& code_text) {
  for (int i = 0; i <= static_cast<int>(Reason::kRejected); ++i) {
    const auto reason = static_cast<Reason>(i);
    if (code(reason) == code_text) return std::string(explanation(reason));
  }
  return "";
}

nlohmann::json blockers_of(const JobRecord& job, const State& state, const std::string& own) {
  nlohmann::json blockers = nlohmann::json::array();
  int hidden = 0;
  for (const auto& [number, other] : state.jobs) {
    if (number == job.number || other.granted == 0 || ended(other.phase)) continue;
    if (!own.empty() && other.tenant != own) {
      hidden += other.granted;
      continue;
    }
    blockers.push_back({{"job", job_name_of(number)},
                        {"name", job_title(other.document)},
                        {"devices", other.granted}});
  }
  if (hidden > 0) blockers.push_back({{"tenant", "others"}, {"devices", hidden}});
  for (const auto& [number, reservation] : state.reservations) {
    blockers.push_back({{"reservation", number}, {"devices", reservation.devices}});
  }
  return blockers;
}

std::string remedy_for(const JobRecord& job, const Usage& usage, const State& state,
                       const Machine& machine) {
  const auto tenant = state.tenants.find(job.tenant);
  const int quota = tenant == state.tenants.end() ? 0 : tenant->second.quota;
  const int least = job.document.min_devices;
  if (quota > 0 && least > quota - usage.tenant_granted) {
    return fmt::format(
        "tenant {} has a quota of {} devices and holds {}; wait for its other jobs, or ask for a "
        "higher quota",
        job.tenant, quota, usage.tenant_granted);
  }
  if (least > machine.devices - usage.reserved) {
    return fmt::format(
        "{} of {} devices are reserved; release a reservation, or ask for at most {}",
        usage.reserved, machine.devices, machine.devices - usage.reserved);
  }
  if (least > 1) {
    return fmt::format("it needs {} devices at once; 'devices: 1..{}' would let it start on one",
                       least, job.document.max_devices);
  }
  return "wait for a running job to end or shrink; a higher priority would move it forward";
}

}  // namespace

nlohmann::json explain(const JobRecord& job, const State& state, const Machine& machine,
                       const std::string& own) {
  const Usage usage = usage_of(job, state);
  nlohmann::json answer = {
      {"job", job_name_of(job.number)},
      {"phase", std::string(to_string(job.phase))},
      {"code", job.reason.empty() ? std::string(to_string(job.phase)) : job.reason},
      {"numbers",
       {{"devices", job.granted},
        {"held", job.held},
        {"min_devices", job.document.min_devices},
        {"max_devices", job.document.max_devices},
        {"machine", machine.devices},
        {"reserved", usage.reserved},
        {"granted_to_others", usage.granted},
        {"free", usage.free(machine)},
        {"queued_before", usage.ahead}}},
      {"blockers", nlohmann::json::array()},
      {"remedy", ""}};
  const std::string decision = describe_code(job.reason);
  switch (job.phase) {
    case Phase::kQueued:
      answer["text"] = fmt::format(
          "waits for {} device{}: {} of {} free, {} reserved, {} queued before it{}",
          job.document.min_devices, job.document.min_devices == 1 ? "" : "s", usage.free(machine),
          machine.devices, usage.reserved, usage.ahead, decision.empty() ? "" : "; " + decision);
      answer["blockers"] = blockers_of(job, state, own);
      answer["remedy"] = remedy_for(job, usage, state, machine);
      break;
    case Phase::kRunning:
      answer["text"] =
          fmt::format("runs on {} of {} to {} devices{}", job.granted, job.document.min_devices,
                      job.document.max_devices, decision.empty() ? "" : "; " + decision);
      if (job.scale > 0) {
        answer["remedy"] = fmt::format(
            "its owner asked for exactly {}; 'rubato scale {} 0' leaves "
            "it to the policy",
            job.scale, job_name_of(job.number));
      } else if (job.max_useful > 0) {
        answer["remedy"] =
            fmt::format("measurements show that more than {} devices are slower", job.max_useful);
      }
      break;
    case Phase::kPaused:
      answer["text"] = "paused by its owner";
      answer["remedy"] = fmt::format("rubato resume {}", job_name_of(job.number));
      break;
    case Phase::kFailed:
      answer["text"] = job.message;
      answer["remedy"] = fmt::format("rubato logs {}", job_name_of(job.number));
      break;
    case Phase::kFinished:
    case Phase::kCancelled:
      answer["text"] = fmt::format("has ended ({})", to_string(job.phase));
      break;
  }
  return answer;
}

}  // namespace rubato::control
