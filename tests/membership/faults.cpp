// What the world does to a job.
#include <fmt/format.h>

#include <algorithm>

#include "membership/process.h"

namespace rubato::elastic::membership::sim {

void World::cut(int from, int to, Micros until) {
  if (from == to) return;
  network_.cut(from, to, until);
  for (const auto& process : processes_) {
    if (process->alive() && process->node() == to) process->link_was_cut(from, until);
  }
}

Process* World::pick(int among, bool exact) {
  if (exact) {
    const bool known = among >= 0 && among < static_cast<int>(processes_.size());
    return known && process(among).alive() ? processes_[static_cast<std::size_t>(among)].get()
                                           : nullptr;
  }
  std::vector<Process*> alive;
  for (const auto& process : processes_) {
    if (process->alive()) alive.push_back(process.get());
  }
  if (alive.empty()) return nullptr;
  return alive[static_cast<std::size_t>(among) % alive.size()];
}

// The fault with the workers that it hits now; nothing if there are none.
std::optional<Fault> World::resolve(const Fault& fault) {
  Fault result = fault;
  result.at = now_;
  result.when.reset();
  result.after = result.patience = 0;
  result.at_whom = false;
  result.exact = true;
  switch (fault.kind) {
    case Fault::Kind::kRegistryDoubt:
    case Fault::Kind::kClock:
    case Fault::Kind::kEnd:
      return result;
    case Fault::Kind::kTarget:
    case Fault::Kind::kPartition:
    case Fault::Kind::kCutLink:
    case Fault::Kind::kSlowLink:
      result.worker %= schedule_.nodes;
      result.other %= schedule_.nodes;
      return result;
    case Fault::Kind::kKill:
    case Fault::Kind::kStop:
    case Fault::Kind::kBreak:
    case Fault::Kind::kMigrate:
    case Fault::Kind::kLeave:
    case Fault::Kind::kSlow:
    case Fault::Kind::kBreakStream:
      break;
  }
  const Process* const worker = pick(fault.worker, fault.exact);
  if (worker == nullptr) return std::nullopt;
  result.worker = worker->id();
  if (fault.kind != Fault::Kind::kBreak) return result;
  const std::vector<int> peers = worker->connected_peers();
  if (peers.empty()) return std::nullopt;
  if (!fault.exact || fault.at_whom) {
    result.other = peers[static_cast<std::size_t>(fault.other) % peers.size()];
  }
  if (std::find(peers.begin(), peers.end(), result.other) == peers.end()) return std::nullopt;
  return result;
}

// Of a fault that is resolved.
void World::apply(const Fault& fault) {
  Process* const worker = pick(fault.worker, true);
  const auto node = static_cast<std::size_t>(fault.worker);
  const auto other = static_cast<std::size_t>(fault.other);
  const auto change = [&](auto&& edit) {
    auto target = std::make_shared<Target>(*target_);
    edit(*target);
    target_ = std::move(target);
  };
  switch (fault.kind) {
    case Fault::Kind::kKill:
      worker->kill();
      break;
    case Fault::Kind::kStop:
      trace(fmt::format("worker {} is stopped for {:.3f} s", worker->id(),
                        static_cast<double>(fault.duration) * 1e-6));
      worker->stop(fault.duration);
      break;
    case Fault::Kind::kBreak:
      trace(fmt::format("the connection of {} and {} breaks", fault.worker, fault.other));
      worker->break_connection(fault.other);
      break;
    case Fault::Kind::kTarget:
      change([&](Target& target) {
        const std::string& name = names_[other];
        const auto amount = static_cast<int>(fault.amount);
        const int others = target.workers - target.on_node(name, names_.front());
        if (others + amount < 1) return;
        trace(fmt::format("{} workers are wanted on node {}", amount, name));
        target.workers = others + amount;
        if (other > 0) target.elsewhere[name] = amount;
      });
      break;
    case Fault::Kind::kMigrate:
      trace(fmt::format("worker {} is to be replaced", worker->id()));
      change([&](Target& target) { target.migrate.push_back(worker->id()); });
      break;
    case Fault::Kind::kLeave:
      trace(fmt::format("worker {} is asked to leave", worker->id()));
      worker->ask_to_leave();
      break;
    case Fault::Kind::kRegistryDoubt:
      doubtful_until_ = std::max(doubtful_until_, now_ + fault.duration);
      break;
    case Fault::Kind::kSlow:
      worker->slow(now_ + fault.duration);
      break;
    case Fault::Kind::kClock:
      wall_offset_ += static_cast<double>(fault.amount);
      break;
    case Fault::Kind::kPartition:
      trace(fmt::format("node {} is cut off{} for {:.3f} s", names_[node],
                        fault.amount != 0 ? ", from the registry too," : "",
                        static_cast<double>(fault.duration) * 1e-6));
      if (fault.amount != 0) {
        network_.cut_registry(static_cast<int>(node), now_ + fault.duration);
      }
      for (int rest = 0; rest < schedule_.nodes; ++rest) {
        cut(static_cast<int>(node), rest, now_ + fault.duration);
        cut(rest, static_cast<int>(node), now_ + fault.duration);
      }
      break;
    case Fault::Kind::kCutLink:
      trace(fmt::format("nothing gets from node {} to {} for {:.3f} s", names_[node], names_[other],
                        static_cast<double>(fault.duration) * 1e-6));
      cut(static_cast<int>(node), static_cast<int>(other), now_ + fault.duration);
      break;
    case Fault::Kind::kSlowLink:
      network_.slow(static_cast<int>(node), static_cast<int>(other), now_ + fault.duration);
      break;
    case Fault::Kind::kBreakStream:
      trace(fmt::format("a stream of worker {} breaks", worker->id()));
      worker->break_stream(fault.other);
      break;
    case Fault::Kind::kEnd:
      trace("the job is to end");
      change([&](Target& target) { target.stop = true; });
      break;
  }
}

}  // namespace rubato::elastic::membership::sim
