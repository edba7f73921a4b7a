// What a worker has to do, as values: outputs of the state machine (machine.h). Drivers carry them
// out in order. Those with an answer say which input it is.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "elastic/membership/inputs.h"

namespace rubato::elastic::membership {

// --- Mesh ---
struct Want {  // a connection to this peer; one of the two dials
  WorkerAddress peer;
  bool dial = false;
};
struct Send {
  WorkerId to = -1;
  Message message;
};
struct Forget {  // its loss is of no interest any more
  WorkerId peer = -1;
};
// End the process of an excluded worker of this node, not before that time: one that said goodbye
// should end by itself, so that its launcher sees how. Answer: Ended.
struct Fence {
  WorkerId worker = -1;
  Time not_before{};
};

// --- Registry ---
// Those newer than `after` (0: only the newest), and the target. Answer: ViewsRead or ReadFailed.
struct ReadViews {
  ViewNumber after = 0;
};
// Commit the view if the number before it is the newest. May be repeated: if exactly this view is
// committed already, it has won. Answer: Swapped.
struct Swap {
  ViewPtr view;
};

// --- Memory ---
struct MakeBoard {  // for the first view of a job. Answer: BoardReady or BoardFailed
  ViewPtr view;
};
struct AdoptBoard {  // that of this node's members, or of its newcomers. Answer: as above
  ViewPtr view;
};
struct DropBoard {};  // the one it made: another worker founded the job
// Everything that the view needs; if this worker leaves with it, only keep in mind what it is.
// Answer: Mapped or MapFailed.
struct Map {
  ViewPtr view;
  Proposal proposal;
};
// From now on nothing of this worker or of other nodes changes the board, until Begin. First closes
// the view on the board for all workers of the node, and the announced ones after it: whoever finds
// a step complete there and then finds the view closed does not go on, neither to the next step nor
// to what other nodes have sent for it. Answer: PublishingStopped, with what is complete after
// that.
struct StopPublishing {};
// For a view that a message started: fetch the step before the first one if this node lacks it,
// open streams to the other nodes and open the view on the board; for all but the node's gateway,
// wait for that. Answer: Restored.
struct Restore {
  ViewPtr view;
  std::string source;
  std::vector<std::string> lagging;
};
struct CopyFrom {  // newcomer: the member whose state to copy
  std::optional<WorkerId> donor;
};

// --- Training thread ---
struct TellFound {};  // fill the board. Answer: Filled
struct TellObserve {  // copy the state of this view and follow it. Answer: FollowsNow
  ViewPtr view;
};
struct Observe {  // follow this view now
  ViewPtr view;
};
struct Hold {  // wait before the next arrival. Answer: Held
  Proposal proposal;
};
struct Release {};
struct Announce {  // the committed view on the board, then Release
  ViewPtr view;
  Proposal proposal;
};
struct Begin {  // train this view from its first step on. Answer: Entered, or MapFailed
  ViewPtr view;
};
struct TellFinished {};
struct TellLeave {
  std::string why;
  bool refused = false;
};

// --- For people ---
struct Record {
  enum class Kind { kLost, kRefused, kError };
  Kind kind = Kind::kError;
  std::optional<WorkerId> worker;
  ViewNumber view = 0;
  std::string text;
};

using Effect =
    std::variant<Want, Send, Forget, Fence, ReadViews, Swap, MakeBoard, AdoptBoard, DropBoard, Map,
                 StopPublishing, Restore, CopyFrom, TellFound, TellObserve, Observe, Hold, Release,
                 Announce, Begin, TellFinished, TellLeave, Record>;
using Effects = std::vector<Effect>;

}  // namespace rubato::elastic::membership
