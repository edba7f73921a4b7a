#include "demo/show.h"

#include <fmt/format.h>

#include <csignal>

#include "control/live_controller.h"
#include "demo/picture.h"
#include "elastic/job/job_folder.h"

namespace rubato::demo {

using nlohmann::json;

namespace {

constexpr double kWorkerDies = 8;   // seconds after the start, or as soon as a victim is there
constexpr double kDaemonDies = 37;  // after the last job has come
constexpr auto kDaemonAway = std::chrono::milliseconds(1500);
constexpr double kPatience = 240;
constexpr double kSlotsEvery = 2;
constexpr auto kLookEvery = std::chrono::milliseconds(100);

}  // namespace

std::atomic<bool> interrupted{false};

double Show::now() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

void Show::say(const std::string& text) const {
  fmt::print("{:6.1f} s  {}\n", now(), text);
  std::fflush(stdout);
}

bool Show::run() {
  start_ = std::chrono::steady_clock::now();
  double shown = 0;
  while (now() < kPatience && !interrupted) {
    submit_due();
    tell_ends();
    if (done_.worker_killed_at == 0 && now() >= kWorkerDies) kill_a_worker();
    if (done_.daemon_killed_at == 0 && now() >= kDaemonDies && !kill_the_daemon()) return false;
    if (now() - shown >= kSlotsEvery) {
      show_slots();
      shown = now();
    }
    if (submitted_ == jobs_.size() && daemon_.idle()) {
      tell_ends();
      return true;
    }
    std::this_thread::sleep_for(kLookEvery);
  }
  return false;
}

void Show::submit_due() {
  for (; submitted_ < jobs_.size() && jobs_[submitted_].at <= now(); ++submitted_) {
    DemoJob& job = jobs_[submitted_];
    json document = live::document_of(job.paced, kSlots);
    document["name"] = job.name;
    const auto answer = daemon_.post("/api/v1/jobs", document, job.name);
    if (!answer) return;  // tried again at the next look
    job.id = answer->value("id", "");
    say(fmt::format("{} {} submitted", job_letter(submitted_), job.name));
  }
}

const DemoJob* Show::find(const std::string& id) const {
  for (const DemoJob& job : jobs_) {
    if (job.id == id) return &job;
  }
  return nullptr;
}

void Show::tell_ends() {
  const auto page = daemon_.get(fmt::format("/api/v1/events?after={}&limit=1000", seen_));
  if (!page) return;
  for (const json& event : (*page)["events"]) {
    seen_ = event.value("seq", seen_);
    const DemoJob* job = find(control::job_name_of(event.value("job", control::JobNumber{0})));
    if (job == nullptr) continue;
    const json body = event.value("body", json::object());
    const std::string type = event.value("type", "");
    if (type == "finished") {
      say(fmt::format("{} {} finished, loss {:.4f}",
                      job_letter(static_cast<std::size_t>(job - jobs_.data())), job->name,
                      body["result"].value("final_loss", 0.0)));
    } else if (type == "failed") {
      say(fmt::format("{} FAILED: {}", job->name, body.value("message", "")));
    } else if (type == "view" && body.value("type", "") == "lost") {
      say(fmt::format("{} lost a worker; the others train on", job->name));
    }
  }
}

// A letter per slot, then how far each job is.
void Show::show_slots() const {
  const auto active = daemon_.get("/api/v1/jobs?active=true");
  if (!active) return;
  std::string slots;
  std::string detail;
  for (const json& row : (*active)["jobs"]) {
    const DemoJob* job = find(row.value("id", ""));
    if (job == nullptr) continue;
    const std::string letter = job_letter(static_cast<std::size_t>(job - jobs_.data()));
    for (int i = 0; i < row.value("held", 0); ++i) slots += letter;
    const json progress = row.value("progress", json::object());
    const double total = progress.value("total_steps", 0.0);
    detail += total > 0
                  ? fmt::format("  {} {:.0f}%", letter, 100 * progress.value("step", 0.0) / total)
                  : fmt::format("  {} {}", letter, row.value("held", 0) > 0 ? "starts" : "waits");
  }
  slots.resize(kSlots, '.');
  say(fmt::format("[{}]{}", slots, detail));
}

// Of a long job with several workers: the others are to go on.
void Show::kill_a_worker() {
  for (const DemoJob& job : jobs_) {
    if (job.id.empty() || !job.is_long) continue;
    const std::string folder =
        daemon_.state() + "/jobs/" + std::to_string(control::parse_job_number(job.id).value_or(0));
    auto registry = elastic::FileRegistry::open(folder + "/registry");
    if (!registry.ok()) continue;
    const Result<elastic::View> view = elastic::newest_view(**registry);
    if (!view.ok() || view->members.size() < 2) continue;
    const elastic::Member& victim = view->members.back();
    if (kill(static_cast<pid_t>(victim.address.pid), SIGKILL) != 0) continue;
    done_.worker_of = job.name;
    done_.worker_killed_at = control::now_unix();
    say(fmt::format("kill -9 {}: a worker of {}", victim.address.pid, job.name));
    return;
  }
}

bool Show::kill_the_daemon() {
  say(fmt::format("kill -9 {}: the daemon", daemon_.pid()));
  daemon_.crash();
  done_.daemon_killed_at = control::now_unix();
  std::this_thread::sleep_for(kDaemonAway);
  if (!daemon_.start()) {
    say(fmt::format("the daemon did not start again; see {}", daemon_.log_file()));
    return false;
  }
  done_.daemon_back_at = control::now_unix();
  say("the daemon is back");
  return true;
}

}  // namespace rubato::demo
