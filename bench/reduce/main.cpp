// Speed of the runtime's reduction compared to the all-reduce of Gloo and Open MPI, as Markdown.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "reduce/group.h"
#include "reduce/ours.h"

namespace {

using rubato::bench::Group;

struct Options {
  std::vector<int> processes{2, 4};
  std::vector<int> mebibytes{1, 16, 64, 256};
  int rounds = 5;
  bool peers = true;
};

// A system in one of its variants; the tables compare families.
struct Entry {
  std::string family;
  std::string name;
  Group* group;
  int variant;
  bool group_alive = true;  // at the end of the measurement
};

constexpr const char* kOurs = "ours";
constexpr const char* kOursCopy = "ours with copy";
constexpr const char* kUneven = "ours uneven";
constexpr const char* kNodes = "ours between nodes";
constexpr const char* kFloor = "floor";
constexpr const char* kFloorCopy = "floor with copy";
constexpr const char* kGloo = "gloo";
constexpr const char* kMpi = "mpi";

class Systems {
 public:
  Systems(int ranks, const std::string& programs, bool peers);
  const std::vector<Entry>& entries() const { return entries_; }
  void prepare(std::size_t floats) {
    for (const auto& group : groups_) group->prepare(floats);
  }

 private:
  Group* add(std::unique_ptr<Group> group) {
    groups_.push_back(std::move(group));
    return groups_.back().get();
  }
  std::vector<std::unique_ptr<Group>> groups_;
  std::vector<Entry> entries_;
};

Systems::Systems(int ranks, const std::string& programs, bool peers) {
  using rubato::bench::serve_ours;
  Group* ours = add(Group::fork_ranks("ours", ranks, [](const Group& group, int rank) {
    serve_ours(group.control_name(), rank, true);
  }));
  Group* uneven = add(Group::fork_ranks("ours, uneven", ranks, [](const Group& group, int rank) {
    serve_ours(group.control_name(), rank, false);
  }));
  Group* nodes =
      add(Group::fork_ranks("ours between nodes", ranks, [](const Group& group, int rank) {
        rubato::bench::serve_ours_between_nodes(group.control_name(), rank);
      }));
  entries_ = {{kOurs, "", ours, rubato::bench::kInPlace},
              {kOursCopy, "", ours, rubato::bench::kWithCopy},
              {kFloor, "", ours, rubato::bench::kInPlaceFloor},
              {kFloorCopy, "", ours, rubato::bench::kWithCopyFloor},
              {kUneven, "", uneven, rubato::bench::kInPlace},
              {kNodes, "", nodes, 0}};
  if (!peers) return;
  const std::string gloo_rank = programs + "/gloo_rank";
  if (std::filesystem::exists(gloo_rank)) {
    Group* gloo = add(Group::fork_ranks("gloo", ranks, [&](const Group& group, int rank) {
      rubato::bench::execute(
          {gloo_rank, group.control_name(), std::to_string(rank), group.folder()});
    }));
    const std::vector<std::string> algorithms{"ring", "bcube", "ring chunked", "halving doubling"};
    for (int i = 0; i < static_cast<int>(algorithms.size()); ++i) {
      entries_.push_back({kGloo, algorithms[static_cast<std::size_t>(i)], gloo, i});
    }
  }
  const std::string mpi_rank = programs + "/mpi_rank";
  if (std::filesystem::exists(mpi_rank)) {
    for (const std::string transport : {"vader", "tcp"}) {
      Group* mpi = add(Group::launch("Open MPI " + transport, ranks, [&](const std::string& name) {
        std::vector<std::string> command{"mpirun",
                                         "--allow-run-as-root",
                                         "--oversubscribe",
                                         "--bind-to",
                                         "none",
                                         "-n",
                                         std::to_string(ranks),
                                         "--mca",
                                         "pml",
                                         "ob1",
                                         "--mca",
                                         "btl",
                                         "self," + transport,
                                         "--mca",
                                         "mpi_yield_when_idle",
                                         "1"};
        if (transport == "tcp")
          command.insert(command.end(), {"--mca", "btl_tcp_if_include", "lo"});
        command.insert(command.end(), {mpi_rank, name});
        return command;
      }));
      entries_.push_back({kMpi, transport == "vader" ? "shared memory" : transport, mpi, 0});
    }
  }
}

struct Statistic {
  double median = 0;
  double fastest = 0;
};

struct Best {
  std::string name;
  double seconds = 0;  // 0: the family is absent
};

// All systems with one number of processes and one size.
struct Cell {
  int ranks = 0;
  std::size_t bytes = 0;
  std::vector<Entry> entries;
  std::vector<Statistic> statistics;

  // The family's fastest variant.
  Best best(const std::string& family, double Statistic::*which) const {
    Best result;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (entries[i].family != family || !entries[i].group_alive) continue;
      const double seconds = statistics[i].*which;
      if (result.seconds == 0 || seconds < result.seconds) result = {entries[i].name, seconds};
    }
    return result;
  }
  double peer(double Statistic::*which) const {
    const double gloo = best(kGloo, which).seconds;
    const double mpi = best(kMpi, which).seconds;
    return gloo == 0 || (mpi != 0 && mpi < gloo) ? mpi : gloo;
  }
};

// In every round each system has a turn, so that a temporary load affects all of them.
Cell measure(Systems& systems, int ranks, std::size_t bytes, int iterations, int rounds,
             bool back_to_back) {
  Cell cell{.ranks = ranks, .bytes = bytes, .entries = systems.entries(), .statistics = {}};
  systems.prepare(bytes / sizeof(float));
  std::vector<std::vector<double>> seconds(cell.entries.size());
  for (const Entry& entry : cell.entries) entry.group->round(entry.variant, 2, false);  // warms up
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < cell.entries.size(); ++i) {
      seconds[i].push_back(
          cell.entries[i].group->round(cell.entries[i].variant, iterations, back_to_back));
    }
  }
  for (Entry& entry : cell.entries) entry.group_alive = entry.group->alive();
  for (std::vector<double>& times : seconds) {
    std::sort(times.begin(), times.end());
    cell.statistics.push_back({times[times.size() / 2], times.front()});
  }
  fmt::print(stderr, "{} processes, {} KiB, median ms:", ranks, bytes / 1024);
  for (std::size_t i = 0; i < cell.entries.size(); ++i) {
    fmt::print(stderr, " {} {} {:.3f},", cell.entries[i].family, cell.entries[i].name,
               cell.statistics[i].median * 1e3);
  }
  fmt::print(stderr, "\n");
  return cell;
}

std::string rate(const Cell& cell, const Best& best) {
  if (best.seconds == 0) return "absent";
  std::string text = fmt::format("{:.2f}", static_cast<double>(cell.bytes) * 1e-9 / best.seconds);
  return best.name.empty() ? text : fmt::format("{} ({})", text, best.name);
}

std::string ratio(double ours, double peer) {
  return peer == 0 ? "-" : fmt::format("{:.2f}", peer / ours);
}

void print_rates(const std::vector<Cell>& cells, double Statistic::*which) {
  fmt::print(
      "| processes | MiB | ours | ours + copy | Gloo | Open MPI | ours / best peer | ours + copy / "
      "best peer | floor | floor + copy | ours, uneven |\n"
      "|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n");
  for (const Cell& cell : cells) {
    const auto of = [&](const char* family) { return cell.best(family, which); };
    const double peer = cell.peer(which);
    fmt::print("| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n", cell.ranks,
               cell.bytes >> 20U, rate(cell, of(kOurs)), rate(cell, of(kOursCopy)),
               rate(cell, of(kGloo)), rate(cell, of(kMpi)), ratio(of(kOurs).seconds, peer),
               ratio(of(kOursCopy).seconds, peer), rate(cell, of(kFloor)),
               rate(cell, of(kFloorCopy)), rate(cell, of(kUneven)));
  }
  fmt::print("\n");
}

void print_nodes(const std::vector<Cell>& cells) {
  fmt::print(
      "| processes | MiB | ours between nodes | Gloo | ours / Gloo | fastest rounds: ours | Gloo | "
      "ours / Gloo |\n"
      "|--:|--:|--:|--:|--:|--:|--:|--:|\n");
  for (const Cell& cell : cells) {
    fmt::print("| {} | {} |", cell.ranks, cell.bytes >> 20U);
    for (const auto which : {&Statistic::median, &Statistic::fastest}) {
      const Best ours = cell.best(kNodes, which);
      const Best gloo = cell.best(kGloo, which);
      fmt::print(" {} | {} | {} |", rate(cell, ours), rate(cell, gloo),
                 ratio(ours.seconds, gloo.seconds));
    }
    fmt::print("\n");
  }
  fmt::print("\n");
}

void print_latencies(const std::vector<Cell>& cells) {
  fmt::print(
      "| processes | ours | ours + copy | Gloo | Open MPI | ours between nodes |\n"
      "|--:|--:|--:|--:|--:|--:|\n");
  for (const Cell& cell : cells) {
    const auto time = [&](const char* family) {
      const Best median = cell.best(family, &Statistic::median);
      if (median.seconds == 0) return std::string("absent");
      return fmt::format("{:.1f} [{:.1f}]{}", median.seconds * 1e6,
                         cell.best(family, &Statistic::fastest).seconds * 1e6,
                         median.name.empty() ? "" : fmt::format(" ({})", median.name));
    };
    fmt::print("| {} | {} | {} | {} | {} | {} |\n", cell.ranks, time(kOurs), time(kOursCopy),
               time(kGloo), time(kMpi), time(kNodes));
  }
  fmt::print("\n");
}

void print_verdict(const std::vector<Cell>& cells) {
  const auto wins = [&](const char* family) {
    return std::count_if(cells.begin(), cells.end(), [&](const Cell& cell) {
      return cell.best(family, &Statistic::median).seconds <= cell.peer(&Statistic::median);
    });
  };
  if (cells.empty() || cells.front().peer(&Statistic::median) == 0) {
    fmt::print("There was no peer to compare with.\n");
    return;
  }
  fmt::print(
      "At least as fast as the better peer (medians): ours in {} of {} cases, ours + copy in {} of "
      "{}.\n",
      wins(kOurs), cells.size(), wins(kOursCopy), cells.size());
}

int run(const Options& options, const std::string& programs) {
  constexpr std::size_t kMebibyte = std::size_t{1} << 20U;
  std::vector<Cell> cells;
  std::vector<Cell> tiny;
  for (const int ranks : options.processes) {
    Systems systems(ranks, programs, options.peers);
    // Repetition in place multiplies the peers' values by the ranks; 30 times is far from overflow.
    tiny.push_back(measure(systems, ranks, 4096, 30, 5 * options.rounds, true));
    for (const int size : options.mebibytes) {
      cells.push_back(measure(systems, ranks, static_cast<std::size_t>(size) * kMebibyte,
                              std::clamp(64 / size, 1, 30), options.rounds, false));
    }
  }
  double load = 0;
  if (getloadavg(&load, 1) != 1) load = 0;
  fmt::print(
      "Processor cores: {}. Load average at the end: {:.1f} (if that exceeds the processes of the "
      "system "
      "whose turn it is, others used the machine).\n\n",
      std::thread::hardware_concurrency(), load);
  fmt::print("## Bandwidth: GB/s (10^9 bytes of gradient / seconds), median of {} rounds\n\n",
             options.rounds);
  print_rates(cells, &Statistic::median);
  fmt::print("## The same, fastest round\n\n");
  print_rates(cells, &Statistic::fastest);
  fmt::print(
      "## Fixed cost: microseconds for a gradient of 4 KiB, median [fastest] of {} rounds\n\n",
      5 * options.rounds);
  print_latencies(tiny);
  fmt::print(
      "## Between nodes: GB/s over TCP on the loopback interface, every process a node of its own, "
      "compared to Gloo's TCP\n\n");
  print_nodes(cells);
  print_verdict(cells);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Compare the speed of the reduction to the all-reduce of Gloo and Open MPI");
  Options options;
  app.add_option("--processes", options.processes, "Numbers of processes")->capture_default_str();
  app.add_option("--mib", options.mebibytes, "Sizes of the gradient in MiB")->capture_default_str();
  app.add_option("--rounds", options.rounds, "Number of rounds")->capture_default_str();
  app.add_flag("!--no-peers", options.peers, "Measure only our own reduction");
  CLI11_PARSE(app, argc, argv);
  return run(options, std::filesystem::read_symlink("/proc/self/exe").parent_path().string());
}
