#include "membership/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "membership/process.h"

namespace rubato::elastic::membership::sim {

// --- One deviation of the order ------------------------------------------------------------------

// What is sent through one connection or stream, and what a process does by itself, stays in order.
bool World::same_stream(const Event& a, const Event& b) const {
  if (a.process != b.process) return false;
  const Todo& first = todo_[static_cast<std::size_t>(a.what)];
  const Todo& second = todo_[static_cast<std::size_t>(b.what)];
  const auto peer = [](const Todo& todo) {
    if (const auto* message = std::get_if<Deliver>(&todo.what)) return message->from;
    if (const auto* greeting = std::get_if<Greeted>(&todo.what)) return greeting->peer;
    if (const auto* silence = std::get_if<Silence>(&todo.what)) return silence->peer;
    return -1;
  };
  const auto of_bridge = [](const Todo& todo) {
    return std::holds_alternative<StreamData>(todo.what) ||
           std::holds_alternative<StreamEnded>(todo.what);
  };
  if (peer(first) >= 0 && peer(second) >= 0) return peer(first) == peer(second);
  return first.what.index() == second.what.index() || (of_bridge(first) && of_bridge(second));
}

// The earliest event comes after the next ones, as far as that is possible.
void World::postpone(int behind) {
  if (events_.empty()) return;
  const Event late = events_.top();
  events_.pop();
  std::vector<Event> passed;
  while (static_cast<int>(passed.size()) < behind && !events_.empty() &&
         !same_stream(late, events_.top())) {
    passed.push_back(events_.top());
    events_.pop();
  }
  // Those come earlier instead: nothing that is sent from now on can overtake the late one.
  const auto time = static_cast<std::uint64_t>(late.at()) << Event::kOrderBits;
  passed.push_back(late);
  for (Event& event : passed) {
    event.key = time + ++order_;
    events_.push(event);
  }
}

// --- States --------------------------------------------------------------------------------------

Hash World::hash_of(const Event& event) const {
  const Todo& todo = todo_[static_cast<std::size_t>(event.what)];
  Hash hash = mix(static_cast<Hash>(event.process) + 100, todo.what.index());
  if (const auto* message = std::get_if<Deliver>(&todo.what)) {
    hash = mix(mix(hash, static_cast<Hash>(message->from)), message->message.index());
  } else if (const auto* input = std::get_if<Input>(&todo.what)) {
    hash = mix(hash, input->index());
  }
  return mix(hash, 1);
}

Hash World::fingerprint() const {
  Hash hash = mix(under_way_, views_.size());
  for (const auto& process : processes_) hash = mix(hash, process->fingerprint());
  for (const auto& [name, board] : boards_) {
    for (const Block& block : board.blocks) {
      hash = mix(mix(hash, static_cast<Hash>(block.view)), static_cast<Hash>(block.next));
      for (const Row& row : block.rows) {
        hash = mix(mix(hash, static_cast<Hash>(row.arrived)), static_cast<Hash>(row.reduced));
      }
    }
  }
  return hash;
}

Hash Process::fingerprint() const {
  if (!alive_) return 0;
  Hash hash = mix(machine_.state().index(), static_cast<Hash>(phase_));
  hash = mix(hash, view_ ? static_cast<Hash>(view_->number) : 0);
  hash =
      mix(hash, machine_.log().newest() ? static_cast<Hash>(machine_.log().newest()->number) : 0);
  hash = mix(mix(hash, static_cast<Hash>(computing_)), static_cast<Hash>(promised_));
  hash = mix(hash, (stopped_ ? 1U : 0U) | (frozen_ ? 2U : 0U) | (interrupted_ ? 4U : 0U) |
                       (hold_ ? 8U : 0U) | (ended_ ? 16U : 0U) | (has_state_ ? 32U : 0U));
  for (const Peer& of : peers_) {
    hash = mix(hash,
               static_cast<Hash>(of.id) * 4 + (of.connection != 0 ? 2U : 0U) + (of.lost ? 1U : 0U));
  }
  return hash;
}

// --- The search ----------------------------------------------------------------------------------

namespace {

constexpr Micros kQuiet = 390'000;       // the leader soon asks the registry what is wanted
constexpr Micros kLongStop = 3'000'000;  // taken for lost, and wakes up

Fault wish(Fault::Kind kind, int worker = 0, std::int64_t amount = 0) {
  return {.at = kQuiet, .kind = kind, .worker = worker, .amount = amount, .exact = true};
}

// Every planned change, of every worker where that makes a difference.
std::vector<Fault> changes(const SearchBounds& bounds) {
  const int on_first = (bounds.workers + bounds.nodes - 1) / bounds.nodes;
  std::vector<Fault> result = {wish(Fault::Kind::kTarget, 0, on_first + 1),
                               wish(Fault::Kind::kEnd)};
  if (bounds.workers > 1 && on_first > 1)
    result.push_back(wish(Fault::Kind::kTarget, 0, on_first - 1));
  for (int worker = 0; worker < bounds.workers; ++worker) {
    result.push_back(wish(Fault::Kind::kMigrate, worker));
    result.push_back(wish(Fault::Kind::kLeave, worker));
  }
  return result;
}

// Every fault, of every worker and pair, the newcomer included.
std::vector<Fault> faults(const SearchBounds& bounds) {
  std::vector<Fault> result;
  const auto add = [&](Fault::Kind kind, int worker, int other, Micros duration) {
    result.push_back(
        {.kind = kind, .worker = worker, .other = other, .duration = duration, .exact = true});
  };
  for (int worker = 0; worker <= bounds.workers; ++worker) {
    add(Fault::Kind::kKill, worker, 0, 0);
    add(Fault::Kind::kStop, worker, 0, kLongStop);
    for (int other = worker + 1; other <= bounds.workers; ++other) {
      add(Fault::Kind::kBreak, worker, other, 0);
    }
  }
  add(Fault::Kind::kRegistryDoubt, 0, 0, 3'000);
  for (int node = 0; bounds.nodes > 1 && node < bounds.nodes; ++node) {
    add(Fault::Kind::kPartition, node, 0, kLongStop);
    add(Fault::Kind::kCutLink, node, (node + 1) % bounds.nodes, kLongStop);
  }
  return result;
}

class Search {
 public:
  explicit Search(const SearchBounds& bounds) : bounds_(bounds) {}

  SearchResult run() {
    for (const Fault& change : changes(bounds_)) {
      if (!around(change)) break;
    }
    result_.states = static_cast<std::int64_t>(states_.size());
    return result_;
  }

 private:
  // One change, undisturbed, then with everything that may happen at each of its events.
  bool around(const Fault& change) {
    Schedule schedule{
        .nodes = bounds_.nodes, .workers = bounds_.workers, .faults = {change}, .patient = true};
    std::int64_t first = 0;
    std::int64_t last = 0;
    if (!play(schedule, &first, &last)) return false;
    for (std::int64_t event = first; event <= last; ++event) {
      ++result_.points;
      for (Fault fault : faults(bounds_)) {
        fault.when = Moment{.kind = Moment::Kind::kEvent, .number = event};
        Schedule with = schedule;
        with.faults.push_back(fault);
        if (!play(with)) return false;
      }
      for (int behind = 1; behind <= bounds_.behind; ++behind) {
        Schedule with = schedule;
        with.postponed = {event, behind};
        if (!play(with)) return false;
      }
    }
    return true;
  }

  // `first`, `last`: the events after the request, and until the change is done.
  bool play(const Schedule& schedule, std::int64_t* first = nullptr, std::int64_t* last = nullptr) {
    World world(schedule);
    world.observe([&](std::int64_t event) {
      if (world.time() < kQuiet) return;
      states_.insert(world.fingerprint());
      if (first == nullptr || *last > 0) return;
      if (*first == 0) *first = event;
      if (event > *first && world.settled()) *last = event;
    });
    const Outcome outcome = world.run();
    ++result_.runs;
    if (last != nullptr && *last == 0) *last = outcome.events;
    if (outcome.violation.empty()) return true;
    result_.violation = outcome.violation;
    result_.failing = schedule;
    return false;
  }

  SearchBounds bounds_;
  SearchResult result_;
  std::unordered_set<Hash> states_;
};

}  // namespace

SearchResult search(const SearchBounds& bounds) { return Search(bounds).run(); }

}  // namespace rubato::elastic::membership::sim
