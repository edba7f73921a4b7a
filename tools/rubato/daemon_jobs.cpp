#include "daemon_jobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "base/text.h"
#include "control/state.h"
#include "local_job.h"

namespace rubato::cli {

namespace {

using control::JobNumber;
using nlohmann::json;

std::string folder_of(const std::string& state, JobNumber number) {
  return fmt::format("{}/jobs/{}", state, number);
}

// The jobs whose folders lie in the state folder, in order of their numbers.
std::vector<FoundJob> jobs_in(const std::string& state) {
  const Result<std::vector<std::string>> names = list_directory(state + "/jobs");
  std::vector<JobNumber> numbers;
  for (const std::string& name : names.ok() ? *names : std::vector<std::string>()) {
    if (const auto number = parse_int(name); number && *number > 0) numbers.push_back(*number);
  }
  std::sort(numbers.begin(), numbers.end());
  std::vector<FoundJob> jobs;
  for (const JobNumber number : numbers) {
    const elastic::JobFolder folder(folder_of(state, number));
    const Result<elastic::JobSettings> settings = folder.read_settings();
    if (!settings.ok()) continue;
    FoundJob& job = jobs.emplace_back();
    job.id = control::job_name_of(number);
    job.name = settings->name;
    job.folder = folder.path();
    job.active = state_of(folder) == "running";
  }
  return jobs;
}

// Answers as the daemon would, from its state folder.
std::optional<FoundJob> find_in(const std::string& state, const std::string& text) {
  const std::vector<FoundJob> jobs = jobs_in(state);
  const std::optional<JobNumber> number = control::parse_job_number(text);
  std::optional<FoundJob> named;
  for (const FoundJob& job : jobs) {
    if (number && job.id == control::job_name_of(*number)) return job;
    if (job.name == text && (!named || job.active || !named->active)) named = job;
  }
  return named;
}

bool has_ended(const std::string& phase) {
  return phase == "finished" || phase == "failed" || phase == "cancelled";
}

class AskedDaemon final : public DaemonJobs {
 public:
  explicit AskedDaemon(const ServerChoice& server) : server_(server) {}

  Result<FoundJob> find(const std::string& job) override {
    Result<Client> client = Client::make(server_);
    if (!client.ok()) return find_without_daemon(job, client.error());
    const Result<json> answer = client->get("/jobs/" + url_quoted(job));
    if (!answer.ok()) {
      return answer.error().code == ErrorCode::kIo ? find_without_daemon(job, answer.error())
                                                   : Result<FoundJob>(answer.error());
    }
    FoundJob found;
    found.id = answer->value("id", "");
    found.name = answer->value("name", "");
    found.active = !has_ended(answer->value("phase", ""));
    found.document = answer->value("document", json::object());
    const std::string folder =
        folder_of(find_state_folder(), answer->value("number", JobNumber{0}));
    const bool is_here = !server_.given() || client->url() == local_url();
    if (is_here && is_file(elastic::JobFolder(folder).settings_file())) found.folder = folder;
    return found;
  }

  Result<std::string> id_of_folder(const std::string& folder) override {
    std::error_code error;
    const std::filesystem::path path = std::filesystem::canonical(folder, error);
    const std::optional<std::int64_t> number = parse_int(path.filename().string());
    const std::filesystem::path state = path.parent_path().parent_path();
    if (error || !number || path.parent_path().filename() != "jobs" ||
        !is_file((state / "rubato.db").string())) {
      return std::string();
    }
    if (state != std::filesystem::weakly_canonical(find_state_folder(), error)) {
      return invalid_input(
          fmt::format("{} belongs to the daemon whose state is in {}; set RUBATO_STATE={}", folder,
                      state.string(), state.string()));
    }
    return control::job_name_of(*number);
  }

  std::vector<FoundJob> running_here() override {
    if (server_.given()) return {};
    std::vector<FoundJob> jobs = jobs_in(find_state_folder());
    std::erase_if(jobs, [](const FoundJob& job) { return !job.active; });
    return jobs;
  }

  int scale(const FoundJob& job, int devices, bool as_json) override {
    return scale_daemon_job(server_, job, devices, as_json);
  }
  int events(const EventsRequest& request) override {
    return print_daemon_events(server_, request);
  }
  int profile(const FoundJob& job, const ProfileRequest& request) override {
    return profile_daemon_job(server_, job, request);
  }

 private:
  Result<FoundJob> find_without_daemon(const std::string& job, const Error& problem) const {
    if (server_.given()) return problem;
    if (std::optional<FoundJob> found = find_in(find_state_folder(), job)) return *found;
    return Error{ErrorCode::kNotFound, problem.message};
  }

  const ServerChoice& server_;
};

}  // namespace

std::unique_ptr<DaemonJobs> make_daemon_jobs(const ServerChoice& server) {
  return std::make_unique<AskedDaemon>(server);
}

}  // namespace rubato::cli
