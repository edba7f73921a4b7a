// A world in which the real membership code runs: simulated time, network, registry, processes,
// launchers and memory. One seed gives one history.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <string>
#include <vector>

#include "elastic/membership/machine.h"
#include "membership/memory.h"
#include "membership/moment.h"
#include "membership/network.h"

namespace rubato::elastic::membership::sim {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15ULL + 1) {}
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }
  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(n));
  }
  std::int64_t between(std::int64_t low, std::int64_t high) { return low + below(high - low + 1); }
  bool one_in(std::int64_t n) { return below(n) == 0; }

 private:
  std::uint64_t state_;
};

// A process that stops for less is not taken for lost.
inline constexpr Micros kStall = 500'000;

// What the world does to a job, and when.
struct Fault {
  enum class Kind {
    kKill,           // worker: the process ends at once
    kStop,           // worker: the process stops for `duration`
    kBreak,          // worker, other: their connection breaks; messages under way are lost
    kTarget,         // the owner wants `amount` workers on node `other`
    kMigrate,        // worker: the owner wants it replaced
    kLeave,          // worker: it is asked to leave (SIGTERM)
    kRegistryDoubt,  // for `duration`, answers to writes say "unknown", and reads fail or are stale
    kSlow,           // worker: for `duration`, its messages take long
    kClock,          // the wall clock jumps by `amount` seconds
    // Between nodes; `worker` and `other` count nodes.
    kPartition,  // for `duration`, nothing gets to or from node `worker`; if `amount` is not 0, not
                 // even the registry
    kCutLink,    // for `duration`, nothing gets from node `worker` to node `other`
    kSlowLink,   // for `duration`, what gets from node `worker` to node `other` takes long
    kBreakStream,  // worker (a process): a stream of a bridge of its breaks
    kEnd,          // the owner wants the job to end
  };
  Micros at = 0;
  Kind kind = Kind::kKill;
  int worker = 0;  // counted among those alive then
  int other = 0;
  std::int64_t amount = 0;
  Micros duration = 0;
  bool exact = false;  // `worker` and `other` are their ids
  // From `at` on it waits for this moment, and comes `after` it; for ever, if no `patience` is set.
  std::optional<Moment> when;
  Micros after = 0;
  Micros patience = 0;
  bool at_whom = false;  // it hits the worker that the moment speaks of
};

struct Schedule {
  std::uint64_t seed = 1;  // of everything that is not a fault
  int nodes = 1;
  int workers = 3;
  Step steps = Reference::kSteps;  // at most; the job ends soon after the last fault
  std::vector<Fault> faults;
  bool patient = false;  // the job lasts until the owner's wishes are met
  // The event that would be number `event` comes after the `behind` that follow it; 0: none.
  struct Postponed {
    std::int64_t event = 0;
    int behind = 0;
  } postponed;

  // The owner only wants other workers, and workers and the registry are slow at times.
  bool nothing_fails() const;
};
Schedule random_schedule(std::uint64_t seed, int nodes, int workers, int faults);
void add_moments(Schedule& schedule, Random& random);

struct Outcome {
  std::string violation;  // "" if all promises held
  Micros ended_at = 0;
  std::int64_t events = 0;
  int views = 0;
  int processes = 0;
  int repeated = 0;     // steps that were computed in two views
  std::string causes;   // of all views
  std::string members;  // of the last view that has some
  // What happened, with times and workers as they turned out.
  std::vector<Fault> faults;
};

class World {
 public:
  explicit World(const Schedule& schedule);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  Outcome run(bool trace = false);
  // Traces are collected in place of being printed.
  void trace_to(std::vector<std::string>* lines) { lines_ = lines; }
  // Called after every event, with its number.
  void observe(std::function<void(std::int64_t)> observer) { observer_ = std::move(observer); }
  // A hash of all machines, boards and what is under way, without times.
  Hash fingerprint() const;
  Micros time() const { return now_; }
  bool settled() const;

 private:
  friend class Process;
  struct Event {
    static constexpr int kOrderBits = 24;
    std::uint64_t key = 0;  // the time, then the order in which events were made
    int process = -1;       // -1: the world itself
    int what = 0;           // index into todo_
    Micros at() const { return static_cast<Micros>(key >> kOrderBits); }
    bool operator>(const Event& other) const { return key > other.key; }
  };
  struct Todo;

  void at(Micros when, int process, Todo&& todo);
  void after(Micros delay, int process, Todo&& todo);
  void carry_out(const Event& event);
  void apply(const Fault& fault);
  // moments.cpp
  void fault_is_due(const struct DoFault& due);
  void moment_came(const Moment& moment);
  void computed(ViewNumber view, Step step);
  std::optional<Fault> resolve(const Fault& fault);
  void end_soon();
  // search.cpp
  void postpone(int behind);
  bool same_stream(const Event& a, const Event& b) const;
  Hash hash_of(const Event& event) const;
  std::string unmet() const;
  void see_to_wishes();
  void launch();
  void launch_on(int node);
  bool begin_again(const View& newest);
  void cut(int from, int to, Micros until);
  Micros delay_between(const class Process& from, const class Process& to);
  // When something that is sent now arrives after what was sent before it.
  Micros arrival(const class Process& from, const class Process& to, Micros& last);
  void at_registry(int process, const struct AtRegistry& request);
  void committed(const View& view);
  void entered(const View& view);
  void completed(const class Process& by, const View& view, Step step);
  void reports_success(const class Process& by, const View* view, Step version);
  void complete_on_a_board(ViewNumber view, Step step);
  void audit();
  ViewNumber incarnation(ViewNumber view) const;
  std::string stuck() const;
  class Process* pick(int among, bool exact = false);
  const class Process& process(int id) const { return *processes_[static_cast<std::size_t>(id)]; }
  void violate(const std::string& what);
  Now now_for_machines() const;
  void trace(const std::string& line) const;

  // What a launcher knows of its node.
  struct Launcher {
    int board = -1;  // of newcomers
    bool had_members = false;
    ViewNumber last_empty = 0;
  };
  struct Completed {  // the last step that a worker completed in a view
    ViewNumber view = 0;
    int worker = -1;
    Step step = 0;
  };

  Schedule schedule_;
  Network network_;
  std::vector<std::string> names_;  // of nodes
  std::vector<Launcher> launchers_;
  Random random_;
  const Reference& reference_;
  Micros now_ = 0;
  double wall_offset_ = 0;
  std::uint64_t order_ = 0;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::vector<Todo> todo_;
  std::vector<int> free_todo_;
  Effects spare_effects_;  // memory to use again
  std::vector<std::unique_ptr<class Process>> processes_;
  std::map<std::string, Board> boards_;
  std::deque<Segment> segments_;  // by worker
  // The registry
  std::vector<ViewPtr> views_;
  std::shared_ptr<const Target> target_;
  Micros doubtful_until_ = 0;
  // What was seen
  std::vector<Completed> completed_;
  std::vector<Step> complete_on_a_board_;  // by view: the last step
  Step checkpoint_ = 0;
  Step last_step_ = 0;
  std::vector<std::size_t> waiting_;  // faults, for their moments
  std::size_t happened_ = 0;          // faults
  Micros faults_end_ = 0;
  bool finished_ = false;
  Micros finished_at_ = 0;
  std::vector<ViewNumber> computed_in_;  // by step: the last view
  int repeated_ = 0;
  std::vector<Fault> as_it_was_;  // faults that happened
  bool by_event_ = false;         // some fault waits for an event
  Hash under_way_ = 0;            // of all that waits to happen, while somebody observes
  std::function<void(std::int64_t)> observer_;
  std::vector<std::string>* lines_ = nullptr;
  bool tracing_ = false;
  std::string violation_;
};

}  // namespace rubato::elastic::membership::sim
