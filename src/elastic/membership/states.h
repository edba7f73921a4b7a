// The states of a worker, each with what it needs to know there and nothing else. table.h says
// which state follows which.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "elastic/membership/inputs.h"
#include "elastic/membership/view_log.h"

namespace rubato::elastic::membership {

// A view that a leader asked this worker to prepare. It answers when all members are connected, the
// board has the view before, and everything is mapped.
struct ToPrepare {
  ViewPtr view;
  Proposal proposal;
  Time asked{};
  bool mapping = false;
  bool mapped = false;
};

// Leader: a planned view on its way.
struct Change {
  enum class Phase {
    kPreparing,   // until everybody has mapped it
    kHolding,     // until the training thread says before which step it waits
    kCommitting,  // until the registry has answered
    kAnnounced,   // until the training thread enters it, or leaves with it
  };
  ViewPtr view;
  Proposal proposal;
  Phase phase = Phase::kPreparing;
  std::set<WorkerId> unprepared;
  double asked_at = 0;  // unix seconds
  Time began{};
};

namespace state {

struct Arriving {            // reads the registry, and founds the job if there is none
  ViewLog::Ticket read = 1;  // the answer that counts
  ViewPtr founding;          // the view of itself that it tries to commit
  ViewPtr joining;           // the view whose board it adopts
};
struct Founding {  // committed a view of itself and waits for the others
  ViewPtr view;
  Time since{};
  bool filled = false;
};
struct Newcomer {  // follows a view that others run
  ViewPtr view;
  std::optional<WorkerId> asked;  // the leader it asked to join
  Time asked_at{};
  bool answered = false;  // by that leader
  bool accepted = false;
  bool follows = false;
  bool said_ready = false;
  std::optional<WorkerId> donor;
  std::optional<ToPrepare> to_prepare;
  std::optional<ViewLog::Ticket> alone_if;  // all members are lost; this answer decides
  std::optional<Time> unheard_since;        // it has lost the leader
};
struct Member {  // trains
  ViewPtr view;
  std::optional<ToPrepare> to_prepare;
  std::optional<WorkerId> asked_to_leave;  // the leader it told
};
struct Frozen {  // promised to publish nothing before view `next`
  ViewPtr view;  // that it trained or followed
  ViewNumber next = 0;
  std::map<WorkerId, ViewNumber> ask;  // who waits for the promise, and for which view
  std::optional<Step> complete;        // on its board
  bool stopped = false;                // nothing more is published
  // It asked others to freeze, and somebody else committed `next`. If that was planned, nobody
  // starts it.
  bool outrun = false;
};
struct Recovering {  // frozen, and brings the others to a view without the lost
  ViewPtr view;      // that it trained or followed
  ViewPtr latest;    // the newest view when it began; null until the registry has answered
  ViewLog::Ticket read = 0;
  enum class Phase {
    kReading,     // until the registry has said what the newest view is
    kFreezing,    // until all survivors have promised to publish nothing
    kCommitting,  // until the registry has answered the swap
    kFencing,     // until the lost workers of this node are dead
  } phase = Phase::kReading;
  std::set<WorkerId> unfrozen;
  std::map<WorkerId, std::optional<Step>> complete;  // by survivor
  std::map<WorkerId, WorkerAddress> lost;            // excluded
  std::set<WorkerId> alive;                          // excluded, but perhaps not dead
  ViewPtr next;                                      // what it commits
  Time began{};
};
struct Restoring {  // a message started a view; its node is not ready for it
  ViewPtr before;   // that it trained or followed
  Start start;
  std::set<WorkerId> alive;  // lost workers of this node that may not be dead
  bool asked = false;
  std::optional<ToPrepare> to_prepare;  // the leader has begun earlier
};
struct Starting {  // the training thread was told to begin a view
  ViewPtr view;
  std::optional<ToPrepare> to_prepare;  // the leader has begun earlier
};
struct Leaving {  // the training thread has done its last step
  ViewPtr view;
  bool delivered = false;
};
struct Finished {};  // the job is done
struct Gone {};      // not part of the job any more

}  // namespace state

using State = std::variant<state::Arriving, state::Founding, state::Newcomer, state::Member,
                           state::Frozen, state::Recovering, state::Restoring, state::Starting,
                           state::Leaving, state::Finished, state::Gone>;

}  // namespace rubato::elastic::membership
