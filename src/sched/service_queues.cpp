#include "sched/service_queues.h"

#include <algorithm>

namespace rubato {

Seconds ServiceQueues::unforgiven(const Entry& entry, const JobState& job,
                                  const PolicyInput& input) {
  return job.executed_s(input.now_s) - entry.executed_before;
}

double ServiceQueues::service(const Entry& entry, const JobState& job, const PolicyInput& input) {
  return unforgiven(entry, job, input) * job.spec.requested_devices;
}

void ServiceQueues::update(const PolicyInput& input) {
  constexpr double kSlack = 1e-6;
  // Entries and jobs are both in order of arrival.
  std::size_t kept = 0;
  for (std::size_t i = 0, old = 0; i < input.jobs.size(); ++i) {
    const JobId id = input.jobs[i]->spec.id;
    while (old < entries_.size() && entries_[old].job != id) ++old;
    if (old < entries_.size()) {
      entries_[kept++] = entries_[old++];
    } else {
      entries_.resize(std::max(entries_.size(), kept + 1));
      entries_[kept++] = {.job = id, .ticket = next_ticket_++, .waited_from = input.now_s};
      old = entries_.size();
    }
  }
  entries_.resize(kept);
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    Entry& entry = entries_[i];
    const JobState& job = *input.jobs[i];
    if (job.running()) {
      entry.waited_from = input.now_s;
      while (static_cast<std::size_t>(entry.queue) < options_.thresholds.size() &&
             service(entry, job, input) + kSlack >=
                 options_.thresholds[static_cast<std::size_t>(entry.queue)]) {
        ++entry.queue;
        entry.ticket = next_ticket_++;
      }
    } else if (options_.promote > 0 && entry.queue > 0 &&
               input.now_s - entry.waited_from + kSlack >=
                   options_.promote * unforgiven(entry, job, input)) {
      entry.executed_before = job.executed_s(input.now_s);
      entry.queue = 0;
      entry.ticket = next_ticket_++;
    }
  }
}

JobOrder ServiceQueues::order(const PolicyInput& input) const {
  JobOrder order(entries_.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const int urgency = input.jobs[b]->spec.priority - input.jobs[a]->spec.priority;
    if (urgency != 0) return urgency < 0;
    if (entries_[a].queue != entries_[b].queue) return entries_[a].queue < entries_[b].queue;
    return entries_[a].ticket < entries_[b].ticket;
  });
  return order;
}

std::optional<Seconds> ServiceQueues::next_change(const PolicyInput& input,
                                                  const Plan& plan) const {
  std::optional<Seconds> next;
  const auto consider = [&](Seconds at) {
    if (!next || at < *next) next = at;
  };
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    const JobState& job = *input.jobs[i];
    const bool will_run = plan.grants[i].devices.total() > 0;
    if (will_run && static_cast<std::size_t>(entry.queue) < options_.thresholds.size()) {
      const double left =
          options_.thresholds[static_cast<std::size_t>(entry.queue)] - service(entry, job, input);
      consider(input.now_s + left / job.spec.requested_devices);
    } else if (!will_run && options_.promote > 0 && entry.queue > 0) {
      consider(entry.waited_from + options_.promote * unforgiven(entry, job, input));
    }
  }
  return next;
}

std::vector<ParamSpec> queue_params() {
  return {
      {.name = "threshold",
       .default_value = 57'600.0,
       .low = 1,
       .high = 1e9,
       .help = "device-seconds of service after which a job leaves the first queue"},
      {.name = "threshold2",
       .default_value = 0.0,
       .low = 0,
       .high = 1e9,
       .help = "device-seconds of service after which a job leaves the second queue; 0: only two "
               "queues"},
      {.name = "promote",
       .default_value = 0.0,
       .low = 0,
       .high = 1e6,
       .help =
           "a job returns to the first queue after waiting this many times its executed time; 0: "
           "never"}};
}

QueueOptions queue_options(const Params& params) {
  QueueOptions options{.thresholds = {params.number("threshold")},
                       .promote = params.number("promote")};
  const double second = params.number("threshold2");
  if (second > options.thresholds[0]) options.thresholds.push_back(second);
  return options;
}

}  // namespace rubato
