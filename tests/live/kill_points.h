// A daemon that is killed at a chosen point (base/crash_point.h), and jobs that tell how often they
// ran. Two jobs run through all deaths of a test; others are what its commands are about.
#pragma once

#include <gtest/gtest.h>
#include <pwd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>

#include "api/route.h"
#include "live/live_daemon.h"
#include "live/live_jobs.h"
#include "live/live_processes.h"
#include "test_paths.h"

namespace rubato::live {

// Names of the routes that change something: those about nodes, or all others.
inline std::vector<std::string> routes_that_change(bool of_nodes) {
  const std::set<std::string> only_answer{"forecastPolicy", "logIn", "logOut", "missingUploads",
                                          "planJob"};
  std::vector<std::string> names;
  for (const api::Route& route : api::routes()) {
    if (route.method == "GET" || only_answer.contains(route.name)) continue;
    if (route.path.starts_with("/api/v1/nodes/") == of_nodes) names.push_back(route.name);
  }
  return names;
}

class KillPoints : public testing::Test {
 protected:
  static constexpr int kSlots = 4;

  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    std::string name = fmt::format("{}{}", info->test_suite_name(), info->name());
    std::replace(name.begin(), name.end(), '/', '-');
    folder_ = testing::TempDir() + fmt::format("rubato-{}-{}", name, getpid());
    std::filesystem::create_directories(folder_);
    daemon_ =
        std::make_unique<LiveDaemon>(test_paths::program("rubatod"), folder_ + "/state", slots());
  }
  void TearDown() override {
    hurry();  // jobs of a test that failed end soon
    daemon_.reset();
    if (!HasFailure()) std::filesystem::remove_all(folder_);
  }

  virtual int slots() const { return kSlots; }

  // Starts a daemon that dies when it reaches the point. False if it died before it answered.
  bool start_armed(const std::string& point) {
    setenv("RUBATO_CRASH_AT", point.c_str(), 1);
    const bool started = daemon_->start();
    unsetenv("RUBATO_CRASH_AT");
    return started;
  }
  [[nodiscard]] bool start() { return daemon_->start(); }
  [[nodiscard]] bool died() {
    return wait_until([&] { return daemon_->ended(); });
  }

  // --- Jobs ---
  // A program of the runtime, whose bits tell whether every step was done exactly once.
  static LiveProgram toy() {
    return {.run = {test_paths::program("toy_train"), "--steps", "600", "--compute-us", "0"}};
  }
  json toy_document(const std::string& name, const std::string& devices) const {
    LiveProgram slow = toy();
    slow.run.back() = "20000";  // microseconds, until hurry()
    return {{"run", slow.run},
            {"name", name},
            {"devices", devices},
            {"logical_workers", slow.logical_workers},
            {"env", {{"TOY_HURRY_FILE", hurry_file()}}},
            {"checkpoint", {{"every", 1}}}};
  }
  // An ordinary program that writes a line when it starts, and ends with this code after hurry().
  json counted_document(const std::string& name, int code = 0) const {
    const std::string script =
        fmt::format("echo started >>'{}'; while ! [ -e '{}' ]; do sleep 0.02; done; exit {}",
                    runs_file(name), hurry_file(), code);
    return {{"run", {"/bin/sh", "-c", script}}, {"name", name}, {"mode", "opaque"}, {"devices", 1}};
  }
  int runs(const std::string& name) const {
    std::ifstream file(runs_file(name));
    int count = 0;
    for (std::string line; std::getline(file, line);) ++count;
    return count;
  }
  // Lets all jobs end soon.
  void hurry() const { std::ofstream(hurry_file()) << ""; }

  bool submit(const json& document, const std::string& key = "") {
    return daemon_->post("/api/v1/jobs", document, key).has_value();
  }
  // All jobs of that name.
  std::vector<json> jobs_named(const std::string& name) const {
    std::vector<json> found;
    const auto list = daemon_->get("/api/v1/jobs?limit=1000");
    if (!list) return found;
    for (const json& job : (*list)["jobs"]) {
      if (job["name"] != name) continue;
      found.push_back(daemon_->get("/api/v1/jobs/" + job["id"].get<std::string>()).value_or(job));
    }
    return found;
  }
  // The only job of that name; an empty object if there is none.
  json job(const std::string& name) const {
    const std::vector<json> found = jobs_named(name);
    EXPECT_LE(found.size(), 1u) << name << " was submitted twice";
    return found.empty() ? json::object() : found.front();
  }
  std::string phase(const std::string& name) const { return job(name).value("phase", ""); }
  // Submits the job and waits until it runs.
  [[nodiscard]] bool have_running(const json& document) {
    const std::string name = document["name"];
    return submit(document) && wait_until([&] { return is_busy(name); });
  }
  bool is_busy(const std::string& name) const {
    const json found = job(name);
    return found.value("phase", "") == "running" && found.value("held", 0) > 0 &&
           (runs(name) > 0 || found["progress"].value("step", 0) > 0);
  }
  [[nodiscard]] bool gives_back(const std::string& name) const {
    return wait_until([&] { return job(name).value("held", -1) == 0; });
  }

  // --- What must hold at the end of every test, whatever died ---
  void check_everything(const std::set<std::string>& toys, const std::set<std::string>& counted) {
    hurry();
    ASSERT_TRUE(wait_until([&] { return daemon_->idle(); }))
        << indented_json(daemon_->get("/api/v1/jobs?active=true").value_or(json()));
    Undisturbed undisturbed(test_paths::program("rubato"), folder_,
                            test_paths::program("undisturbed"));
    for (const std::string& name : toys) {
      const json found = job(name);
      EXPECT_EQ(found.value("phase", ""), "finished") << name << found.dump(1);
      EXPECT_EQ(found["result"].value("state_sha256", ""), undisturbed.hash(toy())) << name;
      EXPECT_EQ(found.value("restarts", -1), 0) << name;
    }
    for (const std::string& name : counted) EXPECT_EQ(runs(name), 1) << name << " ran twice";
    EXPECT_LE(control::history_of(daemon_->events()).most_held, kSlots)
        << "a device was held twice";
    daemon_->stop();
    EXPECT_EQ(std::system(fmt::format("'{}' --state '{}' check >'{}/check.log' 2>&1",
                                      test_paths::program("rubatod"), daemon_->state(), folder_)
                              .c_str()),
              0)
        << "the log does not replay; see " << folder_ << "/check.log";
    EXPECT_TRUE(wait_until([&] { return processes().empty(); })) << "processes are left";
  }
  // Processes of jobs, and their supervisors.
  std::set<pid_t> processes() const { return processes_with(daemon_->state()); }

  std::string hurry_file() const { return folder_ + "/hurry"; }
  std::string runs_file(const std::string& name) const { return folder_ + "/runs-" + name; }

  std::string folder_;
  std::unique_ptr<LiveDaemon> daemon_;
};

}  // namespace rubato::live
