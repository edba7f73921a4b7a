// Which jobs of the daemon a command is about: options that select jobs, and names of arrays.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "client.h"

namespace rubato::cli {

struct Context;

// Options that select jobs: --label, --name, --phase, --tenant, --user, --since, --before.
struct Selection {
  std::vector<std::string> labels;
  std::string name;
  std::vector<std::string> phases;
  std::string tenant;
  std::string user;
  std::string since;
  std::string before;

  bool given() const;
  // To ask for jobs that have ended is to ask for all.
  bool includes_ended() const;
};
void add_selection_options(CLI::App& sub, Selection& selection);
// As parameters of GET /jobs: "&labels=team%3Dvision".
Result<std::string> selection_query(const Selection& selection);
// As the body of POST /cancel.
Result<nlohmann::json> selection_body(const Selection& selection);

// The jobs that `text` means, as in the list of jobs: one job of the daemon, or all of an array
// ("sweep", "j5[]"). `array` tells which, and is the array's id ("j5[]") then.
struct NamedJobs {
  std::vector<nlohmann::json> jobs{};
  std::string array{};
};
Result<NamedJobs> named_jobs(const Context& context, const std::string& text,
                             const std::string& instead = "");

// The list with one row for all jobs of an array.
nlohmann::json collapse_arrays(const nlohmann::json& jobs);

}  // namespace rubato::cli
