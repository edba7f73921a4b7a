// The worker processes that a launcher has started on this machine.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "elastic/job/job_folder.h"
#include "elastic/launch/warm_parent.h"

namespace rubato::elastic {

struct ProcessOptions {
  std::string directory{};  // working directory of the workers; empty: the launcher's
  std::vector<std::pair<std::string, std::string>> environment{};  // added to the launcher's
  // Variables whose values are read from files when a worker starts.
  std::vector<std::pair<std::string, std::string>> environment_from{};
  std::string device_variable{};  // variable for its device, e.g. CUDA_VISIBLE_DEVICES, or none
  bool core_files = true;
  std::int64_t most_files = 0;         // open files of a worker; 0: the launcher's limit
  std::int64_t most_memory_bytes = 0;  // address space of a worker; 0: the launcher's limit
  // A log that grows beyond this is moved to LOG.1, LOG.2, ..., of which `log_files` are kept.
  // Output printed during the move may be lost. With a limit, only the logs of the newest ended
  // workers are kept.
  std::int64_t log_bytes = 0;  // 0: no limit
  int log_files = 3;
  // If workers are tied to devices: a surplus worker that does not leave by itself gets SIGTERM
  // after term_after_s and is killed kill_after_s later.
  double term_after_s = 20;
  double kill_after_s = 5;
  // The pause after a failed start; doubles with each further one (elastic/launch/failure_count.h,
  // elastic/launch/ordinary_program.h).
  double retry_after_s = 0.25;
};
nlohmann::json to_json(const ProcessOptions& options);
Result<ProcessOptions> parse_process_options(const nlohmann::json& options,
                                             const std::string& where);

struct WorkerProcess {
  int worker = 0;
  pid_t pid = 0;
  std::string device{};  // empty: not tied to a device
  std::chrono::steady_clock::time_point started{};
  bool was_member = false;
  bool told_to_end = false;  // by a signal of the launcher
  bool warm = false;         // forked from a warm parent, not executed
};

// Every worker has a process group of its own and dies with the launcher. When it ends, everything
// it has started in its group ends, too.
class WorkerProcesses {
 public:
  WorkerProcesses(JobFolder folder, ProcessOptions options, std::vector<std::string> command)
      : folder_(std::move(folder)), options_(std::move(options)), command_(std::move(command)) {}

  // For workers started from now on. Takes precedence over ProcessOptions::environment.
  void set_variable(const std::string& name, const std::string& value);
  // The processes are no workers: a program that uses the runtime must not join the job.
  void be_ordinary() { ordinary_ = true; }
  Status start(int worker, const std::string& device);
  struct End {
    WorkerProcess process;
    int status = 0;  // as from waitpid
  };
  std::vector<End> reap();
  // Has no effect if the worker has ended.
  void send(int worker, int signal);
  static void send_to_group(const WorkerProcess& process, int signal);
  bool has_ended() const;  // one of them, which reap() will return
  void end_all();          // kills them; returns when they are gone
  void end_warm_parent() { warm_parent_.end(); }
  void execute_all_from_now_on() { warm_parent_.give_up(); }
  void limit_logs() const;

  std::vector<WorkerProcess>& all() { return processes_; }
  const std::vector<WorkerProcess>& all() const { return processes_; }
  std::size_t size() const { return processes_.size(); }
  bool empty() const { return processes_.empty(); }

 private:
  using Variables = std::vector<std::pair<std::string, std::string>>;
  // What a worker finds in its environment beside the launcher's. Fails if a file cannot be read.
  Result<Variables> variables_of(int worker, const std::string& device) const;
  std::vector<WorkerProcess>::iterator find(pid_t pid);
  std::optional<pid_t> fork_warm(int worker, const std::string& device);
  pid_t execute(int worker, const std::string& device);  // -1: see errno
  [[noreturn]] void become_worker(int worker, const std::string& device, pid_t launcher,
                                  int warm_offer) const;
  void remove_old_logs(int newest) const;

  JobFolder folder_;
  ProcessOptions options_;
  std::vector<std::string> command_;
  std::map<std::string, std::string> variables_;
  bool ordinary_ = false;
  std::vector<WorkerProcess> processes_;
  WarmParent warm_parent_{command_, [this](pid_t pid) { return find(pid) != processes_.end(); }};
};

// The last non-empty line of a file, cut to a readable length; "" if there is none.
std::string last_line(const std::string& path);
// Up to `count` last lines, each indented by two spaces and cut to a readable length.
std::string last_lines(const std::string& path, int count);

}  // namespace rubato::elastic
