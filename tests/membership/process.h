// A simulated worker process: the real state machine, drivers that carry out what it says, and a
// training thread that computes, publishes, waits and repeats as the real one does.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "membership/bridge.h"
#include "membership/world.h"

namespace rubato::elastic::membership::sim {

struct Deliver {
  int from = -1;
  std::int64_t connection = 0;
  Message message;
};
struct Greeted {  // the connection works
  int peer = -1;
  std::int64_t connection = 0;
};
struct Dial {
  int peer = -1;
};
constexpr std::int64_t kItEnded = -1;
struct Silence {  // if nothing was heard from the peer since, it is lost
  int peer = -1;
  std::int64_t serial = 0;
};
struct Train {};
struct TickDue {
  Micros at = 0;
};
struct WakeUp {
  std::int64_t serial = 0;
};
struct AtRegistry {  // the request arrives there
  std::optional<ViewNumber> read;
  ViewPtr write;
};
struct DoFault {
  std::size_t index = 0;
  bool in_vain = false;  // the moment that it waits for has not come
};
struct LookAsLauncher {};
struct FenceDue {
  int worker = -1;
};
// --- Streams between gateways ---
struct LookAtBridges {};
struct DialStream {
  ViewNumber view = 0;
  int gateway = -1;
};
struct StreamData {
  int from = -1;
  ViewNumber view = 0;
  std::int64_t stream = 0;
  Frame frame;
};
struct StreamEnded {
  ViewNumber view = 0;
  std::int64_t stream = 0;
  int silent = -1;  // only if nothing can be heard from this node
};
struct TellBroken {  // if the bridge of this view is still broken
  ViewNumber view = 0;
};
// --- Newcomers on a node without members ---
struct FeedDue {};
struct AskFeed {  // at the donor
  int from = -1;
  ViewNumber view = 0;
  Step step = kNever;
  std::int64_t serial = 0;
};
struct FeedAnswer {
  enum class Kind { kNothing, kSnapshot, kStep, kAnnounce };
  Kind kind = Kind::kNothing;
  std::int64_t serial = 0;
  bool with_gradient = false;
  bool with_slots = false;
  ViewNumber announced = 0;  // kAnnounce; else the view of the step
  Step step = kNever;        // kAnnounce: the first one of the view
  std::size_t members = 0;
  Proposal proposal;
  std::array<Hash, kLogical> slots{};
  Gradient gradient{};
};
struct AskState {  // at the donor: a copy of its state
  int from = -1;
};
struct StateAnswer {
  int donor = -1;
  Hash state = 0;
  Step version = 0;
};
struct GiveUpState {};  // if there is still nobody to copy it from
struct DepartBy {};     // nobody waits for a leaving worker for ever
struct FinishedBy {};   // the rest of the last step will never arrive

struct World::Todo {
  std::variant<Input, Deliver, Greeted, Dial, Silence, Train, TickDue, WakeUp, AtRegistry, DoFault,
               LookAsLauncher, FenceDue, LookAtBridges, DialStream, StreamData, StreamEnded,
               TellBroken, FeedDue, AskFeed, FeedAnswer, AskState, StateAnswer, GiveUpState,
               DepartBy, FinishedBy>
      what;
};

std::string describe(const Message& message);
// In one word, by alternative of Message.
std::string_view message_name(std::size_t which);

class Process {
 public:
  // `board`: the number of the board that newcomers of its node share.
  Process(World& world, int id, int node, int board);

  int id() const { return id_; }
  int node() const { return node_; }
  const std::string& node_name() const { return world_.names_[static_cast<std::size_t>(node_)]; }
  bool alive() const { return alive_; }
  bool stopped() const { return stopped_; }
  bool wants_to_leave() const { return wants_to_leave_; }
  bool told_to_leave() const { return told_to_leave_; }
  const Machine& machine() const { return machine_; }
  Hash fingerprint() const;

  void handle(World::Todo& todo);
  void kill();
  void stop(Micros duration);
  void slow(Micros until) { slow_until_ = until; }
  Micros slow_until() const { return slow_until_; }
  void break_connection(int id);
  void ask_to_leave();
  std::vector<int> connected_peers() const;
  void link_was_cut(int from, Micros until);  // nothing comes from that node
  void break_stream(int which);               // one of its bridges
  std::string doing() const;                  // for people
  bool was_member = false;                    // its launcher has seen it in a view

  // --- For its bridges (bridge.cpp) ---
  Board& board() { return *board_; }
  ViewPtr committed(ViewNumber number) const;
  const std::array<Hash, kLogical>& sums_of(const WorkerAddress& member);
  Bridge* reachable_bridge(int gateway, ViewNumber number);
  std::int64_t new_stream() { return static_cast<std::int64_t>(++world_.order_); }
  void dial_stream(ViewNumber number, int gateway, Micros within);
  void close_stream(ViewNumber number, int gateway, std::int64_t stream, Micros last);
  void send_frame(int gateway, ViewNumber number, std::int64_t stream, Micros& last,
                  const Frame& frame);
  void bridge_soon();
  void bridge_broke(ViewNumber number);
  void published_for_others(const View& view);
  void take_slots(const std::array<Hash, kLogical>& slots, LogicalRange of, Step after);
  void complete_on_board(ViewNumber view, Step step) { world_.complete_on_a_board(view, step); }

 private:
  struct Peer {
    int id = -1;
    bool dials = false;
    bool lost = false;
    std::int64_t connection = 0;  // 0: none
    std::int64_t serial = 0;      // changes with every connection
    Micros last_delivery = 0;
  };
  enum class Phase {
    kIdle,
    kFill,
    kObserve,
    kCompute,
    kHeld,
    kArrived,
    kReduced,
    kWaitEnd,
    kDepart
  };
  enum class Event { kFound, kObserve, kStart, kFinished, kLeave };
  struct Mapping {
    Proposal proposal;
    ViewPtr view;
    bool mapped = false;
    bool answered = false;
  };
  struct Feed {
    ViewNumber view = 0;
    Step step = kNever;
    int donor = -1;
    std::int64_t serial = 0;  // of the request; 0: none under way
  };

  // Drivers
  void handle_input(Input& what);
  void handle(const Silence& silence);
  void input(const Input& input);
  void carry_out(const Effect& effect);
  void carry_out_all(const Effects& effects);
  void tick_by(Micros when);
  void answer(Micros low, Micros high, Input input);
  Peer& peer(int id);
  bool peer_is_gone(int id) const;
  void dial(int id);
  void connect(Process& other);
  WorkerAddress address() const;
  void disconnect(Peer& of, bool tell_other);
  void lose(int id, const std::string& why);
  void send(int to, const Message& message);
  void facts();
  std::optional<Step> complete_here();
  Segment& segment() { return world_.segments_[static_cast<std::size_t>(id_)]; }
  Process& process(int id) const { return *world_.processes_[static_cast<std::size_t>(id)]; }
  const View* current() const { return view_ ? &*view_ : observed_ ? &*observed_ : nullptr; }

  // Memory (boards.cpp)
  void use_board(const std::string& name);
  void adopt_board(const ViewPtr& view);
  void answer_mapped();
  bool lacks_memory_for(const View& view) const;
  void continue_restore();
  void close_blocks();
  Block& last_begun();
  void open_block(const View& view);
  void pulse();
  void check_publishing(const View& in);

  // Streams between nodes (streams.cpp)
  Bridge* bridge(ViewNumber number);
  Bridge& bridge_for(const ViewPtr& view, const std::optional<Restore>& started);
  void drop_other_bridge(const View& view);
  void look_at_bridges();
  void stop_bridges();
  void take_frame(const StreamData& data);
  void stream_ended(const StreamEnded& ended);
  void tell_broken(ViewNumber number);
  void depart(const char* how);
  bool has_fed_all() const;
  bool try_depart(bool at_once = false);

  // Newcomers on a node without members (feed.cpp)
  bool feeds() const;
  bool nothing_to_feed() const;
  void feed_now_and_then();
  void feed();
  void stop_feeding();
  bool members_here(ViewNumber number, bool* known) const;
  void answer_feed(const AskFeed& request);
  FeedAnswer feed_snapshot();
  FeedAnswer next_for(const AskFeed& request);
  void take_feed(const FeedAnswer& answer);
  void tell_donor(ViewNumber entered);
  void ask_state();
  void take_state(const StateAnswer& answer);

  // The training thread
  void train_soon(Micros low = 1, Micros high = 40);
  void train();
  bool waits_no_more();
  bool take_event();
  void enter(const ViewPtr& view);
  void follow();
  void apply(Step step, const Gradient& gradient);
  void compute_next();
  void compute_ends();
  void published();
  void arrive();
  void reduce();
  void complete();
  void mark_completed(Step step);
  void after_step(Step step);
  void end(const char* how);
  Block& block() { return board_->block(view_->number); }
  bool leads() const { return view_ && view_->leader == id_; }

  World& world_;
  int id_;
  int node_;
  int board_number_;
  Machine machine_;
  bool alive_ = true;
  bool stopped_ = false;
  bool wants_to_leave_ = false;
  std::int64_t stop_serial_ = 0;
  Micros tick_at_ = 0;  // the next one; 0: none is due
  Micros slow_until_ = 0;
  std::vector<World::Todo> missed_;  // while stopped
  std::vector<Peer> peers_;

  Board* board_ = nullptr;
  std::string board_name_;
  BoardFacts last_facts_;
  std::map<ViewNumber, Mapping> mapping_;
  std::optional<Micros> in_vain_at_;  // it could not map its own change; no news of losses since
  std::map<ViewNumber, std::pair<Proposal, ViewPtr>> prepared_;
  std::vector<std::unique_ptr<Bridge>> bridges_;
  bool bridging_scheduled_ = false;
  bool has_streams_ = false;
  std::optional<Feed> feed_;
  std::vector<std::pair<int, ViewNumber>> fed_;  // newcomers fed from here, the view they know
  bool interrupted_ = false;
  bool frozen_ = false;
  ViewNumber promised_ = 0;  // others were told that nothing is published before this view
  bool hold_ = false;
  std::optional<Step> held_;
  std::optional<Restore> restoring_;
  ViewPtr to_start_;
  ViewPtr observed_;
  std::optional<int> donor_;
  std::deque<Event> news_;

  Phase phase_ = Phase::kIdle;
  bool training_scheduled_ = false;
  ViewPtr view_;
  std::size_t position_ = 0;  // in the view
  Step computing_ = 0;
  Micros compute_until_ = 0;
  bool told_to_leave_ = false;
  bool has_state_ = false;
  bool asked_state_ = false;
  const char* departs_how_ = "";
  bool said_follows_ = false;
  bool ended_ = false;
};

}  // namespace rubato::elastic::membership::sim
