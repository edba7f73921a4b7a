// The jobs as seen by a policy that may use only a part of the devices.
#pragma once

#include <deque>
#include <span>
#include <vector>

#include "sched/job_state.h"
#include "sched/tenant_rooms.h"

namespace rubato {

// Jobs as they would be if they had lost their devices outside of `room`. The original states must
// outlive it.
class JobsInRoom {
 public:
  JobsInRoom(std::vector<const JobState*> jobs, const Room& room, Seconds now_s);
  JobsInRoom(const JobsInRoom&) = delete;
  JobsInRoom& operator=(const JobsInRoom&) = delete;

  std::span<const JobState* const> jobs() const { return jobs_; }

 private:
  std::vector<const JobState*> jobs_;
  std::deque<JobState> shrunk_;
};

}  // namespace rubato
