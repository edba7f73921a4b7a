// The daemon of a cluster is killed at each point of each command about nodes, by people and by
// agents; see kill_points_test.cpp. The agents are played here.
#include <algorithm>

#include "base/sha256.h"
#include "control/cluster/node_sync.h"
#include "live/kill_points.h"

namespace rubato::live {

namespace {

class KilledNodeCommand : public KillPoints, public testing::WithParamInterface<std::string> {
 protected:
  struct Command {
    const char* event = "";         // makes it durable; empty: nothing in the log does
    std::function<bool()> prepare;  // what it needs
    std::function<bool()> give;     // true if it was answered
    std::function<bool()> happened;
    bool repeats = true;  // giving it twice is the same as once
  };

  int slots() const override { return 0; }

  std::map<std::string, Command> table() {
    std::map<std::string, Command> commands;
    commands["syncNode"] = {.event = "node",
                            .prepare = [] { return true; },
                            .give = [this] { return join(); },
                            .happened = [this] { return state() == "ready"; }};
    commands["drainNode"] = {.event = "drained",
                             .prepare = [this] { return join(); },
                             .give = [this] { return tell("drain"); },
                             .happened = [this] { return state() == "drained"; }};
    commands["undrainNode"] = {.event = "undrained",
                               .prepare = [this] { return join() && tell("drain"); },
                               .give = [this] { return tell("undrain"); },
                               .happened = [this] { return state() == "ready"; }};
    commands["removeNode"] = {
        .event = "node_removed",
        .prepare = [this] { return join(); },
        .give = [this] { return daemon_->send("DELETE", node_path()).has_value(); },
        .happened = [this] { return state().empty(); },
        .repeats = false};
    commands["askRegistry"] = {
        .prepare = [this] { return join() && have_job(); },
        .give =
            [this] {
              return !ask({{"op", "swap"}, {"expected", 0}, {"value", "4"}}).contains("error");
            },
        .happened =
            [this] {
              return ask({{"op", "get"}}).value("version", 0) == 1;
            }};
    commands["putCopiedFile"] = {.prepare = [this] { return join() && have_job(); },
                                 .give = [this] { return put_file(); },
                                 .happened = [this] { return has_file(); }};
    commands["removeCopiedFile"] = {
        .prepare = [this] { return join() && have_job() && put_file(); },
        .give = [this] { return daemon_->send_as(token_, "DELETE", file_path(), "").has_value(); },
        .happened = [this] { return !has_file(); }};
    return commands;
  }

  // --- The steps of commands ---
  std::string node_path() const { return "/api/v1/nodes/" + subject_; }
  bool tell(const char* what) const {
    return daemon_->send("POST", node_path() + "/" + what).has_value();
  }
  // "" if there is no such node.
  std::string state() const {
    const json list = daemon_->get("/api/v1/nodes").value_or(json::object());
    for (const json& node : list.value("nodes", json::array())) {
      if (node["name"] == subject_) return node["state"];
    }
    return "";
  }
  std::optional<json> sync(const std::string& token) const {
    const control::NodeReport report{.node = {.name = subject_, .device_type = "cpu", .devices = 1},
                                     .token_sha256 = sha256_hex(kToken + subject_),
                                     .start = 1,
                                     .session = ""};
    return daemon_->send_as(token, "POST", node_path() + "/sync",
                            compact_json(control::to_json(report)));
  }
  bool join() const { return sync(daemon_->join_token()).has_value(); }
  // A job on the node.
  bool have_job() {
    token_ = kToken + subject_;
    json document = toy_document(subject_, "1");
    document["device_type"] = "cpu";
    if (!submit(document)) return false;
    job_ = job(subject_).value("number", std::int64_t{0});
    return wait_until([&] {
      const auto orders = sync(token_);
      return orders && !(*orders)["jobs"].empty();
    });
  }
  json ask(json request) const {
    request["name"] = "logical_workers";
    return daemon_
        ->send_as(token_, "POST", fmt::format("{}/jobs/{}/registry", node_path(), job_),
                  compact_json(request))
        .value_or(json{{"error", "no answer"}});
  }
  std::string file_path() const {
    return fmt::format("{}/jobs/{}/file?path=logs/worker-0.log", node_path(), job_);
  }
  bool put_file() const {
    return daemon_
        ->send_as(token_, "PUT", file_path() + "&offset=0&size=5", "hello",
                  "application/octet-stream")
        .has_value();
  }
  bool has_file() const {
    const auto list =
        daemon_->send_as(token_, "GET", fmt::format("{}/jobs/{}/files", node_path(), job_), "");
    if (!list) return false;
    const json& files = (*list)["files"];
    return std::any_of(files.begin(), files.end(), [](const json& file) {
      return file["path"] == "logs/worker-0.log" && file["size"] == 5;
    });
  }

  // One point: the command is given, the daemon dies there, and the next one finds what it may.
  void kill_at(const std::string& point, const Command& command) {
    SCOPED_TRACE(point + " " + command.event);
    subject_ = point;
    ASSERT_TRUE(command.prepare());
    ASSERT_FALSE(command.happened());
    if (point == "answered") {
      ASSERT_TRUE(command.give());
      daemon_->crash();
    } else {
      daemon_->crash();
      ASSERT_TRUE(start_armed(fmt::format("{} {}", point, command.event)));
      EXPECT_FALSE(command.give()) << "answered, but the daemon should be dead";
      ASSERT_TRUE(died());
    }
    ASSERT_TRUE(start()) << daemon_->log_file();
    EXPECT_EQ(command.happened(), point != "before");
    if (command.repeats || !command.happened()) {
      EXPECT_TRUE(command.give());
    }
    EXPECT_TRUE(command.happened());
  }

  inline static const std::string kToken = "a-token-of-the-agent-of-";
  std::string subject_;  // the node that the command is about, and its job
  std::string token_;
  std::int64_t job_ = 0;
};

TEST_P(KilledNodeCommand, HappensCompletelyOrNotAtAll) {
  const std::map<std::string, Command> commands = table();
  const auto command = commands.find(GetParam());
  ASSERT_NE(command, commands.end())
      << "the route " << GetParam() << " is not in the table: say what it promises";
  ASSERT_TRUE(start()) << daemon_->log_file();
  for (const std::string point : {"before", "after", "done", "answered"}) {
    if (*command->second.event == '\0' && point != "answered") continue;
    kill_at(point, command->second);
    ASSERT_FALSE(HasFailure());
  }
  daemon_->stop();
  EXPECT_EQ(std::system(fmt::format("'{}' --state '{}' check >'{}/check.log' 2>&1",
                                    test_paths::program("rubatod"), daemon_->state(), folder_)
                            .c_str()),
            0)
      << "the log does not replay; see " << folder_ << "/check.log";
}

INSTANTIATE_TEST_SUITE_P(Live, KilledNodeCommand, testing::ValuesIn(routes_that_change(true)),
                         [](const auto& tested) { return tested.param; });

}  // namespace

}  // namespace rubato::live
