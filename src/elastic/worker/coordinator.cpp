#include "elastic/worker/coordinator.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "elastic/transport/message_text.h"

namespace rubato::elastic {

namespace state = membership::state;

using membership::Input;
using std::chrono::steady_clock;

namespace {

constexpr int kBusyPollMs = 2;  // something is under way that nobody reports
constexpr int kIdlePollMs = 20;

membership::Now now() {
  return {std::chrono::duration_cast<membership::Time>(steady_clock::now().time_since_epoch()),
          unix_seconds()};
}

}  // namespace

Result<std::unique_ptr<Coordinator>> Coordinator::start(const Options& options, Registry& registry,
                                                        const std::string& secret,
                                                        std::shared_ptr<const WorkerSegment> own) {
  WorkerAddress self{
      .id = options.worker, .node = options.node.name, .pid = getpid(), .segment = own->name()};
  auto coordinator =
      std::unique_ptr<Coordinator>(new Coordinator(options, registry, secret, std::move(own)));
  Coordinator* const c = coordinator.get();
  Result<std::unique_ptr<Mesh>> mesh =
      Mesh::open({.job = options.settings.name,
                  .secret = secret,
                  .host = options.node.listen,
                  .failure_timeout_s = options.settings.failure_timeout_s,
                  .encrypt = options.settings.encrypt},
                 self, *coordinator);
  if (!mesh.ok()) return mesh.error();
  c->mesh_ = std::move(*mesh);
  c->machine_.emplace(membership::Setup{
      .self = c->mesh_->self(),
      .description = options.description,
      .traits = options.fingerprint,
      .rules = {options.batches, options.settings.logical_workers, options.settings.home},
      .first_step = options.first_step,
      .founds_after = options.founds_after.value_or(-1),
      .timing = {.registry_interval = registry.look_interval()}});
  c->async_registry_.emplace(
      registry, [c](Input input) { c->port_.add_input(std::move(input)); },
      [record = options.record](const std::string& problem) {
        record({{"type", "error"}, {"message", problem}});
      });
  c->thread_ = std::thread([c] { c->run(); });
  return coordinator;
}

Coordinator::Coordinator(const Options& options, Registry& registry, const std::string& secret,
                         std::shared_ptr<const WorkerSegment> own)
    : options_(options),
      registry_(registry),
      port_([this] { mesh_->wake(); }),
      memory_({.token = options.settings.token,
               .node = options.node,
               .worker = options.worker,
               .shape = options.shape,
               .logical_workers = options.settings.logical_workers,
               .logical_slots = options.logical_slots,
               .batch = options.batch,
               .batches = options.batches,
               .data = options.data},
              std::move(own)),
      streams_(
          options.node.name, options.worker, options.shape,
          {secret, options.settings.name, std::to_string(options.worker), options.settings.encrypt},
          memory_),
      speeds_(options.record) {}

Coordinator::~Coordinator() {
  stopping_ = true;
  if (mesh_) mesh_->wake();
  if (thread_.joinable()) thread_.join();
  async_registry_.reset();  // its thread answers through the mesh
  streams_.stop();
}

bool Coordinator::newest_leads(const View& view) {
  for (;;) {
    const Result<View> newest = newest_view(registry_);
    if (newest.ok()) return newest->number <= view.number || newest->leader == id();
    if (!registry_.may_be_away()) return true;
    if (stopping_ || port_.pending()) return false;  // there is something else to do first
  }
}

void Coordinator::depart() {
  // A worker it waits for may be lost, and detecting that takes the failure timeout.
  port_.depart(std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::duration<double>(2 * options_.settings.failure_timeout_s + 1)));
}

// --- The loop ------------------------------------------------------------------------------------

void Coordinator::run() {
  say(membership::Tick{});
  while (!stopping_) {
    const bool busy = !fences_.empty() || !mappings_.empty() || restoring_ || donor_ ||
                      std::holds_alternative<state::Newcomer>(machine_->state()) ||
                      std::holds_alternative<state::Founding>(machine_->state());
    // Whatever the answers lead to, the peers are heard in between.
    int patience = !answers_.empty() ? 0 : busy ? kBusyPollMs : kIdlePollMs;
    if (const std::optional<membership::Time> wake = machine_->wake_at()) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(*wake - now().time).count();
      patience = static_cast<int>(std::clamp<std::int64_t>(left, 0, patience));
    }
    mesh_->poll(patience);
    // What the board says is read after the messages: a worker that says goodbye has written there
    // before.
    if (memory_.has_board() && machine_->view()) say(memory_.facts(*machine_->view()));
    say_all(std::exchange(answers_, {}));
    say_all(port_.take_inputs());
    look_around();
    say_all(std::exchange(answers_, {}));
    const std::optional<membership::Time> wake = machine_->wake_at();
    if (wake && *wake <= now().time && !port_.departing()) say(membership::Tick{});
  }
  end();
}

void Coordinator::say_all(const std::vector<Input>& inputs) {
  // For a worker that only waits until it has delivered everything, losses no longer matter.
  const bool departing = port_.departing();
  for (const Input& input : inputs) {
    if (departing && std::holds_alternative<membership::Lost>(input)) continue;
    say(input);
  }
}

void Coordinator::say(const Input& input) {
  membership::Effects effects;
  machine_->handle(now(), input, effects);
  if (const auto* entered = std::get_if<membership::Entered>(&input)) {
    memory_.move_on(moved_on_.get(), *entered->view);
    moved_on_ = entered->view;
    donor_.reset();
    std::erase_if(mappings_, [&](const auto& m) { return m.first <= entered->view->number; });
  }
  for (const membership::Effect& effect : effects) {
    std::visit([&](const auto& what) { carry_out(what); }, effect);
  }
}

NodeStreams::Situation Coordinator::situation() {
  const membership::State& current = machine_->state();
  const auto* founding = std::get_if<state::Founding>(&current);
  const bool member = std::holds_alternative<state::Member>(current);
  return {.view = machine_->view(),
          .newest = machine_->log().newest(),
          .member = member || founding != nullptr,
          .newcomer = std::holds_alternative<state::Newcomer>(current) && !port_.frozen(),
          .serves = member || (founding != nullptr && founding->filled),
          .connected = [this](int worker) { return mesh_->connected(worker); },
          .fresh =
              [this] {
                const membership::ViewLog& log = machine_->log();
                if (!fresh_ || fresh_view_ != machine_->view()->number) {
                  fresh_ = log.next_read();
                  fresh_view_ = machine_->view()->number;
                }
                return log.answered(*fresh_);
              }};
}

// Whatever is not reported by anybody.
void Coordinator::look_around() {
  if (memory_.has_board() && mesh_->refused() > reported_refusals_) {
    memory_.board().refused_connections() += mesh_->refused() - reported_refusals_;
    reported_refusals_ = mesh_->refused();
  }
  const membership::ViewLog& log = machine_->log();
  if (log.revision() != known_revision_) {
    known_revision_ = log.revision();
    streams_.know(log.views());
  }
  continue_fences();
  continue_mapping();
  continue_restoring();
  find_donor();
  if (finished_at_ && steady_clock::now() - *finished_at_ >
                          std::chrono::duration<double>(2 * options_.settings.failure_timeout_s)) {
    finished_at_.reset();
    port_.interrupt();  // the rest of the last step will never arrive
  }
  if (memory_.has_board() && machine_->view() && log.newest()) {
    const NodeStreams::Situation now = situation();
    const std::string unusable = streams_.feed_board(now);
    if (!unusable.empty()) answer(membership::BoardFailed{unusable, false});
    streams_.tidy(now);
    watch_streams();
    lead();
  }
  continue_departure();
}

// The last words.
void Coordinator::end() {
  say_all(std::exchange(answers_, {}));
  say_all(port_.take_inputs());  // perhaps that the job is finished
  say(membership::Departs{port_.delivered()});
}

// --- What the mesh says --------------------------------------------------------------------------

void Coordinator::on_connected(const WorkerAddress& peer) { answer(membership::Connected{peer}); }

void Coordinator::on_message(int peer, Message message, const nlohmann::json& body) {
  if (std::optional<membership::Message> parsed = parse_message(peer, message, body)) {
    answer(membership::Received{peer, std::move(*parsed)});
  }
}

void Coordinator::on_lost(int peer, const std::string& why) {
  if (!machine_->view() || machine_->view()->find(peer) == nullptr) memory_.forget_worker(peer);
  answer(membership::Lost{peer, why});
}

std::function<void(Stream)> Coordinator::on_stream(int peer, const nlohmann::json& purpose) {
  if (!machine_->view()) return {};
  return streams_.on_stream(peer, purpose, situation());
}

void Coordinator::on_tampering(int peer, const std::string& what) {
  if (!tampered_.insert(peer).second) return;  // told once, however often it happens
  options_.record({{"type", "error"},
                   {"message", fmt::format("connection to worker {}: {}; it was opened again. The "
                                           "network between the machines alters data, or somebody "
                                           "interferes",
                                           peer, what)}});
}

}  // namespace rubato::elastic
