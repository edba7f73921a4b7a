// What happens to a worker, as values: inputs of the state machine (machine.h).
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "elastic/job/job_folder.h"
#include "elastic/membership/messages.h"

namespace rubato::elastic::membership {

using Time = std::chrono::microseconds;  // of a clock that never jumps; its zero means nothing

// --- From the mesh ---
struct Connected {
  WorkerAddress peer;
};
struct Received {
  WorkerId from = -1;
  Message message;
};
struct Lost {  // nothing from this peer is ever received again
  WorkerId peer = -1;
  std::string why;
};
struct Ended {  // answer to Fence: its process has ended
  WorkerId worker = -1;
};

// --- From the registry ---
struct ViewsRead {  // answer to ReadViews: all newer views, in order; a stale answer lacks the last
  std::vector<ViewPtr> views;
  std::shared_ptr<const Target> target;  // null: none was written
};
struct ReadFailed {};
struct RegistryChanged {};  // a hint, of a registry that has them: what was read last is old
// Answer to Swap. It names the view itself: a worker may have asked for two views of one number, a
// planned one and one after a failure, and only one of them can have won.
struct Swapped {
  enum class Outcome { kWon, kLost, kUnknown };
  ViewPtr view;
  Outcome outcome = Outcome::kLost;
};

// --- From memory ---
struct BoardReady {  // answer to MakeBoard and AdoptBoard
  std::string name;
};
struct BoardFailed {  // answer to MakeBoard and AdoptBoard, or a board that is of no use any more
  std::string why;
  bool hopeless = false;  // another worker in its place would fail alike
};
// What the board of this node says of the view that the training thread runs or follows; it may
// run a view before Entered is heard. Facts only grow: an old one is merely less.
struct BoardFacts {
  ViewNumber view = 0;
  bool open = false;          // the board has the view
  bool closed = false;        // a worker of this node has stopped it (StopPublishing)
  ViewNumber next = 0;        // the announced successor; 0: none
  Step next_first_step = 0;   // its first step
  std::vector<Step> reduced;  // by member: the newest step whose slice it has summed
  friend bool operator==(const BoardFacts&, const BoardFacts&) = default;
};
struct Mapped {  // answer to Map
  Proposal proposal;
};
struct MapFailed {  // answer to Map, or without a proposal to Restore or Begin
  std::string why;
  std::optional<Proposal> proposal;
};
struct PublishingStopped {  // answer to StopPublishing
  std::optional<Step> complete;
};
struct Restored {  // answer to Restore: the view is open on this node's board
  ViewNumber view = 0;
};
// Between nodes; this worker is its node's gateway in the view. Repeated now and then while the
// view runs: a worker that has other things to do forgets it.
struct StreamsBroke {
  ViewNumber view = 0;
  std::string why;
};

// --- From the training thread ---
struct Filled {};       // founder: the board has the private states
struct FollowsNow {     // newcomer
  bool follows = true;  // its state follows the view; false: it could not keep up
};
struct Held {  // answer to Hold: it will not arrive at this step before Release or Announce
  Proposal proposal;
  Step step = 0;
};
struct Entered {  // it runs in this view
  ViewPtr view;
};
struct AsksToLeave {};
struct Finishes {};        // leader: the result is written
struct Departs {           // this worker is not in the next view, or the job is over
  bool delivered = false;  // other nodes have everything they need from it
};
struct Speeds {                        // what the watch for stragglers found
  std::map<WorkerId, double> seconds;  // per logical worker; absent: usual
  std::vector<WorkerId> slow;
  bool rebalance = false;
};

struct Tick {};

using Input = std::variant<Connected, Received, Lost, Ended, ViewsRead, ReadFailed, RegistryChanged,
                           Swapped, BoardReady, BoardFailed, BoardFacts, Mapped, MapFailed,
                           PublishingStopped, Restored, StreamsBroke, Filled, FollowsNow, Held,
                           Entered, AsksToLeave, Finishes, Departs, Speeds, Tick>;

}  // namespace rubato::elastic::membership
