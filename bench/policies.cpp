// Every policy on every recorded set of workloads (`make bench-policies`): mean and p99 completion
// times, each as a ratio to pollux in the same run. Sets: the Pollux workloads 1-6 at four loads
// with 30 s and with 1 s per change, and each Sia workload on three device types, where ratios to
// sia are printed too. Policies decide every 60 s, as published; those that ask for it
// (PolicyInfo::at_events) decide at every arrival and end. At load 1.0, pollux and rubato are also
// shown with the other kind of decisions, and pollux with parameters that match the cost of a
// change. Arguments: names of policies (default: all). `--only TEXT` skips sets whose names do not
// contain this text.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string_view>

#include "base/parallel.h"
#include "recorded.h"
#include "sim/run_matrix.h"

namespace rubato::bench {
namespace {

struct WorkloadSet {
  std::string name;
  std::string cluster;
  std::vector<std::string> files;
  std::string profiles;
  WorkloadFormat format;
  Seconds resize_cost_s;
};

std::vector<WorkloadSet> workload_sets(const std::string& data) {
  std::vector<WorkloadSet> sets;
  for (const double cost : {30.0, 1.0}) {
    for (const char* load : {"0.5", "1.0", "1.5", "2.0"}) {
      WorkloadSet set{
          .name = fmt::format("Pollux workloads 1-6, load {}, {} s per change", load, cost),
          .cluster = "16x4",
          .files = {},
          .profiles = data + "/pollux/profiles",
          .format = WorkloadFormat::kPollux,
          .resize_cost_s = cost};
      for (int i = 1; i <= 6; ++i) {
        set.files.push_back(fmt::format("{}/pollux/workloads-{}/workload-{}.csv", data, load, i));
      }
      sets.push_back(std::move(set));
    }
  }
  for (int i = 1;; ++i) {
    const std::string file = fmt::format("{}/sia/workloads/workload-{}.csv", data, i);
    if (!is_file(file)) break;
    sets.push_back(
        {.name = fmt::format("Sia workload {}, 6x4:t4,3x8:rtx,2x8:a100, 30 s per change", i),
         .cluster = "6x4:t4,3x8:rtx,2x8:a100",
         .files = {file},
         .profiles = data + "/sia/profiles",
         .format = WorkloadFormat::kSia,
         .resize_cost_s = 30});
  }
  return sets;
}

struct Row {
  std::string label;
  PolicyChoice choice;
};

Row usual_row(const PolicyInfo& info) {
  // A program over several periods in every round would take hours, so this uses the exact
  // one-period form.
  const Settings settings = info.name == "mip" ? Settings{{"periods", "1"}} : Settings{};
  return {info.name, {.info = &info, .settings = settings, .at_events = info.at_events}};
}

// Pollux and rubato with other settings.
std::vector<Row> further_rows(const std::vector<Row>& rows, Seconds resize_cost_s) {
  std::vector<Row> result;
  for (const Row& row : rows) {
    const PolicyInfo* info = row.choice.info;
    if (info->name == "rubato") {
      result.push_back({"rubato, 60 s", {.info = info, .settings = {}, .at_events = false}});
    }
    if (info->name != "pollux") continue;
    result.push_back({"pollux, events", {.info = info, .settings = {}, .at_events = true}});
    const Settings fitting{{"restart_delay", fmt::format("{}", resize_cost_s)}, {"interval", "30"}};
    result.push_back({"pollux, its best", {.info = info, .settings = fitting, .at_events = true}});
  }
  return result;
}

// Means over the workloads of a set. Decision times are those of the slowest workload.
struct Line {
  double mean = 0, p99 = 0, queue = 0, resizes = 0;
  double decision_ms = 0, decision_p50_ms = 0, decision_p99_ms = 0;
  long limited = 0;  // decisions in which a solver hit its limit

  void add(const Line& other, double share) {
    mean += other.mean * share;
    p99 += other.p99 * share;
    queue += other.queue * share;
    resizes += other.resizes * share;
    decision_ms = std::max(decision_ms, other.decision_ms);
    decision_p50_ms = std::max(decision_p50_ms, other.decision_p50_ms);
    decision_p99_ms = std::max(decision_p99_ms, other.decision_p99_ms);
    limited += other.limited;
  }
};

Line to_line(const SimSummary& s) {
  return {.mean = s.mean_jct_s,
          .p99 = s.p99_jct_s,
          .queue = s.mean_queue_s,
          .resizes = static_cast<double>(s.resizes),
          .decision_ms = s.decisions.total_ms_mean,
          .decision_p50_ms = s.decisions.total_ms_p50,
          .decision_p99_ms = s.decisions.total_ms_p99,
          .limited = s.decisions.noted};
}

// One line per row.
std::vector<Line> run_set(const WorkloadSet& set, const std::vector<Row>& rows) {
  const Cluster cluster = or_die(Cluster::parse(set.cluster));
  const Applications applications = or_die(read_profiles(set.profiles, cluster));
  RunMatrix matrix;
  for (const Row& row : rows) matrix.policies.push_back(row.choice);
  matrix.seeds = {1};
  matrix.threads = hardware_threads();
  matrix.options.round_s = 60;
  matrix.options.resize.stop_s = set.resize_cost_s;
  const bool artifact = set.format == WorkloadFormat::kPollux;
  for (const std::string& file : set.files) {
    matrix.workloads.push_back(
        or_die(read_workload(file, cluster, applications, {.format = set.format})));
    matrix.quirks.push_back({.whole_second_epochs = artifact, .whole_epoch_remaining = artifact});
  }
  const auto runs = or_die(run_matrix(cluster, matrix, {}));
  std::vector<Line> lines(rows.size());
  for (std::size_t i = 0; i < runs.size(); ++i) {
    lines[i % rows.size()].add(to_line(runs[i].summary),
                               1.0 / static_cast<double>(set.files.size()));
  }
  return lines;
}

// Null if there is no such row.
const Line* find_line(const std::vector<Line>& lines, const std::vector<Row>& rows,
                      std::string_view label) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].label == label) return &lines[i];
  }
  return nullptr;
}

void print(const std::string& name, const std::vector<Line>& lines, const std::vector<Row>& rows,
           bool against_sia) {
  const Line* pollux = find_line(lines, rows, "pollux");
  const Line& base = pollux == nullptr ? lines.front() : *pollux;
  const Line* sia = against_sia ? find_line(lines, rows, "sia") : nullptr;
  fmt::print("\n{}\n{:<18} {:>10} {:>8} {:>10} {:>8} {:>9} {:>9} {:>12} {:>8} {:>8}{}\n", name,
             "policy", "mean JCT s", "ratio", "p99 JCT s", "ratio", "queue s", "resizes",
             "decision ms", "p50", "p99", sia == nullptr ? "" : "  mean/sia   p99/sia");
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Line& line = lines[i];
    fmt::print(
        "{:<18} {:>10.0f} {:>7.2f}x {:>10.0f} {:>7.2f}x {:>9.0f} {:>9.0f} {:>12.3f} {:>8.3f} "
        "{:>8.3f}",
        rows[i].label, line.mean, line.mean / base.mean, line.p99, line.p99 / base.p99, line.queue,
        line.resizes, line.decision_ms, line.decision_p50_ms, line.decision_p99_ms);
    if (sia != nullptr)
      fmt::print(" {:>8.3f}x {:>8.3f}x", line.mean / sia->mean, line.p99 / sia->p99);
    if (line.limited > 0) fmt::print("  ({} decisions at a limit)", line.limited);
    fmt::print("\n");
  }
  std::fflush(stdout);
}

// Compares nearly free changes with what a change costs in other systems.
void print_across(const std::optional<Line>& rubato_1s, const std::optional<Line>& pollux_30s) {
  if (!rubato_1s || !pollux_30s) return;
  fmt::print(
      "\nrubato with 1 s per change compared with pollux with 30 s, load 1.0: mean {:.0f} / {:.0f} "
      "s = {:.2f}x, p99 {:.0f} / {:.0f} s = {:.2f}x\n",
      rubato_1s->mean, pollux_30s->mean, rubato_1s->mean / pollux_30s->mean, rubato_1s->p99,
      pollux_30s->p99, rubato_1s->p99 / pollux_30s->p99);
}

int run(int argc, char** argv) {
  const std::string data = recorded_data();
  need_recorded_data(data + "/pollux");
  std::vector<Row> usual;
  std::string only;
  for (int i = 1; i < argc; ++i) {
    if (argv[i] == std::string_view("--only") && i + 1 < argc) {
      only = argv[++i];
      continue;
    }
    usual.push_back(usual_row(*or_die(find_policy(argv[i]))));
  }
  if (usual.empty()) {
    for (const PolicyInfo& info : policy_table()) usual.push_back(usual_row(info));
  }
  fmt::print(
      "Ratios are relative to pollux in the same run. Policies decide every 60 s; rubato at every "
      "arrival and end and after 60 s, its batches every 10 s.\nmip plans one period here. "
      "'pollux, its best' decides at events and after 30 s, with restart_delay = the cost of a "
      "change.\n");
  std::vector<std::vector<Line>> sia;
  std::optional<Line> rubato_1s;
  std::optional<Line> pollux_30s;
  for (const WorkloadSet& set : workload_sets(data)) {
    if (set.name.find(only) == std::string::npos) continue;
    std::vector<Row> rows = usual;
    const bool full_load = set.name.find("load 1.0") != std::string::npos;
    if (full_load) {
      const std::vector<Row> further = further_rows(usual, set.resize_cost_s);
      rows.insert(rows.end(), further.begin(), further.end());
    }
    const std::vector<Line> lines = run_set(set, rows);
    const bool mixed = set.format == WorkloadFormat::kSia;
    print(set.name, lines, rows, mixed);
    if (mixed) sia.push_back(lines);
    const Line* rubato = find_line(lines, rows, "rubato");
    const Line* pollux = find_line(lines, rows, "pollux");
    if (full_load && set.resize_cost_s == 1 && rubato != nullptr) rubato_1s = *rubato;
    if (full_load && set.resize_cost_s == 30 && pollux != nullptr) pollux_30s = *pollux;
  }
  if (sia.size() > 1) {
    std::vector<Line> mean(usual.size());
    for (const std::vector<Line>& lines : sia) {
      for (std::size_t i = 0; i < lines.size(); ++i) {
        mean[i].add(lines[i], 1.0 / static_cast<double>(sia.size()));
      }
    }
    print(fmt::format("Mean of the {} Sia workloads (decision times: of the slowest)", sia.size()),
          mean, usual, true);
  }
  print_across(rubato_1s, pollux_30s);
  return 0;
}

}  // namespace
}  // namespace rubato::bench

int main(int argc, char** argv) { return rubato::bench::run(argc, argv); }
