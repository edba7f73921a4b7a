// What the launcher of a further node ('rubato join') reports about its workers in the job's
// folder. The home launcher needs it to know when nobody is left, because only a launcher sees its
// processes end.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "elastic/job/job_folder.h"
#include "elastic/job/view.h"

namespace rubato::elastic {

struct NodeStatus {
  std::vector<int> workers;  // living processes
  std::int64_t beat = 0;     // heartbeat: grows as long as the launcher lives
};

Status write_node_status(const JobFolder& folder, const std::string& node,
                         const NodeStatus& status);
Result<NodeStatus> read_node_status(const JobFolder& folder, const std::string& node);
void remove_node_status(const JobFolder& folder, const std::string& node);

inline constexpr auto kNodeBeat = std::chrono::milliseconds(200);

// Watches the heartbeats of other nodes. Clocks of different machines are not compared: a launcher
// is gone if its heartbeat has not changed for `patience`, measured by this process.
class NodeWatch {
 public:
  NodeWatch(JobFolder folder, std::string own, std::chrono::steady_clock::duration patience)
      : folder_(std::move(folder)), own_(std::move(own)), patience_(patience) {}

  void look();
  // Whether a member of the view on another node is alive, as far as known. An unknown launcher
  // counts as alive until `patience` has passed, an unlisted worker for a few heartbeats.
  bool any_alive(const View& view);
  // Whether the launcher of the node is alive (an unknown one counts as alive likewise).
  bool launcher_alive(const std::string& node);
  void forget(const std::string& node) { nodes_.erase(node); }

 private:
  struct Seen {
    NodeStatus status;
    std::chrono::steady_clock::time_point changed;
  };
  Seen& seen(const std::string& node);

  JobFolder folder_;
  std::string own_;
  std::chrono::steady_clock::duration patience_;
  std::map<std::string, Seen> nodes_;
  std::int64_t dead_view_ = 0;
  std::chrono::steady_clock::time_point dead_since_;
};

}  // namespace rubato::elastic
