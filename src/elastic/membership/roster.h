// Whom a worker can talk to, and whom it has lost.
#pragma once

#include <map>
#include <set>
#include <string>

#include "elastic/membership/messages.h"

namespace rubato::elastic::membership {

class Roster {
 public:
  void connected(WorkerId peer) {
    connected_.insert(peer);
    lost_.erase(peer);
  }
  void lost(WorkerId peer, const std::string& why) {
    connected_.erase(peer);
    lost_[peer] = why;
  }
  // It said goodbye. `done`: other nodes have everything they need from it.
  void left(WorkerId peer, bool done) {
    lost(peer, "it gave up");
    said_bye_.insert(peer);
    if (done) said_done_.insert(peer);
  }

  bool has(WorkerId peer) const { return connected_.contains(peer); }
  bool has_lost(WorkerId peer) const { return lost_.contains(peer); }
  bool said_bye(WorkerId peer) const { return said_bye_.contains(peer); }
  bool said_done(WorkerId peer) const { return said_done_.contains(peer); }
  std::string reason(WorkerId peer) const {
    const auto found = lost_.find(peer);
    return found == lost_.end() ? "gone" : found->second;
  }
  const std::set<WorkerId>& all() const { return connected_; }

  // Losses of other workers are history.
  template <typename Matters>
  void keep_losses(const Matters& matters) {
    std::erase_if(lost_, [&](const auto& entry) { return !matters(entry.first); });
    std::erase_if(said_bye_, [&](WorkerId worker) { return !matters(worker); });
    std::erase_if(said_done_, [&](WorkerId worker) { return !matters(worker); });
  }

 private:
  std::set<WorkerId> connected_;
  std::map<WorkerId, std::string> lost_;
  std::set<WorkerId> said_bye_;
  std::set<WorkerId> said_done_;
};

}  // namespace rubato::elastic::membership
