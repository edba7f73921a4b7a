#include "local_job.h"

#include <fmt/format.h>
#include <sys/types.h>

#include <algorithm>
#include <csignal>

#include "base/file.h"
#include "base/json_text.h"
#include "base/text.h"
#include "elastic/job/logical_workers.h"
#include "elastic/job/registry_url.h"

namespace rubato::cli {

using elastic::Board;
using elastic::JobFolder;
using elastic::JobSettings;
using elastic::Target;
using elastic::View;
using nlohmann::json;

namespace {

json read_object(const std::string& file) {
  const Result<std::string> text = is_file(file) ? read_file(file) : std::string();
  json value = parse_json(text.ok() ? *text : "");
  return value.is_object() ? value : json::object();
}

// The number of steps that an ended job completed.
std::int64_t steps_done(const LocalJob& job, const View& view) {
  constexpr std::int64_t kNone = 0;
  const json finished = read_object(job.folder.result_file());
  if (finished.contains("steps")) return finished.value("steps", kNone);
  const std::int64_t told = read_object(job.folder.status_file()).value("step", kNone);
  const Result<Board> board = open_board(view);  // left by a launcher that was killed
  return std::max({told, view.first_step, board.ok() ? board->completed() + 1 : kNone});
}

// 0 if the program has not reported its number yet.
int logical_workers_of(const LocalJob& job) {
  if (job.settings.logical_workers > 0) return job.settings.logical_workers;
  return elastic::agreed_logical_workers(*job.registry).value_or(0);
}

}  // namespace

Result<LocalJob> open_job(const std::string& folder) {
  LocalJob open{.folder = JobFolder(folder)};
  Result<JobSettings> settings = open.folder.read_settings();
  if (!settings.ok()) return settings.error();
  open.settings = std::move(*settings);
  auto registry = elastic::open_registry(open.folder, open.settings);
  if (!registry.ok()) return registry.error();
  open.registry = std::move(*registry);
  return open;
}

std::string state_of(const JobFolder& folder) {
  const Result<std::string> text = read_file(folder.status_file());
  const json status = parse_json(text.ok() ? *text : "{}");
  if (!status.is_object()) return "unknown";
  std::string state = status.value("state", "unknown");
  if (state == "running" && kill(static_cast<pid_t>(status.value("pid", 0)), 0) != 0) return "dead";
  return state;
}

Status require_running(const LocalJob& job) {
  const std::string state = state_of(job.folder);
  if (state == "running") return ok_status();
  return invalid_input(fmt::format("job {} is not running ({})", job.settings.name, state));
}

Result<Board> open_board(const View& view) {
  Result<Board> board = Board::open(view.board);
  for (const elastic::Member& member : view.members) {
    if (!board.ok()) board = Board::open(member.address.board);
  }
  return board;
}

json describe(LocalJob& job) {
  json result = {{"name", job.settings.name},
                 {"dir", job.folder.path()},
                 {"state", state_of(job.folder)},
                 {"mode", job.settings.adaptive ? "adaptive" : "consistent"},
                 {"logical_workers", job.settings.adaptive ? 0 : logical_workers_of(job)},
                 {"batch", 0},
                 {"max_workers", job.settings.max_workers},
                 {"spares", job.settings.spares},
                 {"newcomers", json::array()},
                 {"workers", json::array()}};
  if (result["state"] == "running") {
    const Result<std::string> text = read_file(job.folder.status_file());
    const json status = parse_json(text.ok() ? *text : "{}");
    if (status.is_object() && status.contains("newcomers")) {
      result["newcomers"] = status["newcomers"];
    }
  }
  if (job.settings.adaptive) {
    result["batch_range"] = to_string(job.settings.batch_range);
    result["lr_rule"] = to_string(job.settings.lr_rule);
  }
  const Result<Target> target = elastic::newest_target(*job.registry);
  if (target.ok()) result["target"] = target->workers;
  if (target.ok() && job.settings.adaptive) result["target_batch"] = target->batch;
  const Result<View> view = elastic::newest_view(*job.registry);
  if (!view.ok() || view->number == 0) return result;
  result["view"] = view->number;
  if (!view->empty()) {
    result["logical_workers"] = view->logical_workers();
    result["batch"] = view->batch;
  }
  if (result["state"] != "running") {
    result["step"] = steps_done(job, *view);
    return result;
  }
  const Result<Board> board = open_board(*view);
  if (!board.ok()) return result;
  result["step"] = board->completed() + 1;
  result["ready_newcomers"] = board->ready_newcomers().load();
  result["refused_connections"] = board->refused_connections().load();
  const elastic::ViewBlock& block = board->block(view->number);
  for (std::size_t i = 0; i < view->members.size(); ++i) {
    const elastic::Member& member = view->members[i];
    const bool begun = block.view == view->number;
    json logical = json::array();
    for (int l = member.hosts.begin; l < member.hosts.end; ++l) logical.push_back(l);
    const double step_ms = begun ? static_cast<double>(block.rows[i].step_us.load()) / 1000.0 : 0.0;
    result["workers"].push_back(
        {{"id", member.address.id},
         {"pid", member.address.pid},
         {"node", member.address.node},
         {"logical", logical},
         {"leader", member.address.id == view->leader},
         {"step", begun ? block.rows[i].reduced.load() + 1 : view->first_step},
         {"step_ms", step_ms}});
  }
  return result;
}

int most_workers(const LocalJob& job) {
  const int logical = logical_workers_of(job);
  return logical > 0 ? std::min(job.settings.max_workers, logical) : job.settings.max_workers;
}

Status ask_for(LocalJob& job, int workers, std::int64_t batch) {
  Status running = require_running(job);
  if (!running.ok()) return running;
  const int most = most_workers(job);
  if (workers < 1 || workers > most) {
    return invalid_input(
        fmt::format("job {} can run on 1 to {} workers, not {}", job.settings.name, most, workers));
  }
  return elastic::change_target(*job.registry, [&](Target& target) {
    target.workers = workers;
    target.batch = batch;
    target.at = elastic::unix_seconds();
    return ok_status();
  });
}

}  // namespace rubato::cli
