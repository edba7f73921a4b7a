// The live demonstration: a daemon with four CPU slots, real training jobs, a killed worker and a
// killed daemon; then proof that every model has the bits of its undisturbed run, what a rigid
// schedule would have made of the same jobs, and a picture of both. The exit code says whether all
// promises held.
//   rubato_demo [--programs DIR] [--picture FILE]
#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "base/file.h"
#include "demo/jobs.h"
#include "demo/picture.h"
#include "demo/show.h"
#include "demo/verdict.h"

namespace rubato::demo {

namespace {

namespace fs = std::filesystem;

struct Arguments {
  std::string programs;  // folder of rubato, rubatod and examples/
  std::string picture;
};

Picture picture_of(const Comparison& comparison, const std::vector<control::Event>& events,
                   const std::vector<DemoJob>& jobs, const Disturbances& disturbances) {
  const control::History& history = comparison.past.history;
  const control::RigidReplay& rigid = comparison.rigid.front();
  double start = 0;
  for (const auto& [number, job] : history.jobs) {
    if (start == 0 || job.submitted_at < start) start = job.submitted_at;
  }
  Picture picture;
  picture.title = fmt::format("{} training jobs on {} slots: mean completion time {:.2f}x better",
                              jobs.size(), kSlots, comparison.gain());
  std::map<control::JobNumber, double> submitted;
  for (const DemoJob& job : jobs) {
    const control::JobNumber number = control::parse_job_number(job.id).value_or(0);
    submitted[number] = history.jobs.at(number).submitted_at - start;
    picture.jobs.push_back({.number = number, .name = job.name, .submitted = submitted[number]});
  }
  picture.panels.push_back({.title = fmt::format("Rubato, measured: mean completion time {:.1f} s",
                                                 history.mean_completion_s),
                            .timeline = timeline_of(events, kSlots),
                            .outages = {{.from = disturbances.daemon_killed_at - start,
                                         .to = disturbances.daemon_back_at - start}}});
  picture.panels.push_back(
      {.title =
           fmt::format("Best rigid schedule (first come, first served, {} slot{} each), "
                       "simulated with the measured step times: {:.1f} s",
                       rigid.devices, rigid.devices == 1 ? "" : "s", rigid.replay.simulated_mean_s),
       .timeline = timeline_of(rigid, submitted, kSlots, comparison.past.start_s)});
  picture.notes = {
      "How many slots a job holds comes from the daemon's log. Slots are interchangeable, so which "
      "of them is drawn is a choice."};
  return picture;
}

class Demo {
 public:
  explicit Demo(Arguments arguments)
      : arguments_(std::move(arguments)),
        folder_((fs::temp_directory_path() / fmt::format("rubato-demo-{}", getpid())).string()),
        jobs_(demo_jobs(arguments_.programs + "/examples")),
        daemon_(arguments_.programs + "/rubatod", folder_ + "/state", kSlots),
        undisturbed_(arguments_.programs + "/rubato", folder_, "", "nice -n 5 ") {}

  int run() {
    const auto start = std::chrono::steady_clock::now();
    introduce();
    if (!daemon_.start()) {
      fmt::print("the daemon did not start; see {}\n", daemon_.log_file());
      return 1;
    }
    if (!choose_policy()) {
      fmt::print("the daemon did not take the policy; see {}\n", daemon_.log_file());
      return 1;
    }
    // Beside the jobs, which mostly wait.
    std::thread proof([this] { compute_undisturbed(); });
    Show show(daemon_, jobs_);
    const bool ended = show.run();
    proof.join();
    fmt::print("\nPromises:\n");
    if (ended) {
      judge(show.disturbances());
    } else {
      verdict_.promise(false, interrupted ? "interrupted" : "all jobs end");
    }
    daemon_.stop();
    if (!ended) stop_jobs();
    conclude(std::chrono::steady_clock::now() - start);
    return verdict_.broken() == 0 ? 0 : 1;
  }

 private:
  void introduce() const {
    fmt::print(
        "A daemon shares {0} CPU slots among {1} training jobs; each may use 1 to {0} of them.\n"
        "The training is real. Every mini-batch is paced to take {2} ms, as on a slow "
        "accelerator,\n"
        "so that {0} slots are {0} times as fast as one, even on a machine with fewer processors.\n"
        "The policy is rubato with prior=10 and without=plan: these jobs last seconds, and it "
        "plans\n"
        "ahead in minutes.\n"
        "[AABC] means: job A has two slots, B and C have one each.\n\n",
        kSlots, jobs_.size(), kPaceMs);
    std::fflush(stdout);
  }

  // Jobs here last seconds, not hours: an unknown one is expected to be short, and jobs are ranked
  // by their length instead of planned in periods of a minute.
  bool choose_policy() const {
    return daemon_
        .put("/api/v1/policy",
             {{"name", "rubato"}, {"settings", {{"prior", "10"}, {"without", "plan"}}}})
        .has_value();
  }

  void compute_undisturbed() {
    std::vector<live::LiveProgram> programs;
    for (const DemoJob& job : jobs_) programs.push_back(job.unpaced);
    undisturbed_.compute(programs);
  }

  void judge(const Disturbances& disturbances) {
    const std::vector<control::Event> events = daemon_.events();
    verdict_.judge_bits(daemon_, jobs_, undisturbed_);
    verdict_.judge_disturbances(events, disturbances);
    verdict_.judge_stalls(control::view_changes_of(events));
    const std::optional<Comparison> comparison = verdict_.judge_gain(daemon_.state(), events);
    if (!comparison) return;
    fs::create_directories(fs::path(arguments_.picture).parent_path());
    const Status written = write_file(arguments_.picture,
                                      svg_of(picture_of(*comparison, events, jobs_, disturbances)));
    drawn_ = written.ok();
    if (!drawn_) verdict_.promise(false, written.error().message);
  }

  // Jobs outlive their daemon, but not the demo.
  void stop_jobs() const {
    const std::string command =
        fmt::format("'{}/rubatod' stop-jobs --state '{}' --patience 5 >>'{}' 2>&1",
                    arguments_.programs, daemon_.state(), daemon_.log_file());
    if (std::system(command.c_str()) != 0) fmt::print("some jobs may still run\n");
  }

  void conclude(std::chrono::duration<double> took) const {
    const bool held = verdict_.broken() == 0;
    if (held) fs::remove_all(folder_);
    fmt::print("\n{} ({:.0f} s)\n",
               held ? "All promises held."
                    : fmt::format("{} promises were BROKEN; everything is kept in {}.",
                                  verdict_.broken(), folder_),
               took.count());
    if (drawn_) fmt::print("Who had which slot when: {}\n", arguments_.picture);
  }

  Arguments arguments_;
  std::string folder_;
  std::vector<DemoJob> jobs_;
  live::LiveDaemon daemon_;
  live::Undisturbed undisturbed_;
  Verdict verdict_;
  bool drawn_ = false;
};

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  arguments.programs = fs::read_symlink("/proc/self/exe").parent_path().string();
  arguments.picture = (fs::path(arguments.programs).parent_path() / "demo/timeline.svg").string();
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    std::string* const target = option == "--programs"  ? &arguments.programs
                                : option == "--picture" ? &arguments.picture
                                                        : nullptr;
    if (target == nullptr || i + 1 == argc) {
      fmt::print(stderr, "usage: rubato_demo [--programs DIR] [--picture FILE]\n");
      std::exit(2);
    }
    *target = fs::absolute(argv[++i]).string();
  }
  return arguments;
}

}  // namespace

}  // namespace rubato::demo

int main(int argc, char** argv) {
  const auto interrupt = [](int) { rubato::demo::interrupted = true; };
  std::signal(SIGINT, interrupt);
  std::signal(SIGTERM, interrupt);
  return rubato::demo::Demo(rubato::demo::parse(argc, argv)).run();
}
