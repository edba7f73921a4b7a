#include "reduce/group.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <utility>

namespace rubato::bench {

namespace {

constexpr std::int64_t kPatienceNs = 60'000'000'000;

elastic::Segment make_control() {
  static int groups = 0;
  Result<elastic::Segment> segment = elastic::Segment::create(
      fmt::format("rubato-bench-reduce-{}-{}", getpid(), groups++), sizeof(Control));
  if (!segment.ok()) {
    fmt::print(stderr, "bench-reduce: {}\n", segment.error().message);
    std::exit(1);
  }
  return std::move(*segment);
}

}  // namespace

void execute(const std::vector<std::string>& command) {
  std::vector<char*> words;
  words.reserve(command.size() + 1);
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  execvp(words[0], words.data());
  std::perror(words[0]);
  _exit(127);
}

Group::Group(std::string label, int ranks) : label_(std::move(label)), segment_(make_control()) {
  control().owner = getpid();
  control().ranks = ranks;
  folder_ = (std::filesystem::temp_directory_path() / control_name()).string();
  std::filesystem::create_directory(folder_);
}

std::unique_ptr<Group> Group::fork_ranks(const std::string& label, int ranks,
                                         const std::function<void(const Group&, int)>& body) {
  std::unique_ptr<Group> group(new Group(label, ranks));
  std::fflush(nullptr);
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      body(*group, rank);
      _exit(0);
    }
    group->children_.push_back(child);
  }
  return group;
}

std::unique_ptr<Group> Group::launch(
    const std::string& label, int ranks,
    const std::function<std::vector<std::string>(const std::string&)>& command) {
  std::unique_ptr<Group> group(new Group(label, ranks));
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);  // mpirun ends its ranks
    execute(command(group->control_name()));
  }
  group->children_.push_back(child);
  return group;
}

Group::~Group() {
  control().command = Control::Command::kQuit;
  control().commands.fetch_add(1);
  elastic::wake_all_on_word(control().commands);
  for (const pid_t child : children_) waitpid(child, nullptr, 0);
  elastic::remove_segment(control_name());
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

void Group::give_up(const std::string& what) {
  fmt::print(stderr, "bench-reduce: {}: {}; it is left out from now on\n", label_, what);
  for (const pid_t child : children_) kill(child, SIGTERM);
  alive_ = false;
}

void Group::command(Control::Command command) {
  if (!alive_) return;
  Control& c = control();
  c.command = command;
  c.done = 0;
  c.commands.fetch_add(1);
  elastic::wake_all_on_word(c.commands);
  const std::int64_t until = now_ns() + kPatienceNs;
  for (;;) {
    const std::uint32_t done = c.done.load();
    if (done == static_cast<std::uint32_t>(c.ranks)) return;
    elastic::wait_on_word(c.done, done, std::chrono::milliseconds(500));
    for (const pid_t child : children_) {
      if (waitpid(child, nullptr, WNOHANG) == child) return give_up("a process ended early");
    }
    if (now_ns() > until) return give_up("no answer for 60 s");
  }
}

void Group::prepare(std::size_t floats) {
  control().floats = floats;
  command(Control::Command::kPrepare);
}

double Group::round(int variant, int iterations, bool back_to_back) {
  Control& c = control();
  c.variant = variant;
  c.iterations = iterations;
  c.back_to_back = back_to_back;
  command(Control::Command::kRound);
  if (!alive_) return 0;
  const std::size_t runs = back_to_back ? 1 : static_cast<std::size_t>(iterations);
  std::vector<std::int64_t> times;
  for (std::size_t i = 0; i < runs; ++i) {
    std::int64_t ended = 0;
    for (std::size_t rank = 0; rank < static_cast<std::size_t>(c.ranks); ++rank) {
      ended = std::max(ended, c.rank[rank].ended_ns[i]);
    }
    times.push_back(ended - c.iteration_began_ns[i]);
  }
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(c.ranks); ++rank) {
    if (!c.rank[rank].wrong) continue;
    fmt::print(stderr, "bench-reduce: {}: rank {} has a wrong result\n", label_, rank);
    std::exit(1);
  }
  std::sort(times.begin(), times.end());
  return static_cast<double>(times[runs / 2]) * 1e-9 / (back_to_back ? iterations : 1);
}

}  // namespace rubato::bench
