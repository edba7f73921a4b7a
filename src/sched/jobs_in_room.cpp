#include "sched/jobs_in_room.h"

#include <utility>

#include "sched/placement.h"

namespace rubato {

JobsInRoom::JobsInRoom(std::vector<const JobState*> jobs, const Room& room, Seconds now_s)
    : jobs_(std::move(jobs)) {
  for (PlacementChange& lost : fit_to_usable(jobs_, room)) {
    JobState& job = shrunk_.emplace_back(*jobs_[lost.job]);
    job.executed_until_change_s = job.executed_s(now_s);
    job.service_until_change = job.attained_service(now_s);
    job.changed_at_s = now_s;
    job.resized_at_s = now_s;
    job.allocation = std::move(lost.after);
    jobs_[lost.job] = &job;
  }
}

}  // namespace rubato
