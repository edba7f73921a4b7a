#include "membership/world.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "membership/process.h"

namespace rubato::elastic::membership::sim {

namespace {

// When the faults are over, a job must end within this time.
constexpr Micros kBound = 60'000'000;

const Reference& the_reference() {
  static const Reference kReference;
  return kReference;
}

}  // namespace

World::World(const Schedule& schedule)
    : schedule_(schedule),
      network_(schedule.nodes),
      launchers_(static_cast<std::size_t>(schedule.nodes)),
      random_(schedule.seed),
      reference_(the_reference()),
      last_step_(schedule.steps) {
  auto target = std::make_shared<Target>();
  target->workers = schedule.workers;
  for (int node = 0; node < schedule.nodes; ++node) {
    names_.emplace_back(1, static_cast<char>('a' + node));
    if (node > 0) target->elsewhere[names_.back()] = (schedule.workers + node) / schedule.nodes;
  }
  target_ = std::move(target);
}

World::~World() = default;

void World::at(Micros when, int process, Todo&& todo) {
  int index = 0;
  if (free_todo_.empty()) {
    index = static_cast<int>(todo_.size());
    todo_.push_back(std::move(todo));
  } else {
    index = free_todo_.back();
    free_todo_.pop_back();
    todo_[static_cast<std::size_t>(index)] = std::move(todo);
  }
  const std::uint64_t key = (static_cast<std::uint64_t>(when) << Event::kOrderBits) + ++order_;
  const Event event{key, process, index};
  if (observer_) under_way_ += hash_of(event);
  events_.push(event);
}

void World::after(Micros delay, int process, Todo&& todo) {
  at(now_ + delay, process, std::move(todo));
}

Now World::now_for_machines() const {
  return {Time(now_), static_cast<double>(now_) * 1e-6 + 1e9 + wall_offset_};
}

void World::trace(const std::string& line) const {
  if (!tracing_) return;
  const std::string text = fmt::format("{:10.6f} {}", static_cast<double>(now_) * 1e-6, line);
  if (lines_ != nullptr) {
    lines_->push_back(text);
  } else {
    fmt::print("{}\n", text);
  }
}

void World::violate(const std::string& what) {
  if (violation_.empty())
    violation_ = fmt::format("at {:.6f} s: {}", static_cast<double>(now_) * 1e-6, what);
}

// --- Registry and network ------------------------------------------------------------------------

void World::at_registry(int process, const AtRegistry& request) {
  const int node = processes_[static_cast<std::size_t>(process)]->node();
  if (network_.registry_cut_until(node) > now_) {  // it never gets there
    Input answer = ReadFailed{};
    if (request.write) answer = Swapped{request.write, Swapped::Outcome::kUnknown};
    after(random_.between(20'000, 200'000), process, {std::move(answer)});
    return;
  }
  const bool doubt = now_ < doubtful_until_;
  const Micros delay = random_.between(50, 2000);
  if (request.read) {
    if (doubt && random_.one_in(3)) {
      after(delay, process, {Input{ReadFailed{}}});
      return;
    }
    ViewsRead answer{.views = {}, .target = target_};
    std::size_t end = views_.size();
    if (doubt && end > 0 && random_.one_in(2)) --end;  // stale
    std::size_t from = static_cast<std::size_t>(*request.read);
    if (from == 0 && end > 0) from = end - 1;
    for (std::size_t i = from; i < end; ++i) answer.views.push_back(views_[i]);
    after(delay, process, {Input{std::move(answer)}});
    return;
  }
  const ViewPtr& view = request.write;
  const auto newest = static_cast<ViewNumber>(views_.size());
  Swapped answer{.view = view};
  if (doubt && random_.one_in(3)) {  // the request is lost
    answer.outcome = Swapped::Outcome::kUnknown;
  } else if (view->number == newest + 1) {
    views_.push_back(view);
    committed(*view);
    if (view->cause == "stop") finished_ = true;
    if (view->cause == "failure" && schedule_.nothing_fails()) {
      violate("a failure is seen where there is none");
    }
    moment_came({.kind = Moment::Kind::kView, .number = view->number});
    trace(fmt::format("view {} ({}) from step {}: leader {}, members {}", view->number, view->cause,
                      view->first_step, view->leader, fmt::join(view->ids(), " ")));
    answer.outcome = Swapped::Outcome::kWon;
  } else if (view->number <= newest && views_[static_cast<std::size_t>(view->number - 1)] == view) {
    answer.outcome = Swapped::Outcome::kWon;
  }
  if (doubt && random_.one_in(2)) answer.outcome = Swapped::Outcome::kUnknown;
  after(delay, process, {Input{answer}});
}

Micros World::delay_between(const Process& from, const Process& to) {
  Micros delay = random_.between(20, 500);
  if (from.slow_until() > now_) delay += random_.between(0, 400'000);
  if (from.node() == to.node()) return delay;
  if (network_.slow_until(from.node(), to.node()) > now_) delay += random_.between(0, 100'000);
  return delay;
}

Micros World::arrival(const Process& from, const Process& to, Micros& last) {
  const Micros delay = delay_between(from, to);
  last = std::max(last + 1, std::max(now_, network_.cut_until(from.node(), to.node())) + delay);
  return last;
}

void World::carry_out(const Event& event) {
  const auto index = static_cast<std::size_t>(event.what);
  if (observer_) under_way_ -= hash_of(event);
  Todo todo = std::move(todo_[index]);
  free_todo_.push_back(event.what);
  if (event.process >= 0) {
    processes_[static_cast<std::size_t>(event.process)]->handle(todo);
    return;
  }
  if (const auto* request = std::get_if<AtRegistry>(&todo.what)) {
    at_registry(-1 - event.process, *request);
  } else if (const auto* fault = std::get_if<DoFault>(&todo.what)) {
    fault_is_due(*fault);
  } else {
    launch();
    see_to_wishes();
  }
}

Outcome World::run(bool trace) {
  tracing_ = trace;
  for (std::size_t i = 0; i < schedule_.faults.size(); ++i) {
    const Fault& fault = schedule_.faults[i];
    at(fault.at, -1, {DoFault{i}});
    faults_end_ = std::max(faults_end_, fault.at + fault.duration);
    by_event_ = by_event_ || (fault.when && fault.when->kind == Moment::Kind::kEvent);
  }
  launch();
  Outcome outcome;
  while (violation_.empty() && !events_.empty()) {
    if (schedule_.postponed.event == outcome.events + 1) postpone(schedule_.postponed.behind);
    if (by_event_) moment_came({.kind = Moment::Kind::kEvent, .number = outcome.events + 1});
    const Event event = events_.top();
    events_.pop();
    now_ = event.at();
    ++outcome.events;
    carry_out(event);
    if (observer_) observer_(outcome.events);
    if (finished_ && std::none_of(processes_.begin(), processes_.end(),
                                  [](const auto& process) { return process->alive(); })) {
      break;
    }
    if (now_ > faults_end_ + kBound) violate(fmt::format("the job does not end:{}", stuck()));
  }
  if (violation_.empty()) audit();
  for (const std::size_t fault : waiting_) {
    if (schedule_.faults[fault].patience == 0)
      violate("a fault waits for a moment that never came");
  }
  outcome.violation = violation_;
  outcome.ended_at = now_;
  outcome.repeated = repeated_;
  outcome.faults = as_it_was_;
  for (const ViewPtr& view : views_) {
    outcome.causes += (outcome.causes.empty() ? "" : " ") + view->cause;
    if (!view->empty()) outcome.members = fmt::format("{}", fmt::join(view->ids(), " "));
  }
  outcome.views = static_cast<int>(views_.size());
  outcome.processes = static_cast<int>(processes_.size());
  return outcome;
}

}  // namespace rubato::elastic::membership::sim
