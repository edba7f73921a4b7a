// The end of the event log that several daemons share, in etcd. One of them leads: it alone
// appends. The others stand by: they append what it has appended to stores of their own.
//
// Keys, all below the prefix of the URL, with values of JSON:
//
//   leader           who leads: id, url, tokens, and `claim`, which is new in every claim
//   beat             a count that the leader raises while it lives: {"claim", "count"}
//   newest           the number of the last event, the store's identity, `commit`, the id of the
//                    transaction that wrote it, and with which event the shared log began
//   log/FIRST        the events of one commit, by the number of the first
//   part/FIRST/COMMIT/N  a piece of them, if they are too long for one value
//   standby/ID       a daemon that follows: its url, and up to which event its store is durable
//   job/UID/...      registries of jobs (shared_registry.h)
//
// What holds at any moment:
//   1. `leader` changes only by a transaction that compares it with the value that the claimant has
//      read, together with `beat` and `newest`. So of several claimants one wins, none wins against
//      a leader that has given a sign of life, and the winner knows the last event.
//   2. An event is appended only by a transaction that compares `leader` with the writer's own
//      claim and `newest` with the last event it knows. So a daemon that does not lead any more can
//      append nothing, whatever it believes and however long it was stopped, and events have no
//      gaps and no twins.
//   3. Nothing is acknowledged to anybody before it is appended here.
//   4. Events are deleted only by their leader (the same comparison), and only those that are in
//      the stores of the leader and of all that follow; or, when there are too many, that of a
//      standby which lags behind: it fetches a copy of the leader's store.
// Time decides nothing but when to try: no lease is used, and no two machines compare clocks.
//
// A call whose answer was lost may have been carried out. It is repeated, and the ids in the values
// tell whether the first try had won (kDone), or it is not known yet (kUnknown).
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "control/state.h"
#include "elastic/job/etcd_client.h"
#include "elastic/job/registry_url.h"

namespace rubato::control {

// A value of a key, as it is stored, for comparisons; and what it says.
struct LeaderKey {
  std::string text{};
  std::string id{};      // of the daemon; empty: it has resigned
  std::string url{};     // where it answers
  std::string tokens{};  // digest of the tokens that it accepts
  std::string claim{};
  std::int64_t term = 0;  // claims by other daemons than the one before
};
struct NewestKey {
  std::string text{};
  std::string store{};
  std::int64_t seq = 0;
  std::string commit{};        // empty: nothing was appended yet
  std::int64_t began = 0;      // the last event before the first that was appended here
  std::string began_digest{};  // of that event
};

class SharedLog {
 public:
  using Timing = elastic::EtcdClient::Timing;
  SharedLog(const elastic::RegistryUrl& url, Timing timing)
      : prefix_(url.path), client_(url.servers, timing) {}

  // What a daemon sees that does not lead, of one moment.
  struct View {
    std::optional<LeaderKey> leader{};  // nothing: nobody has ever led
    std::optional<NewestKey> newest{};
    std::string beat{};  // as it is stored
  };
  Result<View> look();

  enum class Outcome {
    kDone,
    kLost,     // another daemon leads now
    kAway,     // etcd does not answer; nothing has changed
    kUnknown,  // it was sent, but not answered; it may still happen
  };
  struct Answer {
    Outcome outcome = Outcome::kAway;
    std::string problem{};
  };

  // --- Leading
  // Claims the leadership if everything is still as in `seen`. Fills in the text of `wish`. `first`
  // is written if there is no `newest` yet.
  Answer claim(const View& seen, LeaderKey& wish, const NewestKey& first);
  // The leader claims it anew: `now` replaces `was`, and no transaction that compares the old claim
  // can succeed any more. `newest` becomes what it is at that moment.
  Answer renew(const LeaderKey& was, LeaderKey& now, NewestKey& newest);
  // Appends events, whose numbers follow `newest`, which becomes what it is then. With kUnknown,
  // `pending` becomes what it is if the events are appended after all.
  struct Commit {
    std::vector<std::string> events;  // as JSON (shared_event)
    std::int64_t first = 0;
  };
  Answer append(const LeaderKey& leader, NewestKey& newest, const Commit& commit,
                NewestKey& pending);
  Answer beat(const LeaderKey& leader, std::int64_t count);
  // Deletes the commits whose first event is before this one.
  Answer trim(const LeaderKey& leader, std::int64_t first);
  // Leaves the leadership to whoever stands by, at once.
  void resign(const LeaderKey& leader);

  // --- Following
  // Events after `seq`, oldest first: those of some commits. Nothing: the next event is not here
  // any more.
  Result<std::optional<std::vector<nlohmann::json>>> events_after(std::int64_t seq,
                                                                  const NewestKey& newest);
  // The event with this number, as it is stored; nothing if it is not here any more.
  Result<std::optional<nlohmann::json>> event_at(std::int64_t seq);
  // The numbers of the first events of all commits, in order.
  Result<std::vector<std::int64_t>> firsts();

  struct Standby {
    std::string id{};
    std::string url{};
    std::int64_t seq = 0;    // its store is durable up to this event; -1: it fetches a copy
    std::int64_t count = 0;  // rises while it lives
  };
  Status report(const Standby& standby);
  Status forget(const std::string& id);
  Result<std::vector<Standby>> standbys();

  // --- Other keys, of a place such as "job/UID/"
  struct Pair {
    std::string key;  // after the place
    std::string value;
  };
  // All of a place.
  Result<std::vector<Pair>> read(const std::string& place);
  // Creates the key if it does not exist yet. `won`: it has this value now, which must be unlike
  // any other that is ever tried. With kDone but not `won`, it has another.
  Answer create(const LeaderKey& leader, const std::string& name, const std::string& value,
                bool& won);
  // Deletes a key, or all keys of a place if the name ends with a slash.
  Answer remove(const LeaderKey& leader, const std::string& name);

 private:
  std::string key(const std::string& name) const { return prefix_ + "/" + name; }
  // A transaction that compares these keys with values ("": it does not exist).
  struct Compared {
    std::string key;
    std::string value;
  };
  Result<nlohmann::json> transact(const std::vector<Compared>& compare, nlohmann::json success,
                                  nlohmann::json failure);
  Answer guarded(const LeaderKey& leader, nlohmann::json success);
  Answer put_parts(const LeaderKey& leader, const NewestKey& newest, const std::string& place,
                   const std::string& text, std::size_t& parts);
  Result<nlohmann::json> whole(const nlohmann::json& entry);

  const std::string prefix_;
  elastic::EtcdClient client_;
};

// An event as it is in the shared log, and back. Only what a store keeps.
std::string shared_event(const Event& event, const std::string& body);
// Equal events have equal digests.
Result<std::string> shared_digest(Event event);
Result<Event> event_from_shared(const nlohmann::json& stored);

}  // namespace rubato::control
