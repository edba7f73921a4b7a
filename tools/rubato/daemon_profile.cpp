// rubato profile for a job of the daemon. It asks the daemon for every size (a pin, as `scale` sets
// it) and writes nothing into the job's folder.
#include <fmt/format.h>

#include <chrono>
#include <thread>

#include "base/json_text.h"
#include "base/text.h"
#include "commands.h"
#include "daemon_jobs.h"
#include "interrupt.h"
#include "output.h"

namespace rubato::cli {

namespace {

using nlohmann::json;
using std::chrono::steady_clock;

constexpr auto kPollEvery = std::chrono::milliseconds(200);
// The daemon reports the median over the last steps. After this many steps, or this long, all of
// them were done with the current size.
constexpr std::int64_t kSteps = 20;
constexpr std::int64_t kFewSteps = 3;
constexpr auto kLongEnough = std::chrono::seconds(3);

std::string path_of(const FoundJob& job) { return "/jobs/" + url_quoted(job.id); }

// Pins the job's size. The destructor restores the previous pin.
class Pin {
 public:
  Pin(Client& client, const FoundJob& job, int before)
      : client_(client), job_(job), before_(before) {}
  ~Pin() {
    if (!set_) return;
    const Status restored = put(before_);
    if (!restored.ok()) {
      fmt::print(stderr,
                 "{}: the pin could not be removed ({}); remove it with 'rubato scale {} {}'\n",
                 job_.id, restored.error().message, job_.id, before_);
    } else if (before_ > 0) {
      fmt::print(stderr, "{}: pinned to {} again\n", job_.id, counted(before_, "device"));
    } else {
      fmt::print(stderr, "{}: the pin is removed; the policy decides again\n", job_.id);
    }
  }
  Pin(const Pin&) = delete;
  Pin& operator=(const Pin&) = delete;

  Status to(int devices) {
    Status pinned = put(devices);
    set_ = set_ || pinned.ok();
    return pinned;
  }

 private:
  Status put(int devices) {
    const Result<json> after =
        client_.send("POST", path_of(job_) + "/scale", {{"devices", devices}});
    return after.ok() ? ok_status() : Status(after.error());
  }

  Client& client_;
  const FoundJob& job_;
  const int before_;
  bool set_ = false;
};

Error ended_early(const FoundJob& job, const std::string& phase, int devices) {
  return invalid_input(fmt::format("{} is {} and was not measured on {}", job.id, phase,
                                   counted(devices, "device")));
}

// Prints one line per change of what it waits for.
class Waiting {
 public:
  void say(const std::string& line) {
    if (line != said_) fmt::print(stderr, "{}\n", line);
    said_ = line;
  }

 private:
  std::string said_;
};

Result<MeasuredSpeed> measure_pinned(Client& client, const FoundJob& job, int devices) {
  Waiting waiting;
  std::int64_t first_step = -1;
  steady_clock::time_point since;
  for (;;) {
    if (interrupted()) return invalid_input("interrupted");
    const Result<json> now = client.get(path_of(job));
    if (!now.ok()) return now.error();
    const std::string phase = now->value("phase", "");
    if (phase != "running" && phase != "queued") return ended_early(job, phase, devices);
    const json progress = now->value("progress", json::object());
    const bool there = now->value("granted", 0) == devices && now->value("held", 0) == devices &&
                       progress.value("workers", 0) == devices;
    if (!there) {
      first_step = -1;
      waiting.say(fmt::format("{}: pinned to {}, holds {}; waiting", job.id,
                              counted(devices, "device"), now->value("held", 0)));
    } else {
      waiting.say(fmt::format("{}: measuring on {}", job.id, counted(devices, "device")));
      const std::int64_t step = progress.value("step", std::int64_t{0});
      if (first_step < 0) {
        first_step = step;
        since = steady_clock::now();
      }
      const double step_s = progress.value("step_s", 0.0);
      const std::int64_t steps = step - first_step;
      const bool enough =
          steps >= kSteps || (steps >= kFewSteps && steady_clock::now() - since > kLongEnough);
      if (enough && step_s > 0) {
        const auto batch = static_cast<double>(progress.value("batch", std::int64_t{0}));
        return MeasuredSpeed{
            .devices = devices, .steps_per_s = 1 / step_s, .samples_per_s = batch / step_s};
      }
    }
    std::this_thread::sleep_for(kPollEvery);
  }
}

int measure_all(Client& client, const FoundJob& job, const ProfileRequest& request) {
  const Result<json> before = client.get(path_of(job));
  if (!before.ok()) return fail(before.error());
  const std::string phase = before->value("phase", "");
  if (phase == "paused") {
    return fail(invalid_input(
        fmt::format("{} is paused; resume it with 'rubato resume {}'", job.id, job.id)));
  }
  const InterruptNoted noted;
  Pin pin(client, job, before->value("scale", 0));
  std::vector<MeasuredSpeed> speeds;
  for (int devices = request.low; devices <= *request.high; ++devices) {
    if (const Status pinned = pin.to(devices); !pinned.ok()) return fail(pinned.error());
    const Result<MeasuredSpeed> speed = measure_pinned(client, job, devices);
    if (!speed.ok()) return fail(speed.error());
    speeds.push_back(*speed);
  }
  print_speeds(job.name, speeds, "devices", request.as_json);
  return 0;
}

// What decides with which jobs it shares its measurements.
void print_key(const json& parts) {
  std::string text;
  for (const auto& [name, value] : parts.items()) {
    std::string shown;
    if (value.is_array()) {
      for (const json& word : value) shown += (shown.empty() ? "" : " ") + word.get<std::string>();
    } else {
      shown = value.is_string() ? value.get<std::string>() : compact_json(value);
    }
    if (!shown.empty()) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, shown);
  }
  if (!text.empty()) fmt::print("shared by jobs with: {}\n", text);
}

int print_known(Client& client, const FoundJob& job, bool as_json) {
  const Result<json> known = client.get(path_of(job) + "/profile");
  if (!known.ok()) return fail(known.error());
  std::vector<MeasuredSpeed> speeds;
  for (const json& point : known->value("points", json::array())) {
    speeds.push_back({.devices = point.value("devices", 0),
                      .nodes = point.value("nodes", 1),
                      .steps_per_s = 1 / point.value("step_s", 1.0),
                      .samples_per_s = point.value("samples_per_s", 0.0)});
  }
  if (!as_json) print_key(known->value("shared_by", json::object()));
  if (speeds.empty() && !as_json) {
    fmt::print(stderr, "{} has no measurements yet\n", job.id);
  } else {
    print_speeds(job.name, speeds, "devices", as_json);
  }
  if (job.active) print_next({fmt::format("rubato profile {} --max N (measures)", job.id)});
  return 0;
}

}  // namespace

int profile_daemon_job(const ServerChoice& server, const FoundJob& job,
                       const ProfileRequest& request) {
  Result<Client> client = Client::make(server);
  if (!client.ok()) return fail(client.error());
  return request.high ? measure_all(*client, job, request)
                      : print_known(*client, job, request.as_json);
}

}  // namespace rubato::cli
