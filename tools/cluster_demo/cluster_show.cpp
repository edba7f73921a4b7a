#include "cluster_demo/cluster_show.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <thread>

#include "control/live_controller.h"

namespace rubato::demo {

using nlohmann::json;

namespace {

constexpr double kUnpluggedFor = 14;  // seconds
// Seconds until the policy has given the first job slots on several hosts, on an idle machine.
constexpr double kSpreadsBy = 30;
constexpr double kPatience = 150;
constexpr double kSlotsEvery = 2;
constexpr auto kLookEvery = std::chrono::milliseconds(50);
constexpr const char* kUnpluggedJob = "language";

char letter(std::size_t job) { return static_cast<char>('A' + job); }

ClusterJob job(std::string name, const std::vector<std::string>& run) {
  ClusterJob made{.name = std::move(name),
                  .paced = {.run = run, .logical_workers = kHosts * kHostSlots},
                  .unpaced = {.run = run, .logical_workers = kHosts * kHostSlots}};
  made.paced.run.insert(made.paced.run.end(), {"--pace", std::to_string(kPaceMs)});
  return made;
}

}  // namespace

std::atomic<bool> interrupted{false};

ClusterShow::ClusterShow(cluster::World& world, const std::string& examples)
    : world_(world),
      jobs_{job("language", {examples + "/train_lm", "--batch", "2", "--epochs", "6"}),
            job("vision", {examples + "/train_cnn", "--epochs", "12"})} {}

double ClusterShow::now() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

void ClusterShow::say(const std::string& text) const {
  fmt::print("{:6.1f} s  {}\n", now(), text);
  std::fflush(stdout);
}

// Tells what happens until then. False: it did not come true in time.
bool ClusterShow::wait(const std::function<bool()>& condition, double seconds) {
  const double by = now() + seconds;
  while (!interrupted) {
    look();
    if (condition()) return true;
    if (now() > by) return false;
    std::this_thread::sleep_for(kLookEvery);
  }
  return false;
}

std::string ClusterShow::run() {
  start_ = std::chrono::steady_clock::now();
  const auto problem = [](const std::string& text) {
    return interrupted ? std::string("interrupted") : text;
  };
  if (!world_.start_daemon()) return "the daemon does not start";
  say("rubatod --cluster runs on a host of its own");
  // Jobs here last seconds, not hours: an unknown one is expected to be short, and jobs are ranked
  // by their length instead of planned in periods of a minute.
  const json policy = {{"name", "rubato"}, {"settings", {{"prior", "10"}, {"without", "plan"}}}};
  if (!world_.call("PUT", "/api/v1/policy", policy)) return "the daemon does not take the policy";
  if (!join_hosts()) return problem("the hosts do not join");
  for (ClusterJob& each : jobs_) {
    if (!submit(each)) return each.name + " was not accepted: " + world_.last_error();
  }
  // More workers than fit on one host train, so there is somebody to go on.
  const auto spread = [&] {
    return training_ > devices_on(jobs_[0], cluster::World::node(fullest_host())) && now() > 10;
  };
  if (!wait([&] { return spread() || ended(); }, kSpreadsBy) && !interrupted) {
    // On a busy machine more slots do not make it faster, and the policy sees that.
    say(fmt::format("rubato scale {} 4", jobs_[0].name));
    world_.post(fmt::format("/api/v1/jobs/{}/scale", jobs_[0].id), {{"devices", 4}});
  }
  if (!wait([&] { return spread() || ended(); }, kPatience) || ended()) {
    return problem("language does not train on several hosts");
  }
  if (!unplug()) return problem("no host could be unplugged");
  if (!wait([&] { return ended(); }, kPatience)) return problem("the jobs do not end");
  return "";
}

bool ClusterShow::join_hosts() {
  for (int host = 1; host <= world_.nodes(); ++host) {
    world_.start_agent(host);
    say(fmt::format("{}: rubatod agent --join http://{}:7070 --token-file join.token",
                    cluster::World::node(host), cluster::Hosts::address(0)));
  }
  return wait(
      [&] {
        const auto cluster = world_.get("/api/v1/cluster");
        return cluster && cluster->value("devices", 0) == kHosts * kHostSlots;
      },
      60);
}

bool ClusterShow::submit(ClusterJob& job) {
  json document = live::document_of(job.paced, kHosts * kHostSlots);
  document["name"] = job.name;
  const auto answer = world_.call("POST", "/api/v1/jobs", document, job.name);
  if (!answer) return false;
  job.id = answer->value("id", "");
  const auto index = static_cast<std::size_t>(&job - jobs_.data());
  say(fmt::format("{} {} submitted: 1 to {} slots, on any hosts", letter(index), job.name,
                  kHosts * kHostSlots));
  return true;
}

// The host on which the job has most slots.
int ClusterShow::fullest_host() const {
  int host = 1;
  for (int other = 2; other <= kHosts; ++other) {
    if (devices_on(jobs_[0], cluster::World::node(other)) >
        devices_on(jobs_[0], cluster::World::node(host))) {
      host = other;
    }
  }
  return host;
}

// It is cut off from all others, and later is not.
bool ClusterShow::unplug() {
  const int host = fullest_host();
  done_.node = cluster::World::node(host);
  done_.job = kUnpluggedJob;
  unplugged_at_ = control::now_unix();
  world_.hosts().cut(host);
  say(fmt::format("{} is unplugged", done_.node));
  const double cut_at = now();
  const bool came =
      wait([&] { return done_.survived && done_.lost && now() - cut_at > kUnpluggedFor; }, 60);
  world_.hosts().mend(host);
  say(fmt::format("{} is plugged in again", done_.node));
  if (!came) return false;
  return wait(
      [&] {
        for (const ClusterJob& each : jobs_) done_.returned |= devices_on(each, done_.node) > 0;
        return done_.returned || ended();
      },
      60);
}

void ClusterShow::look() {
  const auto page = world_.get(fmt::format("/api/v1/events?after={}&limit=1000", seen_));
  if (!page) return;
  for (const json& event : page->value("events", json::array())) {
    seen_ = event.value("seq", seen_);
    tell(event);
  }
  if (now() - shown_ < kSlotsEvery) return;
  shown_ = now();
  show_slots();
}

void ClusterShow::tell(const json& event) {
  const std::string type = event.value("type", "");
  const json body = event.value("body", json::object());
  if (type == "node_lost") {
    done_.lost |= body.value("name", "") == done_.node;
    say(fmt::format("{} counts as lost: its slots are not given to anybody",
                    body.value("name", "")));
  } else if (type == "node_back") {
    say(fmt::format("{} is back; what still ran there was ended", body.value("name", "")));
  }
  const std::string id = control::job_name_of(event.value("job", control::JobNumber{0}));
  const auto job = std::find_if(jobs_.begin(), jobs_.end(),
                                [&](const ClusterJob& each) { return each.id == id; });
  if (job == jobs_.end()) return;
  if (type == "held") {
    placed_[id] = body.value("nodes", json::array());
  } else if (type == "finished") {
    ++ended_;
    say(fmt::format("{} finished, loss {:.4f}", job->name,
                    body.value("result", json::object()).value("final_loss", 0.0)));
  } else if (type == "failed" || type == "cancelled") {
    ++ended_;
    say(fmt::format("{} {}: {}", job->name, type, body.value("message", "")));
  } else if (type == "view" && body.value("type", "") == "view") {
    tell_view(*job, body);
  }
}

// The job has other workers now.
void ClusterShow::tell_view(const ClusterJob& job, const json& view) {
  const std::string cause = view.value("cause", "");
  const int workers = view.value("workers", 0);
  const auto step = view.value("step", std::int64_t{0});
  if (&job == jobs_.data()) training_ = workers;
  if (cause != "failure") {
    if (workers > 0)
      say(fmt::format("{}: {} workers from step {} ({})", job.name, workers, step, cause));
    return;
  }
  say(fmt::format("{}: {} workers go on at step {}", job.name, workers, step));
  const double after = view.value("at", 0.0) - unplugged_at_;
  if (unplugged_at_ == 0 || job.name != done_.job || done_.survived || after < 0) return;
  done_.survived = true;
  done_.went_on_after_s = after;
  done_.steps_redone = view.value("steps_redone", std::int64_t{0});
}

int ClusterShow::devices_on(const ClusterJob& job, const std::string& node) const {
  const auto nodes = placed_.find(job.id);
  if (nodes == placed_.end()) return 0;
  for (const json& part : *nodes) {
    if (part.value("node", "") == node) return part.value("devices", 0);
  }
  return 0;
}

// A letter per slot, host by host, then how far each job is.
void ClusterShow::show_slots() {
  std::string slots;
  for (int host = 1; host <= kHosts; ++host) {
    std::string part;
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      const int devices = devices_on(jobs_[i], cluster::World::node(host));
      part.append(static_cast<std::size_t>(devices), letter(i));
    }
    part.resize(std::max<std::size_t>(part.size(), kHostSlots), '.');
    slots += (slots.empty() ? "" : "|") + part;
  }
  std::string detail;
  const auto active = world_.get("/api/v1/jobs?active=true");
  if (!active) return;
  for (const json& row : active->value("jobs", json::array())) {
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      if (jobs_[i].id != row.value("id", "")) continue;
      const json progress = row.value("progress", json::object());
      const double total = progress.value("total_steps", 0.0);
      detail += total > 0 ? fmt::format("  {} {:.0f}%", letter(i),
                                        100 * progress.value("step", 0.0) / total)
                          : fmt::format("  {} starts", letter(i));
    }
  }
  say(fmt::format("[{}]{}", slots, detail));
}

bool ClusterShow::ended() const { return ended_ == jobs_.size(); }

}  // namespace rubato::demo
