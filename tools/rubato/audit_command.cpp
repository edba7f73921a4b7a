// rubato audit: asks the workers of a running job whether they still compute the same bits.
#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>

#include "base/json_text.h"
#include "commands.h"
#include "elastic/job/event_text.h"
#include "elastic/job/job_folder.h"
#include "local_job.h"

namespace rubato::cli {

namespace {

using nlohmann::json;

constexpr auto kBetweenLooks = std::chrono::milliseconds(50);
constexpr int kNotYet = 2;

struct AuditArguments {
  std::string job;
  double patience_s = 60;
  bool as_json = false;
};

// The first audit that was judged after this place in the event log.
std::optional<json> answer_after(const elastic::JobFolder& folder, std::uintmax_t offset) {
  std::ifstream file(folder.events_file());
  file.seekg(static_cast<std::streamoff>(offset));
  for (std::string line; std::getline(file, line);) {
    json event = parse_json(line);
    if (event.is_object() && event.value("type", json()) == "audit") return event;
  }
  return std::nullopt;
}

int audit(const AuditArguments& a, const Context& context) {
  const Result<FoundJob> found = which_job(context, a.job);
  if (!found.ok()) return fail(found.error());
  if (found->folder.empty()) {
    return fail(invalid_input(fmt::format(
        "{} has no folder on this machine; audit it where its daemon runs", found->shown())));
  }
  Result<LocalJob> job = open_job(found->folder);
  if (!job.ok()) return fail(job.error());
  if (const Status running = require_running(*job); !running.ok()) return fail(running.error());
  std::error_code none;
  const std::uintmax_t size = std::filesystem::file_size(job->folder.events_file(), none);
  const std::uintmax_t offset = none ? 0 : size;
  const Status asked = elastic::change_target(*job->registry, [](elastic::Target& target) {
    ++target.audits;
    target.at = elastic::unix_seconds();
    return ok_status();
  });
  if (!asked.ok()) return fail(asked.error());
  const auto deadline = std::chrono::steady_clock::now() +
                        std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                            std::chrono::duration<double>(a.patience_s));
  for (;;) {
    if (const std::optional<json> answer = answer_after(job->folder, offset)) {
      if (a.as_json) {
        fmt::print("{}\n", indented_json(*answer));
      } else {
        fmt::print("{}\n", elastic::describe_event(compact_json(*answer)));
      }
      return answer->value("same", false) ? 0 : 1;
    }
    if (const Status running = require_running(*job); !running.ok()) return fail(running.error());
    if (std::chrono::steady_clock::now() >= deadline) {
      fmt::print(stderr,
                 "rubato: no answer within {:.0f} s: the job has not come to its next step, or "
                 "its leading worker was lost; ask again, or see: rubato events {}\n",
                 a.patience_s, a.job);
      return kNotYet;
    }
    std::this_thread::sleep_for(kBetweenLooks);
  }
}

}  // namespace

void add_audit(CLI::App& app, const Context& context, Command& chosen) {
  auto a = std::make_shared<AuditArguments>();
  CLI::App* sub = app.add_subcommand(
      "audit",
      "Compare the bits of a running job's workers, and a mini-batch computed twice by each");
  sub->add_option("job", a->job, kJobHelp)->required();
  sub->add_option("--timeout", a->patience_s, "Seconds to wait for the answer")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  sub->add_flag("--json", a->as_json, "Print the answer as JSON");
  sub->callback([a, &context, &chosen] { chosen = [a, &context] { return audit(*a, context); }; });
}

}  // namespace rubato::cli
