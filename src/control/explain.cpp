#include "control/explain.h"

#include <fmt/format.h>

#include <algorithm>

#include "control/dependencies.h"
#include "control/json_fields.h"
#include "control/machine_fit.h"
#include "control/pins.h"
#include "control/quota_check.h"
#include "sched/reasons.h"

namespace rubato::control {

namespace {

using nlohmann::json;

struct Usage {
  int reserved = 0;
  int others = 0;         // granted to other jobs
  int other_tenants = 0;  // part of `others` that jobs of other tenants have
  int ahead = 0;          // queued jobs that were submitted earlier
  int own = 0;
  int tenant() const { return others - other_tenants; }  // granted to other jobs of the tenant
  int free(const LiveCluster& cluster) const {
    return std::max(0, cluster.devices() - reserved - others - own);
  }
};

Usage usage_of(const JobRecord& job, const State& state) {
  Usage usage;
  usage.own = job.granted;
  for (const auto& [number, reservation] : state.reservations)
    usage.reserved += reservation.devices;
  for (const auto& [number, other] : state.jobs) {
    if (number == job.number || ended(other.phase)) continue;
    usage.others += other.granted;
    if (other.tenant != job.tenant) usage.other_tenants += other.granted;
    if (other.phase == Phase::kQueued && number < job.number) ++usage.ahead;
  }
  return usage;
}

std::string counted(int number, const char* what) {
  return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s");
}

json blockers_of(const JobRecord& job, const State& state, const std::string& own) {
  json blockers = json::array();
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

// --- Pins

// Its owner pinned it to a number of devices that it cannot have now.
bool pin_suspended(const JobRecord& job) { return job.scale > 0 && job.granted != job.scale; }

std::string suspended_text(const JobRecord& job, const Usage& usage, const LiveCluster& cluster) {
  const int most = device_range(job).high;
  const std::string why =
      job.scale > most
          ? fmt::format("it can use at most {}", counted(most, "device"))
          : fmt::format("{} here, {} reserved, {} to other jobs",
                        counted(cluster.devices(), "device"), usage.reserved, usage.others);
  return fmt::format("its pin to {} (`rubato scale`) cannot be honoured now: {}",
                     counted(job.scale, "device"), why);
}

// --- Why it has less or more than before

// A command without a mode that was limited to what it uses (live_controller_limits.cpp).
bool is_silent(const JobRecord& job) {
  return job.max_useful > 0 && job.max_useful <= device_range(job).low &&
         job.document.program == elastic::ProgramKind::kUnknown && job.program_workers == 0 &&
         job.progress.empty();
}

std::string change_text(const JobRecord& job, const Usage& usage,
                        const std::optional<Reason>& reason, const LiveCluster& cluster) {
  if (!reason) return "";
  // Those who got its devices may be gone by now.
  const char* others = usage.others > 0 ? "other jobs" : "jobs that have ended since";
  const auto fact = [&](const char* name) { return static_cast<int>(whole_in(job.facts, name)); };
  const bool known = job.facts.contains("before");
  switch (*reason) {
    case Reason::kSlowerOnMore:
      if (is_silent(job)) return "its program has not called the runtime and uses one device";
      return job.max_useful > 0 ? fmt::format("it was measured to be slower on more than {}",
                                              counted(job.max_useful, "device"))
                                : std::string(explanation(*reason));
    case Reason::kLogicalWorkers:
      return fmt::format("it has {} and cannot use more devices",
                         counted(logical_workers_of(job), "logical worker"));
    case Reason::kShrunk:
      if (!known) return fmt::format("it gave devices to {}", others);
      return fmt::format("it had {} and gave {} to {}", fact("before"), fact("to_others"), others);
    case Reason::kGrown:
      if (!known) break;
      return fmt::format("it grew from {}", counted(fact("before"), "device"));
    case Reason::kReclaimed:
      if (!known) break;
      return fmt::format("it had {}, of which some were reserved for something else",
                         fact("before"));
    case Reason::kNodeDown:
      if (!known) break;
      return fmt::format("it had {}, and {} has fewer devices than before", fact("before"),
                         cluster.has_one_node() ? "the machine" : "the cluster");
    default:
      break;
  }
  return std::string(explanation(*reason));
}

// Devices that it does not have although it could use them.
std::string idle_text(const JobRecord& job, const Usage& usage, const State& state,
                      const LiveCluster& cluster) {
  const int more = std::min(usage.free(cluster), device_range(job).high - job.granted);
  if (more <= 0 || job.max_useful > 0) return "";
  const int quota = quota_of(job.tenant, state);
  if (quota > 0 && usage.tenant() + job.granted >= quota) {
    return fmt::format("; tenant {} may hold {} (its quota)", job.tenant, counted(quota, "device"));
  }
  return fmt::format("; {} that it could use {} free, and the policy has not given it more since",
                     counted(more, "device"), more == 1 ? "is" : "are");
}

std::string running_text(const JobRecord& job, const Usage& usage, const State& state,
                         const LiveCluster& cluster) {
  const DeviceRange range = device_range(job);
  std::string text = range.low == range.high
                         ? fmt::format("runs on its {}", counted(job.granted, "device"))
                         : fmt::format("runs on {} (it can use {} to {})",
                                       counted(job.granted, "device"), range.low, range.high);
  if (!cluster.has_one_node()) text += fmt::format(", on {}", placement_text(job.nodes));
  if (job.held < job.granted) {
    text += fmt::format("; {} of them so far, others are being freed or started", job.held);
  }
  if (pin_suspended(job)) return text + "; " + suspended_text(job, usage, cluster);
  if (job.scale > 0) {
    return fmt::format("holds {}: pinned by `rubato scale`; `rubato scale {} 0` removes the pin{}",
                       counted(job.granted, "device"), job_name_of(job.number),
                       job.held < job.granted ? fmt::format("; {} of them so far", job.held) : "");
  }
  const std::string change = change_text(job, usage, reason_of_code(job.reason), cluster);
  if (!change.empty()) text += "; " + change;
  return text + idle_text(job, usage, state, cluster);
}

// --- Why it waits

// A quota below the smallest size of the job: it can never run.
bool above_quota(const JobRecord& job, const State& state) {
  const int quota = quota_of(job.tenant, state);
  return quota > 0 && device_range(job).low > quota;
}

std::string quota_text(const JobRecord& job, const Usage& usage, const State& state, int needs) {
  const int quota = quota_of(job.tenant, state);
  if (above_quota(job, state)) {
    return fmt::format(
        "it needs {}, but tenant {} may hold at most {} (its quota): under this "
        "quota it can never run",
        needs, job.tenant, quota);
  }
  return fmt::format("tenant {} may hold {} and holds {}", job.tenant, counted(quota, "device"),
                     usage.tenant());
}

std::string wait_text(const JobRecord& job, const Usage& usage, const State& state,
                      const LiveCluster& cluster) {
  const auto reason =
      is_reason_to_wait(job.reason) ? reason_of_code(job.reason) : std::optional<Reason>();
  const bool known = reason && job.facts.contains("needs");
  const int needs = known ? static_cast<int>(whole_in(job.facts, "needs")) : device_range(job).low;
  const int free = known ? static_cast<int>(whole_in(job.facts, "free")) : usage.free(cluster);
  std::string text =
      fmt::format("waits for {}: {} of {} free", counted(needs, "device"), free, cluster.devices());
  if (usage.reserved > 0) text += fmt::format(", {} reserved", usage.reserved);
  if (pin_suspended(job)) text += "; " + suspended_text(job, usage, cluster);
  if (!reason) return text + "; nothing has been decided about it yet";
  switch (*reason) {
    case Reason::kWaitsForDevices:
      return text + fmt::format("; other jobs hold {}", usage.others);
    case Reason::kTooFewUsable:
      return text + fmt::format("; it needs {}, and {} can be used at all now", needs,
                                whole_in(job.facts, "usable"));
    case Reason::kTenantQuota:
      return text + "; " + quota_text(job, usage, state, needs);
    case Reason::kTenantShare:
      return text + fmt::format("; tenant {} has its share ({}), other tenants hold {}", job.tenant,
                                counted(usage.tenant(), "device"), usage.other_tenants);
    default:
      text += fmt::format("; {}", explanation(*reason));
      if (usage.others > 0) text += fmt::format("; other jobs hold {}", usage.others);
      return text;
  }
}

std::string remedy_for(const JobRecord& job, const Usage& usage, const State& state,
                       const LiveCluster& cluster) {
  const int quota = quota_of(job.tenant, state);
  const int least = job.facts.contains("needs") ? static_cast<int>(whole_in(job.facts, "needs"))
                                                : device_range(job).low;
  if (above_quota(job, state)) return quota_remedy(job.tenant, quota, least);
  if (job.scale > 0) {
    return fmt::format("'rubato scale {} 0' removes its pin and leaves its devices to the policy",
                       job_name_of(job.number));
  }
  if (quota > 0 && least > quota - usage.tenant()) {
    return fmt::format(
        "tenant {} has a quota of {} devices and holds {}; wait for its other jobs, or ask for a "
        "higher quota",
        job.tenant, quota, usage.tenant());
  }
  if (least > cluster.devices() - usage.reserved) {
    return fmt::format(
        "{} of {} devices are reserved; release a reservation, or ask for at most {}",
        usage.reserved, cluster.devices(), cluster.devices() - usage.reserved);
  }
  if (least > 1) {
    return fmt::format("it needs {} devices at once; 'devices: 1..{}' would let it start on one",
                       least, device_range(job).high);
  }
  return fmt::format(
      "wait for a running job to end or shrink; a higher priority moves it forward: 'rubato set {} "
      "priority=N', now {}",
      job_name_of(job.number), job.document.priority);
}

// It waits for other jobs, whatever the devices.
void explain_waiting(json& answer, const JobRecord& job, const State& state,
                     const std::string& own) {
  answer["code"] = kWaitsForJobs;
  answer["text"] = waits_text(job.waits_for);
  for (const auto& [number, when] : job.waits_for) {
    const auto other = state.jobs.find(number);
    if (other == state.jobs.end() || (!own.empty() && other->second.tenant != own)) continue;
    answer["blockers"].push_back({{"job", job_name_of(number)},
                                  {"name", job_title(other->second.document)},
                                  {"phase", std::string(to_string(other->second.phase))},
                                  {"devices", other->second.granted}});
  }
}

// What the job's result says about the way it was run (elastic/launch/ordinary_program.h).
std::string hint_of(const JobRecord& job) {
  const auto hint = job.result.find("hint");
  return hint != job.result.end() && hint->is_string() ? "; " + hint->get<std::string>() : "";
}

json numbers_of(const JobRecord& job, const Usage& usage, const LiveCluster& cluster, int quota) {
  return {{"devices", job.granted},
          {"held", job.held},
          {"pinned", job.scale},
          {"min_devices", device_range(job).low},
          {"max_devices", device_range(job).high},
          {"machine", cluster.devices()},
          {"reserved", usage.reserved},
          {"granted_to_others", usage.others},
          {"free", usage.free(cluster)},
          {"granted_to_tenant", usage.tenant()},
          {"quota", quota},
          {"queued_before", usage.ahead}};
}

}  // namespace

bool is_reason_to_wait(std::string_view code) {
  const std::optional<Reason> reason = reason_of_code(code);
  if (!reason) return false;
  switch (*reason) {
    case Reason::kWaitsForDevices:
    case Reason::kTooFewUsable:
    case Reason::kWaitsBehind:
    case Reason::kHeldBack:
    case Reason::kPreempted:
    case Reason::kNodeDown:
    case Reason::kReclaimed:
    case Reason::kNotWorthwhile:
    case Reason::kTenantShare:
    case Reason::kTenantQuota:
      return true;
    default:
      return false;
  }
}

json facts_json(const DecisionFacts& facts) {
  return {{"before", facts.before}, {"after", facts.after},   {"needs", facts.needs},
          {"free", facts.free},     {"usable", facts.usable}, {"to_others", facts.to_others}};
}

json explain(const JobRecord& job, const State& state, const LiveCluster& cluster,
             const std::string& own) {
  const Usage usage = usage_of(job, state);
  json answer = {{"job", job_name_of(job.number)},
                 {"phase", std::string(to_string(job.phase))},
                 {"code", job.reason.empty() ? std::string(to_string(job.phase)) : job.reason},
                 {"numbers", numbers_of(job, usage, cluster, quota_of(job.tenant, state))},
                 {"nodes", placement_json(job.nodes)},
                 {"blockers", json::array()},
                 {"remedy", ""}};
  switch (job.phase) {
    case Phase::kQueued:
      if (const std::optional<Misfit> problem = misfit(job, cluster)) {
        answer["code"] = kDoesNotFit;
        answer["text"] = problem->text;
        answer["remedy"] = problem->remedy;
        break;
      }
      if (!job.waits_for.empty()) {
        explain_waiting(answer, job, state, own);
        break;
      }
      if (job.reason == kArrayLimit) {
        answer["text"] =
            fmt::format("waits for its turn: of the {} jobs of {}, {} may run at the same time",
                        job.array.size, job.array.name, job.array.at_once);
        break;
      }
      if (!is_reason_to_wait(job.reason)) answer["code"] = kUndecided;
      answer["text"] = wait_text(job, usage, state, cluster);
      answer["blockers"] = blockers_of(job, state, own);
      answer["remedy"] = remedy_for(job, usage, state, cluster);
      break;
    case Phase::kRunning:
      answer["text"] = running_text(job, usage, state, cluster);
      if (job.scale > 0) {
        if (!pin_suspended(job)) answer["code"] = std::string(code(Reason::kPinned));
        answer["remedy"] = remedy_for(job, usage, state, cluster);
      } else if (is_silent(job)) {
        answer["remedy"] = "'mode: opaque' gives a program all its devices, in one process";
      } else if (job.max_useful > 0) {
        answer["remedy"] = fmt::format("measurements show that more than {} are slower",
                                       counted(job.max_useful, "device"));
      }
      break;
    case Phase::kPaused:
      answer["code"] = std::string(to_string(job.phase));
      answer["text"] = "paused by its owner";
      answer["remedy"] = fmt::format("rubato resume {}", job_name_of(job.number));
      break;
    case Phase::kFailed:
      answer["text"] = job.message;
      answer["remedy"] = fmt::format("rubato logs {}", job_name_of(job.number));
      break;
    case Phase::kFinished:
    case Phase::kCancelled:
      answer["text"] = fmt::format("has ended ({}){}{}", to_string(job.phase), hint_of(job),
                                   job.message.empty() ? "" : ": " + job.message);
      break;
  }
  return answer;
}

void explain_supply(nlohmann::json& answer, const JobRecord& job, const State& state, double now) {
  if (state.supply.empty() || now > state.supply_until || !job.waits_for.empty()) return;
  const bool more = job.phase == Phase::kRunning && job.scale == 0 && job.max_useful == 0 &&
                    job.granted < device_range(job).high;
  if (job.phase != Phase::kQueued && !more) return;
  answer["text"] = answer["text"].get<std::string>() + "; " + state.supply;
}

void explain_stall(nlohmann::json& answer, const JobRecord& job, double now) {
  if (job.stalled_since == 0) return;
  const std::string id = job_name_of(job.number);
  const auto for_s = static_cast<std::int64_t>(std::max(0.0, now - job.stalled_since));
  answer["code"] = "stalled";
  answer["numbers"]["stalled_since"] = job.stalled_since;
  answer["numbers"]["stalled_for_s"] = for_s;
  answer["text"] = fmt::format("stalled: no step for {} s, after step {}; {}", for_s,
                               whole_in(job.progress, "step"), answer["text"].get<std::string>());
  answer["remedy"] = fmt::format(
      "see what it prints: rubato logs {0}; start it again from its last checkpoint: rubato pause "
      "{0}, then rubato resume {0}",
      id);
}

void explain_errors(nlohmann::json& answer, const JobRecord& job) {
  for (const auto& [kind, error] : job.errors.items()) {
    const std::int64_t count = whole_in(error, "count");
    answer["text"] =
        fmt::format("{}; {}: {}{}", text_of(answer, "text"), text_of(error, "place"),
                    text_of(error, "message"), count > 1 ? fmt::format(" ({} times)", count) : "");
  }
}

}  // namespace rubato::control
