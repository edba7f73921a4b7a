// What is expected of every job next: when it ends, how uncertain that is, and the next change of
// its devices.
//
// The scheduler decides once on a snapshot, as it would now. Three forecasts (snapshot.h) continue
// from that decision under the active policy:
//   expected  steps take as long as measured; a job of unknown length takes as long as every
//             forecast assumes (kUsualLength)
//   early     the steps of every job are as fast as the fastest tenth of the step times that it
//             reported lately (step_times.h), and jobs of unknown length end at once
//   late      they are as slow as the slowest tenth, and jobs of unknown length never end
// A range therefore says what measurements that scatter and lengths that nobody knows can change.
// It does not say what jobs that are submitted later, lost nodes or owners will change.
//
// What is unknown stays empty: the end of a job whose own length or speed is unknown, a range if
// the job reported too few step times, a time that rests on an assumed length and has no upper
// bound, and whatever lies beyond the time for which the forecasts may compute.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "control/snapshot.h"
#include "control/step_times.h"

namespace rubato::control {

// A time from the moment of the snapshot.
struct Expected {
  std::optional<Seconds> at{};
  std::optional<Seconds> earliest{};
  std::optional<Seconds> latest{};
};

// A change of a job's devices.
struct NextChange {
  Expected when{};  // when.at is 0: with the next decision
  int from = 0;
  int to = 0;
  std::vector<JobNumber> after{};  // jobs whose end makes it possible
  std::vector<JobNumber> gains{};  // of a loss: jobs that get devices in the same decision
};

struct JobOutlook {
  Expected end{};
  std::optional<NextChange> change{};
  // It was followed to its end and keeps its devices until then.
  bool keeps = false;
};

struct Outlook {
  double at = 0;  // of the snapshot, in seconds since 1970
  std::map<JobNumber, JobOutlook> jobs{};
};

struct OutlookLimits {
  double seconds = 1.2;  // for all forecasts; the decision before them is never cut short
  std::function<bool()> should_stop{};  // nobody wants the answer any more
};

Result<Outlook> outlook_of(const Snapshot& snapshot, const std::map<JobNumber, StepSpread>& spreads,
                           const OutlookLimits& limits = {});

// {"end_in_s", "earliest_s", "latest_s", "change": null or {"in_s", "earliest_s", "latest_s",
// "from", "to", "after": [id], "gains": [id]}, "text"}: times from `passed_s` seconds after the
// snapshot, null if they are unknown, and a sentence that says the same. `name_of` is what people
// call a job; empty: the caller may not see it, and it is not listed.
nlohmann::json outlook_json(const JobOutlook& job, double passed_s,
                            const std::function<std::string(JobNumber)>& name_of);

}  // namespace rubato::control
