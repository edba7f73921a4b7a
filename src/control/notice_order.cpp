#include "control/notice_order.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

namespace rubato::control {

namespace {

// Per node the smaller number of devices, in the order of the first.
JobPlacement in_both(const JobPlacement& first, const JobPlacement& second) {
  JobPlacement both;
  for (NodeDevices part : first) {
    const auto other = std::find_if(second.begin(), second.end(), [&](const NodeDevices& each) {
      return each.node == part.node && each.device_type == part.device_type;
    });
    if (other == second.end()) continue;
    part.devices = std::min(part.devices, other->devices);
    both.push_back(part);
  }
  return both;
}

// All but the newest of what each job holds are left out.
void leave_out_older(std::vector<Notice>& notices) {
  std::map<JobNumber, std::size_t> newest;
  for (std::size_t i = 0; i < notices.size(); ++i) {
    if (notices[i].kind == Notice::Kind::kHeld) newest[notices[i].job] = i;
  }
  std::size_t at = 0;
  std::erase_if(notices, [&](const Notice& notice) {
    const std::size_t here = at++;
    return notice.kind == Notice::Kind::kHeld && newest.at(notice.job) != here;
  });
}

}  // namespace

std::vector<Notice> in_recorded_order(std::vector<Notice> notices, const State& state) {
  leave_out_older(notices);
  std::vector<Notice> events;
  std::vector<Notice> giving_back;
  std::vector<Notice> others;
  for (Notice& notice : notices) {
    if (notice.kind == Notice::Kind::kEvent || notice.kind == Notice::Kind::kError) {
      events.push_back(std::move(notice));
      continue;
    }
    const auto job = state.jobs.find(notice.job);
    if (notice.kind == Notice::Kind::kHeld && job != state.jobs.end()) {
      Notice less = notice;
      less.nodes = in_both(notice.nodes, job->second.held_nodes);
      less.devices = devices_on(less.nodes);
      const bool is_all = less.nodes == notice.nodes;
      if (less.devices < devices_on(job->second.held_nodes)) {
        giving_back.push_back(std::move(less));
        if (is_all) continue;
      }
    }
    others.push_back(std::move(notice));
  }
  std::move(giving_back.begin(), giving_back.end(), std::back_inserter(events));
  std::move(others.begin(), others.end(), std::back_inserter(events));
  return events;
}

}  // namespace rubato::control
