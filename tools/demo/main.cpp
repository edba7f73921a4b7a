// The live demonstration: a daemon with four CPU slots, five real training jobs of three kinds, a
// killed worker; then proof that every model has the bits of its undisturbed run, and what a rigid
// scheduler would have made of the same jobs. The exit code says whether all promises held.
#include <fmt/color.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <map>

#include "base/stats.h"
#include "control/replay.h"
#include "control/store.h"
#include "elastic/job_folder.h"
#include "live/live_daemon.h"
#include "live/live_jobs.h"

namespace rubato::live {

namespace {

constexpr int kSlots = 4;
constexpr double kPredictionLimit = 0.15;

struct DemoJob {
  double at = 0;  // seconds after the start
  std::string name;
  LiveProgram program;
  std::string id{};
};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

class Demo {
 public:
  Demo(const std::string& programs, std::string folder)
      : rubato_(programs + "/rubato"),
        folder_(std::move(folder)),
        daemon_(programs + "/rubatod", folder_ + "/state", kSlots),
        colours_(isatty(STDOUT_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr) {
    const std::string examples = programs + "/examples";
    const auto job = [&](double at, const char* name, const char* program, const char* steps,
                         const char* seed) {
      jobs_.push_back(
          {.at = at,
           .name = name,
           .program = {.run = {examples + "/" + program, "--steps", steps, "--seed", seed}}});
    };
    job(0, "language", "train_lm", "700", "1");
    job(8, "vision-a", "train_cnn", "1500", "1");
    job(16, "tabular-a", "train_mlp", "7000", "1");
    job(24, "vision-b", "train_cnn", "1500", "2");
    job(32, "tabular-b", "train_mlp", "7000", "2");
  }

  int run() {
    fmt::print(
        "A daemon shares {} CPU slots. Five training jobs arrive; each may use 1 to {} of "
        "them.\n\n",
        kSlots, kSlots);
    if (!daemon_.start()) {
      fmt::print("the daemon did not start; see {}\n", daemon_.log_file());
      return 1;
    }
    watch();
    check_bits();
    judge();
    daemon_.stop();
    fmt::print("\n{}\n", broken_ == 0
                             ? "All promises held."
                             : fmt::format("{} promises were BROKEN; everything is kept in {}",
                                           broken_, folder_));
    return broken_ == 0 ? 0 : 1;
  }
  bool held() const { return broken_ == 0; }

 private:
  void promise(bool kept, const std::string& text) {
    broken_ += kept ? 0 : 1;
    fmt::print("  {}  {}\n", kept ? "kept  " : "BROKEN", text);
  }

  // Submits, shows what happens, kills a worker, until all jobs have ended.
  void watch() {
    const auto start = std::chrono::steady_clock::now();
    std::size_t next = 0;
    double shown = -1;
    for (;;) {
      const double now = seconds_since(start);
      while (next < jobs_.size() && jobs_[next].at <= now) submit(jobs_[next++], now);
      show_events(now);
      if (!killed_ && now > 22) kill_a_worker(now);
      if (now - shown >= 2) {
        show_slots(now);
        shown = now;
      }
      if (next == jobs_.size() && all_ended()) break;
      if (now > 240) {
        promise(false, "all jobs end within 240 s");
        break;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    show_events(seconds_since(start));
  }

  void submit(DemoJob& job, double now) {
    json document = document_of(job.program, kSlots);
    document["name"] = job.name;
    const auto answer = daemon_.post("/api/v1/jobs", document);
    job.id = answer ? answer->value("id", "") : "";
    say(now, fmt::format("{} submitted as {}", job.name, job.id));
  }

  void say(double now, const std::string& text) const {
    fmt::print("{:6.1f} s  {}\n", now, text);
    std::fflush(stdout);
  }

  std::string name_of(control::JobNumber number) const {
    std::string id = control::job_name_of(number);
    for (const DemoJob& job : jobs_) {
      if (job.id == id) return job.name;
    }
    return id;
  }

  void show_events(double now) {
    const auto page = daemon_.get(fmt::format("/api/v1/events?after={}&limit=1000", seen_));
    if (!page) return;
    for (const json& event : (*page)["events"]) {
      seen_ = event.value("seq", seen_);
      const std::string type = event.value("type", "");
      const json body = event.value("body", json::object());
      const std::string name = name_of(event.value("job", control::JobNumber{0}));
      if (type == "granted") {
        say(now, fmt::format("{}: {} device{} ({})", name, body.value("devices", 0),
                             body.value("devices", 0) == 1 ? "" : "s", body.value("reason", "")));
      } else if (type == "finished") {
        say(now, fmt::format("{}: finished, loss {:.4f}", name,
                             body["result"].value("final_loss", 0.0)));
      } else if (type == "capped") {
        say(now, fmt::format("{}: more than {} devices made it slower; remembered", name,
                             body.value("max_useful", 0)));
      } else if (type == "view" && body.value("type", "") == "lost") {
        say(now, fmt::format("{}: lost a worker; the others go on", name));
      }
    }
  }

  // One character per slot: whose worker is in it.
  void show_slots(double now) const {
    const auto active = daemon_.get("/api/v1/jobs?active=true");
    if (!active) return;
    std::string slots;
    std::string detail;
    for (const json& job : (*active)["jobs"]) {
      const std::string name = job.value("name", "");
      slots.append(static_cast<std::size_t>(std::max(0, job.value("held", 0))), letter(job));
      const json progress = job.value("progress", json::object());
      const double total = progress.value("total_steps", 0.0);
      detail +=
          fmt::format("  {}={} {}%", letter(job), name,
                      total > 0 ? static_cast<int>(100 * progress.value("step", 0.0) / total) : 0);
    }
    slots.resize(kSlots, '.');
    if (colours_) {
      fmt::print("{:6.1f} s  ", now);
      fmt::print(fmt::emphasis::bold, "[{}]", slots);
      fmt::print("{}\n", detail);
    } else {
      say(now, fmt::format("[{}]{}", slots, detail));
    }
    std::fflush(stdout);
  }

  static char letter(const json& job) {
    return static_cast<char>('A' + (job.value("number", 1) - 1) % 26);
  }

  void kill_a_worker(double now) {
    for (const DemoJob& job : jobs_) {
      if (job.id.empty()) continue;
      const std::string folder = daemon_.state() + "/jobs/" +
                                 std::to_string(control::parse_job_number(job.id).value_or(0));
      auto registry = elastic::FileRegistry::open(folder + "/registry");
      if (!registry.ok()) continue;
      const Result<elastic::View> view = elastic::newest_view(**registry);
      if (!view.ok() || view->members.size() < 2) continue;
      const elastic::Member& victim = view->members.back();
      if (kill(static_cast<pid_t>(victim.address.pid), SIGKILL) != 0) continue;
      killed_ = true;
      say(now, fmt::format("kill -9 of worker {} of {}", victim.address.id, job.name));
      return;
    }
  }

  bool all_ended() const {
    const auto active = daemon_.get("/api/v1/jobs?active=true");
    return active && (*active)["jobs"].empty() &&
           daemon_.get("/api/v1/cluster").value_or(json{{"held", 1}}).value("held", 1) == 0;
  }

  void check_bits() {
    fmt::print("\nEach model beside its undisturbed run on one worker:\n");
    Undisturbed undisturbed(rubato_, folder_);
    std::vector<LiveProgram> programs;
    for (const DemoJob& job : jobs_) programs.push_back(job.program);
    undisturbed.compute(programs);
    for (const DemoJob& job : jobs_) {
      const auto record = daemon_.get("/api/v1/jobs/" + job.id);
      const std::string hash =
          record ? record->value("result", json::object()).value("state_sha256", "none") : "none";
      promise(hash == undisturbed.hash(job.program),
              fmt::format("same bits: {:<10} {}", job.name, hash.substr(0, 16)));
    }
  }

  void judge() {
    const std::vector<control::Event> events = daemon_.events();
    const control::History history = control::history_of(events);
    const Result<control::State> state = control::Store::replay(daemon_.state());
    if (!state.ok()) {
      promise(false, state.error().message);
      return;
    }
    std::vector<double> reached;  // seconds from a decision for more devices to their first step
    std::map<control::JobNumber, std::pair<int, double>> decided;
    for (const control::Event& event : events) {
      if (event.type == "granted") {
        decided[event.job] = {event.body.value("devices", 0), event.at};
      }
      const auto waits = decided.find(event.job);
      if (event.type == "view" && waits != decided.end() && waits->second.first > 0 &&
          event.body.value("workers", 0) >= waits->second.first) {
        reached.push_back(event.at - waits->second.second);
        decided.erase(waits);
      }
    }
    fmt::print("\nWhat the log says:\n");
    promise(history.most_held <= kSlots,
            fmt::format("never more than {} devices in use (most: {})", kSlots, history.most_held));
    promise(killed_, "a worker was killed while its job trained");
    judge_stalls(control::view_changes_of(events));
    const control::Past past = control::past_of(*state, events);
    const auto replayed = control::replay(past, state->policy, state->policy_settings);
    const auto rigid = control::replay_rigid(past);
    if (!replayed.ok() || !rigid.ok()) {
      promise(false, (replayed.ok() ? rigid.error() : replayed.error()).message);
      return;
    }
    fmt::print("\n  {:<34} {:>10} {:>14}\n", "", "mean", "devices in use");
    fmt::print("  {:<34} {:>8.1f} s {:>12.0f} %\n", "Rubato, measured", history.mean_completion_s,
               100 * history.held_share);
    fmt::print("  {:<34} {:>8.1f} s {:>12.0f} %\n", "Rubato, simulated", replayed->simulated_mean_s,
               100 * replayed->simulated_share);
    fmt::print("  {:<34} {:>8.1f} s {:>12.0f} %\n\n",
               fmt::format("rigid, first come, {} each (best)", rigid->devices),
               rigid->replay.simulated_mean_s, 100 * rigid->replay.simulated_share);
    promise(
        std::abs(replayed->error()) <= kPredictionLimit,
        fmt::format("the simulator predicts the mean completion time within {:.0f} % ({:+.1f} %)",
                    100 * kPredictionLimit, 100 * replayed->error()));
    if (!reached.empty()) {
      std::sort(reached.begin(), reached.end());
      fmt::print(
          "  a decision reached its workers after {:.2f} s (median of {}), {:.2f} s at most\n",
          percentile_sorted(reached, 50), reached.size(), reached.back());
    }
  }

  // What a change costs the workers that stay, as they measured it, in steps of their job as it ran
  // before. On a machine with other work a process may be kept from its processor for longer than a
  // step at any moment, so nine of ten changes is what is promised; the worst is shown.
  void judge_stalls(const std::vector<control::ViewChange>& changes) {
    std::vector<double> steps;
    int beyond = 0;
    const control::ViewChange* worst = nullptr;
    for (const control::ViewChange& change : changes) {
      if (!change.planned) {
        fmt::print(
            "          ({} lost a worker: the others waited {:.1f} ms, a step was {:.1f} ms)\n",
            name_of(change.job), 1000 * change.stall_s, 1000 * change.step_s);
        continue;
      }
      // Of a job that had not yet told how long its steps are nothing can be said.
      if (change.step_s <= 0) continue;
      steps.push_back(change.stall_s / change.step_s);
      beyond += steps.back() >= 1 ? 1 : 0;
      if (worst == nullptr || steps.back() > worst->stall_s / worst->step_s) worst = &change;
    }
    if (worst == nullptr) {
      promise(false, "workers were added to and taken from jobs that train");
      return;
    }
    std::sort(steps.begin(), steps.end());
    promise(percentile_sorted(steps, 90) < 1,
            fmt::format("when workers come or go, those that stay wait less than a step: {:.2f} of "
                        "a step (nine of ten of {} changes)",
                        percentile_sorted(steps, 90), steps.size()));
    fmt::print(
        "          (worst: {:.2f} of a step, {:.1f} ms, in {}; a step or longer in {} of {})\n",
        steps.back(), 1000 * worst->stall_s, name_of(worst->job), beyond, steps.size());
  }

  std::string rubato_;
  std::string folder_;
  LiveDaemon daemon_;
  bool colours_;
  std::vector<DemoJob> jobs_;
  std::int64_t seen_ = 0;
  bool killed_ = false;
  int broken_ = 0;
};

}  // namespace

}  // namespace rubato::live

int main(int argc, char** argv) {
  const std::string programs =
      argc > 1 ? argv[1] : std::filesystem::read_symlink("/proc/self/exe").parent_path().string();
  const std::string folder =
      (std::filesystem::temp_directory_path() / fmt::format("rubato-demo-{}", getpid())).string();
  std::filesystem::create_directories(folder);
  rubato::live::Demo demo(programs, folder);
  const int code = demo.run();
  if (demo.held()) std::filesystem::remove_all(folder);
  return code;
}
