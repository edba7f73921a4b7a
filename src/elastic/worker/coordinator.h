// The membership of one worker, put to work: a thread tells the state machine
// (membership/machine.h) what happens and carries out what it says, with the mesh, the registry,
// the node's memory and the streams to other nodes. None of these knows the protocol, and this
// class decides nothing: which state follows which is in membership/table.cpp.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "elastic/data/batch_rule.h"
#include "elastic/job/async_registry.h"
#include "elastic/job/job_folder.h"
#include "elastic/job/node_names.h"
#include "elastic/membership/machine.h"
#include "elastic/memory/memory_touch.h"
#include "elastic/memory/node_memory.h"
#include "elastic/transport/mesh.h"
#include "elastic/transport/node_streams.h"
#include "elastic/worker/speed_watch.h"
#include "elastic/worker/training_port.h"

namespace rubato::elastic {

class Coordinator final : private Mesh::Listener {
 public:
  struct Options {
    JobSettings settings;
    int worker = 0;
    ProgramShape shape;
    std::string description;  // what is trained and in which shape; must be equal on all workers
    std::vector<Program::Trait> fingerprint;
    std::int64_t first_step = 0;                 // founder: the step its state is at
    std::optional<std::int64_t> founds_after{};  // the empty view after which it may found the job
    int logical_slots = 1;   // founder: the number of logical workers the board has room for
    std::int64_t batch = 1;  // consistent job: samples per logical worker
    BatchRule batches;
    std::optional<DataBoardShape> data;                 // adaptive job
    std::function<void(const nlohmann::json&)> record;  // writes an event to the job's event log
    NodeIdentity node;
  };
  static Result<std::unique_ptr<Coordinator>> start(const Options& options, Registry& registry,
                                                    const std::string& secret,
                                                    std::shared_ptr<const WorkerSegment> own);
  ~Coordinator() override;

  TrainingPort& port() { return port_; }
  // Whether this worker still leads: no later view with another leader exists. The others cannot
  // end an excluded worker on another node, so it must check this before it touches anything
  // reserved for the leader. Asks the registry and waits for the answer.
  bool newest_leads(const View& view);
  // This worker ends normally. Waits until other nodes have everything from it that they need to
  // continue.
  void depart();

 private:
  // A view that is being prepared.
  struct Mapping {
    membership::ViewPtr view;
    membership::Proposal proposal;
    std::unique_ptr<MemoryTouch> touch;
  };

  Coordinator(const Options& options, Registry& registry, const std::string& secret,
              std::shared_ptr<const WorkerSegment> own);

  // The loop
  void run();
  void say(const membership::Input& input);
  void say_all(const std::vector<membership::Input>& inputs);
  void look_around();
  void end();
  NodeStreams::Situation situation();
  const std::string& node() const { return options_.node.name; }
  int id() const { return options_.worker; }

  // Mesh::Listener
  void on_connected(const WorkerAddress& peer) override;
  void on_message(int peer, Message message, const nlohmann::json& body) override;
  void on_lost(int peer, const std::string& why) override;
  std::function<void(Stream)> on_stream(int peer, const nlohmann::json& purpose) override;
  void on_tampering(int peer, const std::string& what) override;

  // coordinator_effects.cpp: what the state machine says
  void carry_out(const membership::Want& effect);
  void carry_out(const membership::Send& effect);
  void carry_out(const membership::Forget& effect);
  void carry_out(const membership::Fence& effect);
  void carry_out(const membership::ReadViews& effect);
  void carry_out(const membership::Swap& effect);
  void carry_out(const membership::MakeBoard& effect);
  void carry_out(const membership::AdoptBoard& effect);
  void carry_out(const membership::DropBoard& effect);
  void carry_out(const membership::Map& effect);
  void carry_out(const membership::StopPublishing& effect);
  void carry_out(const membership::Restore& effect);
  void carry_out(const membership::CopyFrom& effect);
  void carry_out(const membership::TellFound& effect);
  void carry_out(const membership::TellObserve& effect);
  void carry_out(const membership::Observe& effect);
  void carry_out(const membership::Hold& effect);
  void carry_out(const membership::Release& effect);
  void carry_out(const membership::Announce& effect);
  void carry_out(const membership::Begin& effect);
  void carry_out(const membership::TellFinished& effect);
  void carry_out(const membership::TellLeave& effect);
  void carry_out(const membership::Record& effect);
  void answer(membership::Input input) { answers_.push_back(std::move(input)); }

  // What takes a while
  void continue_fences();
  void continue_mapping();
  bool mapped(Mapping& mapping);
  void continue_restoring();
  void watch_streams();
  void find_donor();
  void lead();
  void continue_departure();

  Options options_;
  Registry& registry_;
  std::unique_ptr<Mesh> mesh_;
  TrainingPort port_;
  NodeMemory memory_;
  NodeStreams streams_;
  std::set<int> tampered_;  // peers whose connection carried something else than they sent
  SpeedWatch speeds_;
  std::optional<membership::Machine> machine_;
  std::optional<AsyncRegistry> async_registry_;
  std::thread thread_;
  std::atomic<bool> stopping_{false};

  // --- Used only by the thread ---
  std::vector<membership::Input> answers_;    // to effects, and news of the mesh
  std::map<int, membership::Time> fences_;    // by worker: not before
  std::map<std::int64_t, Mapping> mappings_;  // by view
  std::optional<membership::Restore> restoring_;
  std::optional<int> donor_;  // wanted, and not found yet
  std::optional<membership::ViewLog::Ticket> fresh_;
  std::int64_t fresh_view_ = 0;
  std::int64_t known_revision_ = 0;
  membership::ViewPtr moved_on_;  // the view whose memory is mapped
  std::int64_t reported_refusals_ = 0;
  std::optional<std::chrono::steady_clock::time_point> broken_since_;
  std::optional<std::chrono::steady_clock::time_point> finished_at_;
};

}  // namespace rubato::elastic
