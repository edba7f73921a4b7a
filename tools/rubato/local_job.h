// The state of a job, read from its folder on this machine.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"
#include "elastic/job/job_folder.h"
#include "elastic/memory/board.h"

namespace rubato::cli {

struct LocalJob {
  elastic::JobFolder folder{""};
  elastic::JobSettings settings;
  std::unique_ptr<elastic::Registry> registry;
};

Result<LocalJob> open_job(const std::string& folder);

// "running", "finished", "stopped", "failed", or "dead" if its launcher died.
std::string state_of(const elastic::JobFolder& folder);
Status require_running(const LocalJob& job);

// The board of the view on this machine.
Result<elastic::Board> open_board(const elastic::View& view);

// The job as `ps --json` prints it.
nlohmann::json describe(LocalJob& job);

// The largest number of workers it can run on.
int most_workers(const LocalJob& job);
// Asks the launcher for this number of workers. `batch` 0: as many samples per worker as at the
// start.
Status ask_for(LocalJob& job, int workers, std::int64_t batch);

}  // namespace rubato::cli
