// The daemon is killed at each point of each command: before its event is durable, after that and
// before the deed, after the deed and before the answer, and right after the answer. The promise:
//   - a command happens completely or not at all; killed before its event is durable, not at all;
//   - a command that was answered has happened;
//   - a submission repeated with its key makes no second job;
//   - no job runs twice, no step is done twice, and no device is held twice.
// The list of commands is that of the API's routes: a new one that changes something fails here
// until the table says what it promises.
#include "live/kill_points.h"

namespace rubato::live {

namespace {

class KilledCommand : public KillPoints, public testing::WithParamInterface<std::string> {
 protected:
  enum class Subject { kNone, kToy, kCounted };
  struct Command {
    const char* event = "";  // makes it durable; empty: nothing in the log does
    Subject subject = Subject::kNone;
    std::function<bool()> prepare;   // what it needs
    std::function<bool()> give;      // true if it was answered
    std::function<bool()> happened;  // fails the test if it happened by half
    std::function<bool()> settles;   // the deed is done, and devices are free for the next one
    bool repeats = false;            // giving it twice is the same as once
  };

  std::map<std::string, Command> table() {
    std::map<std::string, Command> commands;
    commands["submitJob"] = {
        .event = "submitted",
        .subject = Subject::kCounted,
        .prepare = [] { return true; },
        .give = [this] { return submit(counted_document(subject_), "key-" + subject_); },
        .happened = [this] { return !job(subject_).empty(); },
        .settles =
            [this] {
              return wait_until([&] { return runs(subject_) == 1; }) && post("cancel") &&
                     gives_back(subject_);
            },
        .repeats = true};
    commands["cancelJob"] = {.event = "cancelled",
                             .subject = Subject::kCounted,
                             .prepare = [this] { return have_running(counted_document(subject_)); },
                             .give = [this] { return post("cancel"); },
                             .happened = [this] { return phase(subject_) == "cancelled"; },
                             .settles = [this] { return gives_back(subject_); }};
    commands["pauseJob"] = {.event = "paused",
                            .subject = Subject::kToy,
                            .prepare = [this] { return have_running(toy_document(subject_, "1")); },
                            .give = [this] { return post("pause"); },
                            .happened = [this] { return phase(subject_) == "paused"; },
                            .settles = [this] { return gives_back(subject_); }};
    commands["resumeJob"] = {
        .event = "resumed",
        .subject = Subject::kToy,
        .prepare =
            [this] {
              return have_running(toy_document(subject_, "1")) && post("pause") &&
                     gives_back(subject_);
            },
        .give = [this] { return post("resume"); },
        .happened = [this] { return phase(subject_) != "paused"; },
        .settles = [this] { return wait_until([&] { return is_busy(subject_); }) && park(); }};
    commands["scaleJob"] = {
        .event = "scaled",
        .subject = Subject::kToy,
        .prepare = [this] { return have_running(toy_document(subject_, "1..2")); },
        .give =
            [this] {
              return post("scale", {{"devices", 2}});
            },
        .happened = [this] { return job(subject_).value("scale", 0) == 2; },
        .settles =
            [this] {
              return wait_until([&] { return job(subject_).value("held", 0) == 2; }) && park();
            },
        .repeats = true};
    commands["changeJob"] = {
        .event = "changed",
        .subject = Subject::kToy,
        .prepare = [this] { return have_running(toy_document(subject_, "1")); },
        .give =
            [this] {
              return daemon_->send("PATCH", path_of(subject_), {{"priority", 3}}).has_value();
            },
        .happened = [this] { return job(subject_)["document"].value("priority", 0) == 3; },
        .settles = [this] { return park(); },
        .repeats = true};
    commands["usePolicy"] = {
        .event = "policy",
        .prepare = [] { return true; },
        .give =
            [this] {
              return daemon_->put("/api/v1/policy", {{"name", policy()}}).has_value();
            },
        .happened = [this] { return (*daemon_->get("/api/v1/policies"))["active"] == policy(); },
        .settles = [] { return true; },
        .repeats = true};
    commands["noteSupply"] = {
        .event = "supply",
        .prepare = [] { return true; },
        .give =
            [this] {
              return daemon_->put("/api/v1/supply", {{"text", subject_}, {"for_s", 3600}})
                  .has_value();
            },
        .happened = [this] { return (*daemon_->get("/api/v1/cluster"))["supply"] == subject_; },
        .settles = [] { return true; },
        .repeats = true};
    add_files(commands);
    add_reservations(commands);
    add_tenants(commands);
    return commands;
  }

  void add_files(std::map<std::string, Command>& commands) {
    commands["cancelJobs"] = {
        .event = "cancelled",
        .subject = Subject::kCounted,
        .prepare = [this] { return have_running(counted_document(subject_)); },
        .give =
            [this] {
              return daemon_->post("/api/v1/cancel", {{"name", subject_}}).has_value();
            },
        .happened = [this] { return phase(subject_) == "cancelled"; },
        .settles = [this] { return gives_back(subject_); }};
    commands["removeJob"] = {
        .event = "removed",
        .subject = Subject::kCounted,
        .prepare =
            [this] {
              const bool ended = have_running(counted_document(subject_)) && post("cancel") &&
                                 gives_back(subject_);
              removed_ = path_of(subject_);
              return ended;
            },
        .give = [this] { return daemon_->send("DELETE", removed_).has_value(); },
        .happened = [this] { return job(subject_).empty(); },
        .settles =
            [this] {
              const std::string number = removed_.substr(removed_.rfind('j') + 1);
              return wait_until(
                  [&] { return !std::filesystem::exists(daemon_->state() + "/jobs/" + number); });
            }};
    commands["putUpload"] = {
        .prepare = [] { return true; },
        .give =
            [this] {
              const std::string path = fmt::format("/api/v1/uploads/{}?size={}&offset=0&id=ab",
                                                   sha256_hex(subject_), subject_.size());
              return daemon_->put_bytes(path, subject_).has_value();
            },
        .happened =
            [this] {
              const json file = {{"sha256", sha256_hex(subject_)}, {"size", subject_.size()}};
              const auto answer =
                  daemon_->post("/api/v1/uploads/missing", {{"files", json::array({file})}});
              return answer && (*answer)["missing"].empty();
            },
        .settles = [] { return true; },
        .repeats = true};
  }

  void add_reservations(std::map<std::string, Command>& commands) {
    commands["makeReservation"] = {.event = "reserved",
                                   .prepare = [] { return true; },
                                   .give = [this] { return reserve(); },
                                   .happened =
                                       [this] {
                                         EXPECT_LE(reservations().size(), 1u);
                                         return !reservations().empty();
                                       },
                                   .settles = [this] { return release(); }};
    commands["releaseReservation"] = {
        .event = "released",
        .prepare = [this] { return reserve(); },
        .give = [this] { return release(); },
        .happened = [this] { return reservations().empty(); },
        .settles = [this] { return (*daemon_->get("/api/v1/cluster")).value("reserved", 0) == 0; }};
  }

  void add_tenants(std::map<std::string, Command>& commands) {
    const auto set_tenant = [this] {
      const json body = {{"weight", 2}, {"quota", 3}, {"user", std::to_string(64'001 + turn_)}};
      return daemon_->put("/api/v1/tenants/" + subject_, body).has_value();
    };
    const auto tenant = [this] {
      const json list = daemon_->get("/api/v1/tenants").value_or(json::object());
      for (const json& one : list.value("tenants", json::array())) {
        if (one["name"] == subject_) return one;
      }
      return json::object();
    };
    commands["setTenant"] = {
        .event = "tenant",
        .prepare = [] { return true; },
        .give = set_tenant,
        .happened =
            [this, tenant] {
              const json found = tenant();
              if (found.empty()) return false;
              EXPECT_EQ(found.value("weight", 0.0), 2) << "by half";
              EXPECT_EQ(found.value("quota", 0), 3) << "by half";
              EXPECT_EQ(found.value("user", ""), std::to_string(64'001 + turn_)) << "by half";
              return true;
            },
        .settles = [] { return true; },
        .repeats = true};
    commands["removeTenant"] = {
        .event = "tenant_removed",
        .subject = Subject::kCounted,
        .prepare =
            [this, set_tenant] {
              json document = counted_document(subject_);
              document["tenant"] = subject_;
              return set_tenant() && have_running(document);
            },
        .give =
            [this] {
              return daemon_->send("DELETE", "/api/v1/tenants/" + subject_ + "?cancel=true")
                  .has_value();
            },
        .happened =
            [this, tenant] {
              const bool removed = tenant().empty();
              EXPECT_EQ(phase(subject_), removed ? "cancelled" : "running") << "by half";
              return removed;
            },
        .settles = [this] { return gives_back(subject_); }};
  }

  // --- The steps of commands ---
  std::string path_of(const std::string& name) const {
    return "/api/v1/jobs/" + job(name).value("id", "");
  }
  bool post(const std::string& what, const json& body = json::object()) const {
    // Of the commands without fields, only scale takes a body.
    return daemon_->send("POST", path_of(subject_) + "/" + what, body.empty() ? json() : body)
        .has_value();
  }
  // A job that was looked at gives back its devices for the next one.
  bool park() const { return post("pause") && gives_back(subject_); }
  std::string policy() const { return turn_ % 2 == 0 ? "fifo" : "rubato"; }
  std::vector<std::int64_t> reservations() const {
    std::vector<std::int64_t> numbers;
    const json list = daemon_->get("/api/v1/reservations").value_or(json::object());
    for (const json& one : list.value("reservations", json::array())) {
      numbers.push_back(one.value("number", std::int64_t{0}));
    }
    return numbers;
  }
  bool reserve() const {
    return daemon_->post("/api/v1/reservations", {{"devices", 1}, {"seconds", 3600}}).has_value();
  }
  bool release() const {
    const std::vector<std::int64_t> numbers = reservations();
    return !numbers.empty() &&
           daemon_->send("DELETE", fmt::format("/api/v1/reservations/{}", numbers[0])).has_value();
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
    EXPECT_TRUE(command.settles());
    ++turn_;
  }

  std::string subject_;  // name of the job or tenant that the command is about
  std::string removed_;  // path of the job that is removed
  int turn_ = 0;
};

TEST_P(KilledCommand, HappensCompletelyOrNotAtAll) {
  const std::map<std::string, Command> commands = table();
  const auto command = commands.find(GetParam());
  ASSERT_NE(command, commands.end())
      << "the route " << GetParam() << " is not in the table: say what it promises";
  ASSERT_TRUE(start()) << daemon_->log_file();
  ASSERT_TRUE(have_running(toy_document("steady", "1")));
  ASSERT_TRUE(have_running(counted_document("other")));
  std::set<std::string> toys{"steady"};
  std::set<std::string> counted{"other"};
  for (const std::string point : {"before", "after", "done", "answered"}) {
    if (*command->second.event == '\0' && point != "answered") continue;
    kill_at(point, command->second);
    ASSERT_FALSE(HasFailure());
    if (command->second.subject == Subject::kToy) toys.insert(point);
    if (command->second.subject == Subject::kCounted) counted.insert(point);
  }
  hurry();
  for (const std::string& name : toys) {
    subject_ = name;
    if (phase(name) == "paused") {
      EXPECT_TRUE(post("resume"));
    }
  }
  check_everything(toys, counted);
}

INSTANTIATE_TEST_SUITE_P(Live, KilledCommand, testing::ValuesIn(routes_that_change(false)),
                         [](const auto& tested) { return tested.param; });

}  // namespace

}  // namespace rubato::live
