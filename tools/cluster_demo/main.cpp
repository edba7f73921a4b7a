// The cluster demonstration: a daemon and three hosts, which are network namespaces of this
// machine, each with two CPU slots. Two training jobs share them; one host is unplugged while they
// train on it and plugged in again. Then proof that every model has the bits of its undisturbed
// run. The exit code says whether all promises held.
//   rubato_cluster_demo [--programs DIR]
#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <thread>

#include "cluster_demo/cluster_show.h"
#include "live/live_jobs.h"

namespace rubato::demo {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

void introduce() {
  fmt::print(
      "A daemon and {0} hosts with {1} CPU slots each, all of them network namespaces of this "
      "machine;\n"
      "they reach each other only through their cables. The training is real; every mini-batch is "
      "paced to\n"
      "take {2} ms, as on a slow accelerator. [AA|AB|..] means: job A has both slots of the first "
      "host and one\n"
      "of the second, job B has the other.\n\n",
      kHosts, kHostSlots, kPaceMs);
  std::fflush(stdout);
}

class Verdict {
 public:
  void promise(bool kept, const std::string& text) {
    broken_ += kept ? 0 : 1;
    fmt::print("  {}  {}\n", kept ? "kept  " : "BROKEN", text);
  }
  int broken() const { return broken_; }

 private:
  int broken_ = 0;
};

void judge(Verdict& verdict, const cluster::World& world, const ClusterShow& show,
           live::Undisturbed& undisturbed) {
  int same = 0;
  int finished = 0;
  for (const ClusterJob& job : show.jobs()) {
    const auto record = world.get("/api/v1/jobs/" + job.id);
    if (!record) continue;
    finished += record->value("phase", "") == "finished" ? 1 : 0;
    const std::string hash = record->value("result", json::object()).value("state_sha256", "none");
    same += hash == undisturbed.hash(job.unpaced) ? 1 : 0;
  }
  const auto jobs = static_cast<int>(show.jobs().size());
  verdict.promise(finished == jobs,
                  fmt::format("nothing lost: {} of {} jobs finished", finished, jobs));
  verdict.promise(
      same == jobs,
      fmt::format("same bits: {} of {} models equal those of undisturbed runs on one worker", same,
                  jobs));
  const Unplugging& unplugged = show.unplugging();
  verdict.promise(
      unplugged.survived,
      fmt::format("{} was unplugged while {} trained on it; the workers of the other hosts "
                  "went on after {:.1f} s and computed {} step{} again",
                  unplugged.node, unplugged.job, unplugged.went_on_after_s, unplugged.steps_redone,
                  unplugged.steps_redone == 1 ? "" : "s"));
  verdict.promise(
      unplugged.lost && unplugged.returned,
      fmt::format("{} counted as lost, came back, and got workers again", unplugged.node));
  std::map<std::string, int> slots;
  for (int host = 1; host <= kHosts; ++host) slots[cluster::World::node(host)] = kHostSlots;
  const std::string problem = cluster::check_devices(world.events(), slots);
  verdict.promise(problem.empty(), problem.empty() ? "no slot was ever given twice" : problem);
}

int run(const std::string& programs) {
  const auto start = std::chrono::steady_clock::now();
  const auto hosts = cluster::Hosts::make(kHosts + 1);
  if (!hosts || !hosts->enter(0)) {
    fmt::print(stderr, "this machine does not allow network namespaces: {}\n",
               cluster::Hosts::why());
    return 77;  // to ctest: skipped
  }
  introduce();
  const std::string folder =
      (fs::temp_directory_path() / fmt::format("rubato-cluster-demo-{}", getpid())).string();
  fs::create_directories(folder);
  Verdict verdict;
  {
    cluster::World world(*hosts, {.folder = folder,
                                  .rubatod = programs + "/rubatod",
                                  .devices = kHostSlots,
                                  .lost_after_s = kLostAfterS});
    ClusterShow show(world, programs + "/examples");
    live::Undisturbed undisturbed(programs + "/rubato", folder, "", "nice -n 5 ");
    std::thread proof([&] {  // beside the jobs, which mostly wait
      std::vector<live::LiveProgram> all;
      for (const ClusterJob& job : show.jobs()) all.push_back(job.unpaced);
      undisturbed.compute(all);
    });
    const std::string problem = show.run();
    proof.join();
    fmt::print("\nPromises:\n");
    if (problem.empty()) {
      judge(verdict, world, show, undisturbed);
    } else {
      verdict.promise(false, problem);
    }
  }
  const bool held = verdict.broken() == 0;
  if (held) fs::remove_all(folder);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  fmt::print("\n{} ({:.0f} s)\n",
             held ? "All promises held."
                  : fmt::format("{} promises were BROKEN; everything is kept in {}.",
                                verdict.broken(), folder),
             took.count());
  return held ? 0 : 1;
}

}  // namespace

}  // namespace rubato::demo

int main(int argc, char** argv) {
  std::string programs = std::filesystem::read_symlink("/proc/self/exe").parent_path().string();
  if (argc == 3 && std::string(argv[1]) == "--programs") {
    programs = std::filesystem::absolute(argv[2]).string();
  } else if (argc != 1) {
    fmt::print(stderr, "usage: rubato_cluster_demo [--programs DIR]\n");
    return 2;
  }
  const auto interrupt = [](int) { rubato::demo::interrupted = true; };
  std::signal(SIGINT, interrupt);
  std::signal(SIGTERM, interrupt);
  return rubato::demo::run(programs);
}
