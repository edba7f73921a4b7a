// Which workers are in the next view, and why: a pure function of what the leader knows.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "elastic/data/batch_rule.h"
#include "elastic/job/job_folder.h"
#include "elastic/job/view.h"

namespace rubato::elastic::membership {

// What stays the same as long as the job runs.
struct JobRules {
  BatchRule batches;
  int logical_workers = 1;  // the most workers that can have work
  std::string home;         // the node that started the job
};

struct Candidate {
  WorkerAddress address;
  bool ready = false;
  double since = 0;  // when it asked to join, in unix seconds
};

struct Situation {
  const View& view;  // that runs, or that the founder committed of itself
  const Target& target;
  const std::map<int, Candidate>& newcomers;  // by worker
  const std::set<int>& leaving;               // members that asked to leave
  const std::set<int>& slow;                  // members that a spare should replace
  const std::map<int, double>& seconds;       // per logical worker, by member; absent: 1
  bool rebalance = false;                     // the hosting may not fit the speeds any more
  double now = 0;                             // unix seconds
  std::optional<double> founded_at;           // set while the job is founded
};

struct NextView {
  View view;  // without first_step and prepare_s, which are known only when it is committed
  double asked_at = 0;  // unix seconds
};

struct Decision {
  // Nothing: the view that runs is what is wanted, or as close to it as possible for now.
  std::optional<NextView> next;
  bool balanced = false;  // the hosting was in question, and it fits
};

// Requests that can be met together are met by one view. Cheap, unless there is a next view or the
// hosting is in question: only then the logical workers are divided.
Decision next_view(const JobRules& rules, const Situation& situation);

// Hosts the logical workers on these workers according to their speeds, members of a node next to
// each other, so that a node's sums and slices form few pieces. Fills in members and batch.
void host_evenly(const JobRules& rules, const Target& target, const std::map<int, double>& seconds,
                 std::vector<WorkerAddress> workers, View& view);

}  // namespace rubato::elastic::membership
