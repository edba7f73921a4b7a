// rubato sim: simulates policies x workloads x seeds.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <span>

#include "base/file.h"
#include "base/parallel.h"
#include "base/text.h"
#include "commands.h"
#include "progress.h"
#include "show_page.h"
#include "sim/external_events.h"
#include "sim/report.h"
#include "sim/run_matrix.h"

namespace rubato::cli {

namespace {

struct SimArguments {
  bool from_live = false;
  std::string cluster = "16x4";
  std::vector<std::string> workloads;
  std::string format = "auto";
  std::string profiles;
  std::string policies = "fifo,tiresias,optimus,pollux";
  std::vector<std::string> settings;
  std::string round = "event";
  double resize_cost_s = 30;
  double stop_free_s = -1;
  double interference = 0;
  double scaling = 0.9;
  std::string elastic = "1..1";
  std::string quirks = "auto";
  std::string failures;
  std::string serving;
  double give_back_s = 0;
  std::uint64_t seed = 1;
  int repeat = 1;
  int threads = hardware_threads();
  bool json = false;
  bool quiet = false;
  std::string out;
  bool open = false;
};

Result<std::optional<Seconds>> parse_round(const std::string& text) {
  if (text == "event") return std::optional<Seconds>();
  const auto seconds = parse_double(text);
  if (!seconds || *seconds <= 0 || *seconds > 1e7) {
    return invalid_input(
        fmt::format("--round {}: expected 'event' or seconds between 0 and 1e7", text));
  }
  return std::optional<Seconds>(*seconds);
}

Result<std::pair<double, double>> parse_elastic(const std::string& text) {
  const std::size_t dots = text.find("..");
  if (dots != std::string::npos) {
    const auto low = parse_double(std::string_view(text).substr(0, dots));
    const auto high = parse_double(std::string_view(text).substr(dots + 2));
    if (low && high && *low > 0 && *low <= 1 && *high >= 1 && *high <= 1024) {
      return std::pair(*low, *high);
    }
  }
  return invalid_input(fmt::format(
      "--elastic {}: expected LOW..HIGH, factors of the requested size with LOW <= 1 <= HIGH",
      text));
}

Result<std::vector<PolicyChoice>> choose_policies(const SimArguments& arguments) {
  std::vector<PolicyChoice> choices;
  for (const std::string_view name : split(arguments.policies, ',')) {
    const auto info = find_policy(name);
    if (!info) return info.error();
    choices.push_back({.info = *info, .settings = {}});
  }
  for (const std::string& setting : arguments.settings) {
    const std::size_t dot = setting.find('.');
    const std::size_t equals = setting.find('=');
    if (dot == std::string::npos || equals == std::string::npos || dot > equals) {
      return invalid_input(
          fmt::format("--set {}: expected POLICY.PARAMETER=VALUE, see 'rubato policies'", setting));
    }
    const std::string policy = setting.substr(0, dot);
    const auto known = find_policy(policy);
    if (!known) return known.error();
    bool used = false;
    for (PolicyChoice& choice : choices) {
      if (choice.info->name != policy) continue;
      choice.settings[setting.substr(dot + 1, equals - dot - 1)] = setting.substr(equals + 1);
      used = true;
    }
    if (!used) {
      return invalid_input(
          fmt::format("--set {}: policy '{}' is not among --policy", setting, policy));
    }
  }
  for (const PolicyChoice& choice : choices) {
    const auto made = make_policy(*choice.info, choice.settings, arguments.seed);
    if (!made) return made.error();
  }
  return choices;
}

Result<Quirks> choose_quirks(const std::string& text, const Workload& workload, bool rounds) {
  if (text == "none") return Quirks{};
  if (text == "auto") {
    const bool artifact = workload.format == WorkloadFormat::kPollux && rounds;
    return Quirks{.whole_second_epochs = artifact, .whole_epoch_remaining = artifact};
  }
  Quirks quirks;
  const std::map<std::string, bool Quirks::*> known{
      {"whole-second-epochs", &Quirks::whole_second_epochs},
      {"whole-epoch-remaining", &Quirks::whole_epoch_remaining}};
  for (const std::string_view name : split(text, ',')) {
    const auto found = known.find(std::string(name));
    if (found == known.end()) {
      return invalid_input(
          fmt::format("--quirks {}: expected auto, none, or a list of whole-second-epochs, "
                      "whole-epoch-remaining",
                      name));
    }
    quirks.*found->second = true;
  }
  return quirks;
}

// The given profiles, else those next to the workload's folder, else the bundled ones.
std::string choose_profiles(const SimArguments& arguments, const std::string& workload,
                            const std::string& share_dir) {
  if (!arguments.profiles.empty()) return arguments.profiles;
  const auto folder = std::filesystem::absolute(workload).parent_path();
  const std::string beside = (folder.parent_path() / "profiles").string();
  return is_directory(beside) ? beside : share_dir + "/profiles";
}

Result<RunMatrix> prepare(const SimArguments& arguments, const Cluster& cluster,
                          const Context& context) {
  RunMatrix matrix;
  matrix.threads = arguments.threads;
  for (int i = 0; i < arguments.repeat; ++i) {
    matrix.seeds.push_back(arguments.seed + static_cast<std::uint64_t>(i));
  }
  auto policies = choose_policies(arguments);
  if (!policies) return policies.error();
  matrix.policies = std::move(*policies);
  const auto round = parse_round(arguments.round);
  if (!round) return round.error();
  const auto elastic = parse_elastic(arguments.elastic);
  if (!elastic) return elastic.error();
  SimOptions& options = matrix.options;
  options.round_s = *round;
  options.record_devices = !arguments.out.empty();
  options.resize.stop_s = arguments.resize_cost_s;
  if (arguments.stop_free_s >= 0) options.resize.stop_free_s = arguments.stop_free_s;
  options.interference = arguments.interference;
  options.law.exponent = arguments.scaling;
  if (!arguments.failures.empty()) {
    auto events = read_node_events(arguments.failures, cluster);
    if (!events) return events.error();
    options.node_events = std::move(*events);
  }
  if (!arguments.serving.empty()) {
    auto load = read_serving_load(arguments.serving, cluster);
    if (!load) return load.error();
    options.serving_load = std::move(*load);
    options.give_back_s = arguments.give_back_s;
  }
  const auto format = parse_workload_format(arguments.format);
  if (!format) {
    return invalid_input(fmt::format(
        "--format {}: expected auto, pollux, itp, philly, sia or native", arguments.format));
  }
  const WorkloadOptions workload_options{
      .format = *format, .elastic_low = elastic->first, .elastic_high = elastic->second};
  std::map<std::string, Applications> profiles;  // by directory
  for (const std::string& path : arguments.workloads) {
    const auto detected = *format == WorkloadFormat::kAuto ? detect_format(path) : *format;
    if (!detected) return detected.error();
    const std::string directory =
        needs_profiles(*detected) ? choose_profiles(arguments, path, context.share_dir) : "";
    if (!profiles.contains(directory)) {
      auto applications = directory.empty() ? Result<Applications>(Applications())
                                            : read_profiles(directory, cluster);
      if (!applications) return applications.error();
      profiles.emplace(directory, std::move(*applications));
    }
    auto workload = read_workload(path, cluster, profiles[directory], workload_options);
    if (!workload) return workload.error();
    const auto quirks = choose_quirks(arguments.quirks, *workload, round->has_value());
    if (!quirks) return quirks.error();
    matrix.quirks.push_back(*quirks);
    matrix.workloads.push_back(std::move(*workload));
  }
  return matrix;
}

// Files from different folders often have the same name. The folder then becomes part of the name.
void name_workloads(const std::vector<std::string>& paths, RunMatrix& matrix) {
  std::map<std::string, int> uses;
  for (const Workload& workload : matrix.workloads) ++uses[workload.name];
  for (std::size_t i = 0; i < paths.size(); ++i) {
    Workload& workload = matrix.workloads[i];
    if (uses[workload.name] < 2) continue;
    const auto folder = std::filesystem::absolute(paths[i]).parent_path().filename();
    workload.name = folder.string() + "/" + workload.name;
  }
}

int run_from_live(const SimArguments& arguments, const Context& context) {
  if (arguments.policies.empty()) return forecast_live(context.server, {}, arguments.json);
  const auto choices = choose_policies(arguments);
  if (!choices) return fail(choices.error());
  std::vector<std::pair<std::string, Settings>> policies;
  for (const PolicyChoice& choice : *choices) {
    policies.emplace_back(choice.info->name, choice.settings);
  }
  return forecast_live(context.server, policies, arguments.json);
}

// Writes the reports and shows them, if that was asked for.
Status report_runs(const SimArguments& arguments, std::span<const SimResult> runs,
                   const ReportContext& context) {
  const ReportBundle bundle = report_bundle();
  if (Status written = write_reports(arguments.out, runs, context, bundle); !written)
    return written;
  fmt::print(stderr,
             "written to {}: report.html, summary.json, jobs.csv, timeline.csv, devices.csv, "
             "report.json\n",
             arguments.out);
  if (bundle.script.empty()) {
    fmt::print(stderr, "report.html has no plots: this rubato was built without Node\n");
  }
  if (arguments.open) open_in_browser(arguments.out + "/report.html");
  return ok_status();
}

// A new folder for results that are only to be looked at.
Result<std::string> temporary_folder() {
  std::error_code error;
  std::string path = (std::filesystem::temp_directory_path(error) / "rubato-sim-XXXXXX").string();
  if (error || ::mkdtemp(path.data()) == nullptr) {
    return Error{ErrorCode::kIo, path + ": cannot be created; use --out DIR"};
  }
  return path;
}

int run_sim(SimArguments arguments, const Context& context) {
  if (arguments.workloads.empty()) {
    arguments.workloads.push_back(context.share_dir + "/workloads/demo.jsonl");
  }
  if (!arguments.out.empty() && is_file(arguments.out)) {
    return fail(invalid_input("--out " + arguments.out + ": is a file; expected a directory"));
  }
  const auto cluster = Cluster::parse(arguments.cluster);
  if (!cluster) return fail(cluster.error());
  if (arguments.open && arguments.out.empty()) {
    const auto folder = temporary_folder();
    if (!folder) return fail(folder.error());
    arguments.out = *folder;
  }
  auto matrix = prepare(arguments, *cluster, context);
  if (!matrix) return fail(matrix.error());
  name_workloads(arguments.workloads, *matrix);

  long total_jobs = 0;
  for (const Workload& workload : matrix->workloads) {
    total_jobs +=
        static_cast<long>(workload.jobs.size() * matrix->policies.size() * matrix->seeds.size());
  }
  Result<std::vector<SimResult>> runs = std::vector<SimResult>();
  {
    Progress progress(total_jobs, arguments.quiet);
    runs = run_matrix(
        *cluster, *matrix,
        {.on_jobs = [&](long finished) { progress.jobs(finished); },
         .on_run =
             [&](const SimSummary& s) {
               progress.line(fmt::format("simulated {} on {}: {} of {} jobs in {:.2f} s", s.policy,
                                         s.workload, s.jobs_finished, s.jobs, s.wall_s));
             }});
  }
  if (!runs) return fail(runs.error());

  const ReportContext report{.command = context.command_line,
                             .cluster = arguments.cluster,
                             .round = arguments.round,
                             .resize_cost_s = arguments.resize_cost_s};
  if (!arguments.out.empty()) {
    const Status reported = report_runs(arguments, *runs, report);
    if (!reported) return fail(reported.error());
  }
  if (arguments.json) {
    fmt::print("{}", summary_json(*runs, report));
  } else {
    fmt::print("{}\n{}", text_table(*runs), text_plot(*runs, 100));
    if (arguments.out.empty()) {
      fmt::print(stderr,
                 "\nnext: add --open to see plots, --out DIR to keep them, --json for programs; "
                 "'rubato policies' lists what to compare\n");
    }
  }
  return 0;
}

}  // namespace

void add_sim(CLI::App& app, const Context& context, Command& chosen) {
  CLI::App* sim = app.add_subcommand("sim", "Compare policies on simulated workloads");
  auto a = std::make_shared<SimArguments>();
  sim->add_option("--cluster", a->cluster, "NODESxDEVICES, or 6x4:t4,3x8:rtx,2x8:a100")
      ->capture_default_str();
  sim->add_option("--workload", a->workloads,
                  "File with jobs (repeatable; default: the bundled demo)");
  sim->add_option("--format", a->format,
                  "Format of the workload: auto, pollux, itp, philly, sia or native")
      ->capture_default_str();
  sim->add_option("--profiles", a->profiles,
                  "Folder with application profiles (default: ../profiles relative to the "
                  "workload, else the bundled ones)");
  CLI::Option* policies =
      sim->add_option("--policy", a->policies, "Policies to compare, separated by commas")
          ->capture_default_str();
  sim->add_option("--set", a->settings, "POLICY.PARAMETER=VALUE (repeatable)");
  sim->add_option("--round", a->round, "Seconds between scheduling rounds, or 'event'")
      ->capture_default_str();
  sim->add_option("--resize-cost", a->resize_cost_s, "Seconds that a change of devices costs a job")
      ->check(between(0.0, 1e7))
      ->capture_default_str();
  sim->add_option("--stop-free", a->stop_free_s,
                  "Seconds that a resize pauses a running job (default: as --resize-cost)")
      ->check(between(0.0, 1e7));
  sim->add_option("--interference", a->interference,
                  "Slowdown of jobs that share a node with another job that spans nodes")
      ->check(between(0.0, 0.99))
      ->capture_default_str();
  sim->add_option("--scaling", a->scaling,
                  "For recorded durations: the speed on k devices is k to this power")
      ->check(between(0.0, 1.0))
      ->capture_default_str();
  sim->add_option(
         "--elastic", a->elastic,
         "For recorded durations: allowed sizes as factors LOW..HIGH of the requested size")
      ->capture_default_str();
  sim->add_option("--failures", a->failures, "CSV file time,node,event: nodes that go down or up");
  sim->add_option("--serving", a->serving,
                  "CSV file time,devices[,type]: devices taken for serving");
  sim->add_option("--give-back", a->give_back_s,
                  "Seconds within which training returns devices to serving; 0: immediately")
      ->check(between(0.0, 1e7))
      ->capture_default_str();
  sim->add_option("--quirks", a->quirks,
                  "Quirks of published simulators to imitate: auto, none or a list")
      ->capture_default_str();
  sim->add_option("--seed", a->seed, "Random seed")->capture_default_str();
  sim->add_option("--repeat", a->repeat, "Number of seeds to run with, starting at --seed")
      ->check(between(1, 10'000))
      ->capture_default_str();
  sim->add_option("--jobs", a->threads, "Number of threads")
      ->check(between(1, 1024))
      ->capture_default_str();
  sim->add_flag("--json", a->json, "Summary as JSON on standard output");
  sim->add_flag("--quiet", a->quiet, "No progress");
  sim->add_option("--out", a->out, "Folder for report.html, summary.json and CSV files");
  sim->add_flag("--open", a->open,
                "Open the report in the browser (without --out: from a temporary folder)");
  CLI::Option* live =
      sim->add_flag("--from-live", a->from_live,
                    "Start from the daemon's state: predict when each job ends under each policy");
  for (const char* other : {"--workload", "--cluster", "--out", "--open", "--repeat"}) {
    live->excludes(sim->get_option(other));
  }
  sim->callback([a, policies, &context, &chosen] {
    if (a->from_live && policies->count() == 0) a->policies = "";  // the daemon's policy
    chosen = [a, &context] {
      return a->from_live ? run_from_live(*a, context) : run_sim(*a, context);
    };
  });
}

}  // namespace rubato::cli
