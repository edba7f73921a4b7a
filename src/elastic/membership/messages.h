// What workers tell each other. One struct per kind of message; transport/message_text.h has them
// as text.
//
// A message is either about a view, and then carries the view's number, or a request that stays
// valid whatever view runs (to join, to leave). A receiver looks at the first kind only through
// Current<M>, which cannot be made of a message that is older than what the receiver knows.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "elastic/job/view.h"
#include "elastic/membership/proposal.h"
#include "elastic/worker/program.h"

namespace rubato::elastic::membership {

using ViewPtr = std::shared_ptr<const View>;  // views are immutable

// --- Requests ---
struct Join {  // newcomer -> leader
  WorkerAddress address;
  std::string description;
  std::vector<Program::Trait> traits;
};
struct Accepted {};  // leader -> newcomer
struct Refused {     // leader -> newcomer
  std::string reason;
  bool retry = false;  // another worker in its place may be accepted
};
struct Ready {        // newcomer -> leader
  bool ready = true;  // its state follows the view; false: it could not keep up
};
struct Leave {};      // member -> leader
struct Bye {          // the sender ends, in order
  bool done = false;  // other nodes have everything they need from it
};
struct JobFinished {};  // leader -> all

// --- About a view ---
struct Prepare {  // leader -> everybody who is in this view or in the next one
  ViewPtr view;
  Proposal proposal;
};
struct Prepared {  // answer
  Proposal proposal;
};
struct Freeze {  // recovering worker -> all: publish nothing more until view `next` or a later one
  ViewNumber next = 0;
};
struct Frozen {  // answer: the promise, and the newest step that is complete on the sender's board
  ViewNumber next = 0;
  std::optional<Step> complete;
};
struct Start {  // recovering or founding leader -> members: this view begins
  ViewPtr view;
  std::string source;                // a node that has the step before the first one
  std::vector<std::string> lagging;  // nodes that lack it
  // Whom the view excludes. The receiver may not know all views that they were in.
  std::vector<WorkerAddress> lost;
};
struct Broken {  // member -> leader: view `view` cannot go on
  ViewNumber view = 0;
  std::optional<WorkerId> lost;  // the sender has lost this worker; nothing: the streams broke
  std::string reason;
};

using Message = std::variant<Join, Accepted, Refused, Ready, Leave, Bye, JobFinished, Prepare,
                             Prepared, Freeze, Frozen, Start, Broken>;

inline ViewNumber number_of(const Prepare& m) { return m.view->number; }
inline ViewNumber number_of(const Prepared& m) { return m.proposal.view; }
inline ViewNumber number_of(const Freeze& m) { return m.next; }
inline ViewNumber number_of(const Frozen& m) { return m.next; }
inline ViewNumber number_of(const Start& m) { return m.view->number; }
inline ViewNumber number_of(const Broken& m) { return m.view; }

// A message about a view that is not older than `number`.
template <typename M>
class Current {
 public:
  static std::optional<Current> admit(const M& message, ViewNumber number) {
    if (number_of(message) < number) return std::nullopt;
    return Current(message);
  }
  const M& operator*() const { return *message_; }
  const M* operator->() const { return message_; }

 private:
  explicit Current(const M& message) : message_(&message) {}
  const M* message_;
};

}  // namespace rubato::elastic::membership
