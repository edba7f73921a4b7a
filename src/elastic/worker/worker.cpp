#include "elastic/worker/worker.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <memory>
#include <utility>

#include "base/file.h"
#include "base/json_text.h"
#include "base/text.h"
#include "elastic/job/checkpoint.h"
#include "elastic/job/job_folder.h"
#include "elastic/job/job_plan.h"
#include "elastic/job/logical_workers.h"
#include "elastic/job/node_names.h"
#include "elastic/job/registry_url.h"
#include "elastic/job/replay.h"
#include "elastic/launch/warm_copy.h"
#include "elastic/memory/worker_segment.h"
#include "elastic/worker/coordinator.h"
#include "elastic/worker/training.h"

namespace rubato::elastic {

namespace {

TrainingPort* g_asked_to_leave_by_signal = nullptr;  // a signal handler cannot reach anything else

void on_terminate(int) {
  if (g_asked_to_leave_by_signal != nullptr) g_asked_to_leave_by_signal->ask_to_leave();
}

int failed(const Error& error) {
  fmt::print(stderr, "rubato: {}\n", error.message);
  return kWorkerFailed;
}

// A worker without a launcher is a job in a temporary folder that is removed with it.
class OwnFolder {
 public:
  static Result<std::unique_ptr<OwnFolder>> make(const WorkerOptions& options) {
    std::string path = (std::filesystem::temp_directory_path() / "rubato-XXXXXX").string();
    if (mkdtemp(path.data()) == nullptr) {
      return Error{ErrorCode::kIo,
                   fmt::format("{}: cannot create: {}", path, std::strerror(errno))};
    }
    auto own = std::unique_ptr<OwnFolder>(new OwnFolder(path));
    const JobFolder folder(path);
    Status secret = folder.make_secret();
    if (!secret.ok()) return secret.error();
    Status written = folder.write_settings({.name = options.name,
                                            .token = std::filesystem::path(path).filename(),
                                            .logical_workers = options.logical_workers,
                                            .checkpoint_every_s = 0});
    if (!written.ok()) return written.error();
    return own;
  }
  OwnFolder(const OwnFolder&) = delete;
  OwnFolder& operator=(const OwnFolder&) = delete;
  ~OwnFolder() { remove_tree(path_); }
  const std::string& path() const { return path_; }

 private:
  explicit OwnFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// Loads the lazy parts of the libraries and touches the memory before the job relies on this
// worker. The result is discarded; the state is unchanged.
void warm_up(Program& program, const DataOrder& order, const WorkerSegment& own) {
  const Status reserved = own.reserve_buffer(0);
  if (!reserved.ok()) return;  // reported when training needs the buffer
  program.bind_buffer(0, own.buffer(0));
  MiniBatch batch;
  order.share(0, 0, batch);
  std::vector<std::byte> before(program.shape().private_bytes);
  std::vector<std::byte> after(before.size());
  program.initial_private(before);
  double loss = 0;
  program.compute(batch, before, after, loss, 0, false);
  program.settle();
}

// The program's state stays in this memory and outlives the worker, so it is never unmapped.
std::shared_ptr<const WorkerSegment> keep(WorkerSegment segment) {
  static auto* const kKept = new std::vector<std::shared_ptr<const WorkerSegment>>;
  return kKept->emplace_back(std::make_shared<WorkerSegment>(std::move(segment)));
}

Result<std::optional<LoadedCheckpoint>> load_checkpoint(const JobFolder& folder,
                                                        const JobSettings& settings,
                                                        const std::string& description,
                                                        Program& program,
                                                        const WorkerSegment& own) {
  if (!is_directory(folder.checkpoint_folder())) return std::optional<LoadedCheckpoint>();
  Result<CheckpointFolder> checkpoints =
      CheckpointFolder::open(folder.checkpoint_folder(), settings.checkpoint_keep);
  if (!checkpoints.ok()) return checkpoints.error();
  Result<CheckpointFolder::Found> found = checkpoints->load_newest(description);
  if (!found.ok()) return found.error();
  for (const std::string& line : found->refused) {
    static_cast<void>(folder.append_event({{"type", "checkpoint_refused"}, {"reason", line}}));
  }
  // Training from the beginning would remove them one by one.
  if (!found->newest && !found->of_another.empty()) {
    const std::string message = found->of_another + ", or remove these checkpoints";
    static_cast<void>(write_file(folder.hopeless_file(), message + "\n"));
    return invalid_input(message);
  }
  if (!found->newest) return std::optional<LoadedCheckpoint>();
  const auto& state = found->newest->parts.at(0);
  RUBATO_CHECK(state.size() == own.state().size(), "the checkpoint has another shape");
  std::size_t at = 0;
  for (std::size_t unit = 0; unit < program.shape().unit_bytes.size(); ++unit) {
    const std::span<std::byte> memory = own.unit(unit);
    at = static_cast<std::size_t>(memory.data() - own.state().data());
    std::memcpy(memory.data(), state.data() + at, memory.size());
    program.unit_replaced(unit);
  }
  return std::optional<LoadedCheckpoint>(std::move(found->newest));
}

// Of a job on several nodes, only the launcher that has its checkpoints lets a worker found it.
bool may_found_after(std::int64_t view) {
  const char* const allowed = std::getenv(kFoundsVariable);
  return allowed == nullptr || parse_int(allowed) == view;
}

int run_in_unguarded(const JobFolder& folder, int worker, Program& program,
                     const WorkerOptions& options) {
  Result<JobSettings> settings = folder.read_settings();
  if (!settings.ok()) return failed(settings.error());
  Result<std::string> secret = folder.read_secret();
  if (!secret.ok()) return failed(secret.error());
  Result<std::unique_ptr<Registry>> registry = open_registry(folder, *settings);
  if (!registry.ok()) return failed(registry.error());

  if (!settings->adaptive) {
    const Result<int> logical = agree_on_logical_workers(*settings, options, folder, **registry);
    if (!logical.ok()) return failed(logical.error());
    settings->logical_workers = *logical;
  }

  Result<NodeIdentity> node = node_of_environment();
  if (!node.ok()) return failed(node.error());

  const bool launched = std::getenv(kWorkerVariable) != nullptr;
  const Result<std::int64_t> audit_every = audit_every_of_environment(launched);
  if (!audit_every.ok()) return failed(audit_every.error());

  Result<JobPlan> plan = JobPlan::make(*settings, program, options.epochs, options.steps);
  if (!plan.ok()) return failed(plan.error());
  const DataOrder& order = plan->order;
  const std::string& description = plan->description;

  Result<WorkerSegment> segment =
      WorkerSegment::create(worker_segment_name(settings->token, node->name, worker),
                            program.shape(), settings->logical_workers);
  if (!segment.ok()) return failed(segment.error());
  const std::shared_ptr<const WorkerSegment> own = keep(std::move(*segment));
  struct Remove {
    const std::string name;
    ~Remove() { remove_segment(name); }
  } remove{own->name()};
  program.bind_state(own->units());
  if (launched && !program.warms_up_by_update()) warm_up(program, order, *own);

  std::optional<LoadedCheckpoint> restored;
  Result<View> latest = newest_view(**registry);
  if (!latest.ok()) return failed(latest.error());
  const bool may_found = latest->empty() && may_found_after(latest->number);
  if (may_found) {
    Result<std::optional<LoadedCheckpoint>> loaded =
        load_checkpoint(folder, *settings, description, program, *own);
    if (!loaded.ok()) return failed(loaded.error());
    restored = std::move(*loaded);
  }
  // An adaptive job that is continued with fewer workers had more logical workers before.
  int logical_slots = settings->logical_workers;
  if (plan->adaptive && restored) {
    const auto saved = static_cast<int>(std::min<std::size_t>(restored->parts.size(), kMaxWorkers));
    logical_slots = std::max(logical_slots, saved);
  }
  Result<std::unique_ptr<Coordinator>> coordinator =
      Coordinator::start({.settings = *settings,
                          .worker = worker,
                          .shape = program.shape(),
                          .description = description,
                          .fingerprint = program.fingerprint(),
                          .first_step = restored ? restored->step : 0,
                          .founds_after = may_found ? std::optional(latest->number) : std::nullopt,
                          .logical_slots = logical_slots,
                          .batch = order.options().batch,
                          .batches = plan->batches,
                          .data = plan->data_board,
                          .record =
                              [&folder](const nlohmann::json& event) {
                                static_cast<void>(folder.append_event(event));
                              },
                          .node = *node},
                         **registry, *secret, own);
  if (!coordinator.ok()) return failed(coordinator.error());
  g_asked_to_leave_by_signal = &(*coordinator)->port();
  std::signal(SIGTERM, on_terminate);

  Training training({.program = &program,
                     .folder = &folder,
                     .settings = &*settings,
                     .own = own.get(),
                     .order = &order,
                     .adaptive = plan->adaptive ? &*plan->adaptive : nullptr,
                     .description = description,
                     .total_steps = plan->total_steps,
                     .prints = options.prints,
                     .model_file = launched ? folder.model_file() : "",
                     .audit_every = *audit_every},
                    **coordinator, std::move(restored));
  const Training::End end = training.run();
  if (end == Training::End::kFinished && options.at_end) {
    options.at_end(training.private_state(0));
  }
  if (end == Training::End::kFinished || end == Training::End::kLeft) (*coordinator)->depart();
  std::signal(SIGTERM, SIG_DFL);
  g_asked_to_leave_by_signal = nullptr;
  switch (end) {
    case Training::End::kFinished:
    case Training::End::kLeft:
      return kWorkerDone;
    case Training::End::kExcluded:
      return (*coordinator)->port().was_refused() ? kWorkerRefused : kWorkerExcluded;
    case Training::End::kFailed:
      break;
  }
  return kWorkerFailed;
}

Status replay_in(const JobFolder& folder, Program& program, const WorkerOptions& options) {
  Result<JobSettings> settings = folder.read_settings();
  if (!settings.ok()) return settings.error();
  Result<std::unique_ptr<Registry>> registry = open_registry(folder, *settings);
  if (!registry.ok()) return registry.error();
  Result<JobPlan> plan = JobPlan::make(*settings, program, options.epochs, options.steps);
  if (!plan.ok()) return plan.error();
  Result<std::vector<ScheduleEntry>> schedule = schedule_of(**registry);
  if (!schedule.ok()) return schedule.error();
  const std::string name = fmt::format("rubato.replay.{}", getpid());
  Result<WorkerSegment> segment = WorkerSegment::create(name, program.shape(), kMaxWorkers);
  if (!segment.ok()) return segment.error();
  remove_segment(name);
  const std::shared_ptr<const WorkerSegment> own = keep(std::move(*segment));
  program.bind_state(own->units());
  Result<Replayed> replayed = replay(program, *plan, *own, *schedule);
  if (!replayed.ok()) return replayed.error();
  const nlohmann::json result = {{"state_sha256", replayed->state_sha256},
                                 {"steps", replayed->steps},
                                 {"final_loss", replayed->final_loss}};
  return write_file(folder.replay_file(), indented_json(result) + "\n");
}

// Reports an exception that the program throws outside a step, and ends the worker.
int run_in(const JobFolder& folder, int worker, Program& program, const WorkerOptions& options) {
  try {
    if (std::getenv(kReplayVariable) != nullptr) {
      const Status replayed = replay_in(folder, program, options);
      return replayed.ok() ? kWorkerDone : failed(replayed.error());
    }
    return run_in_unguarded(folder, worker, program, options);
  } catch (const std::exception& error) {
    std::string what = error.what();
    what.resize(std::min(what.size(), what.find('\n')));
    return failed({ErrorCode::kInvalidInput,
                   fmt::format("worker {}: the training program failed: {}", worker, what)});
  }
}

}  // namespace

void say_hello() {
  turn_down_warm_offer();  // who takes it has done so before
  const char* const path = std::getenv(kJobFolderVariable);
  if (path != nullptr && std::getenv(kWorkerVariable) != nullptr) JobFolder(path).say_hello();
}

int run_worker(Program& program, const WorkerOptions& options) {
  const char* path = std::getenv(kReplayVariable);
  if (path != nullptr) return run_in(JobFolder(path), 0, program, options);
  path = std::getenv(kJobFolderVariable);
  // In an opaque job it is a program like any other: a job of its own.
  const char* const number = std::getenv(kWorkerVariable);
  if (path != nullptr && number != nullptr) {
    say_hello();
    const auto worker = parse_int(number);
    if (!worker || *worker < 0) {
      fmt::print(stderr, "rubato: {} must be a number; the launcher sets it\n", kWorkerVariable);
      return kWorkerFailed;
    }
    return run_in(JobFolder(path), static_cast<int>(*worker), program, options);
  }
  Result<std::unique_ptr<OwnFolder>> own = OwnFolder::make(options);
  if (!own.ok()) return failed(own.error());
  const JobFolder folder((*own)->path());
  const int code = run_in(folder, 0, program, options);
  remove_segments(
      fmt::format("rubato.{}.", std::filesystem::path((*own)->path()).filename().string()));
  if (code == kWorkerDone && options.prints) {
    const Result<std::string> result = read_file(folder.result_file());
    if (result.ok()) fmt::print("{}", *result);
  }
  return code;
}

}  // namespace rubato::elastic
