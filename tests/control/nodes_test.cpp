// A controller whose executor has several nodes: devices keep their nodes from the scheduler's
// action to the log, the API and the next daemon, and no device of a node is given twice.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <thread>

#include "control/controller.h"
#include "control/job_executor.h"
#include "control/live_scheduler.h"
#include "control/memory_executor.h"
#include "control/temporary_folder.h"

namespace rubato::control {
namespace {

using nlohmann::json;

const Caller kAdmin{.tenant = "", .admin = true, .address = "test"};

class NodesTest : public ::testing::Test {
 protected:
  void have(std::vector<LiveNode> nodes, std::uint64_t seed = 1) {
    world_ = std::make_shared<MemoryWorld>(std::move(nodes), seed);
  }
  // Starts the daemon, or another one after it.
  void start() {
    controller_.reset();
    auto made = Controller::start({.folder = folder_.path(), .supervisor = "", .machine = {}},
                                  std::make_unique<MemoryExecutor>(world_));
    ASSERT_TRUE(made.ok()) << made.error().message;
    controller_ = std::move(*made);
  }
  JobNumber submit(int low, int high, const std::string& type = "",
                   ElasticMode mode = ElasticMode::kConsistent) {
    JobDocument document;
    document.run = {"/bin/true"};
    document.dir = "/";
    document.min_devices = low;
    document.max_devices = high;
    document.mode = mode;
    document.logical_workers = 8;
    document.program = elastic::ProgramKind::kRuntime;
    document.device_type = type;
    const auto job = controller_->submit(kAdmin, document, "");
    EXPECT_TRUE(job.ok()) << job.error().message;
    return job.ok() ? job->number : 0;
  }
  JobRecord job(JobNumber number) const { return *controller_->job(kAdmin, number); }
  std::vector<JobRecord> active() const { return controller_->jobs(kAdmin, true, 0, 1000); }
  std::vector<Event> events(const std::string& type) const {
    auto all = controller_->events(kAdmin, 0, 0, 100'000, 0);
    std::erase_if(*all, [&](const Event& event) { return event.type != type; });
    return *all;
  }
  static bool until(const std::function<bool()>& condition) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return true;
  }
  // Whether all jobs hold what they were granted.
  bool settled() const {
    for (const JobRecord& job : active()) {
      if (job.nodes != job.held_nodes) return false;
    }
    return true;
  }

  // What holds at any moment.
  void check() const {
    std::map<std::string, LiveNode> nodes;
    for (const LiveNode& node : world_->nodes()) nodes[node.name] = node;
    std::map<std::string, int> granted;
    for (const JobRecord& job : active()) {
      EXPECT_EQ(devices_on(job.nodes), job.granted);
      EXPECT_EQ(devices_on(job.held_nodes), job.held);
      for (const NodeDevices& part : job.nodes) {
        granted[part.node] += part.devices;
        EXPECT_EQ(part.device_type, job.nodes.front().device_type) << "mixes types";
        if (!job.document.device_type.empty()) {
          EXPECT_EQ(part.device_type, job.document.device_type);
        }
      }
    }
    for (const auto& [name, devices] : granted) {
      if (!nodes.contains(name)) continue;
      EXPECT_LE(devices, nodes[name].devices) << name;
    }
  }

  TemporaryFolder folder_;
  std::shared_ptr<MemoryWorld> world_;
  std::unique_ptr<Controller> controller_;
};

LiveNode node(const std::string& name, int devices, const std::string& type = "a100") {
  return {.name = name, .device_type = type, .devices = devices};
}

TEST_F(NodesTest, AJobIsToldWhereItsDevicesAre) {
  have({node("left", 2), node("right", 2)});
  start();
  const JobNumber wide = submit(4, 4);
  ASSERT_TRUE(until([&] { return job(wide).held == 4; }));
  const JobPlacement both{{"left", "a100", 2}, {"right", "a100", 2}};
  EXPECT_EQ(job(wide).nodes, both);
  EXPECT_EQ(job(wide).held_nodes, both);
  EXPECT_EQ(world_->held(wide), both);
  EXPECT_EQ(events("granted").back().body["nodes"], placement_json(both));
  EXPECT_EQ(events("held").back().body["nodes"], placement_json(both));
  const json why = *controller_->why(kAdmin, wide);
  EXPECT_EQ(why["nodes"], placement_json(both));
  EXPECT_TRUE(
      why["text"].get<std::string>().starts_with("runs on its 4 devices, on left (2), right (2)"))
      << why;
  const json cluster = controller_->cluster(kAdmin);
  EXPECT_EQ(cluster["devices"], 4);
  EXPECT_EQ(cluster["nodes"][1], (json{{"node", "right"},
                                       {"device_type", "a100"},
                                       {"devices", 2},
                                       {"granted", 2},
                                       {"held", 2},
                                       {"labels", json::object()}}));
  EXPECT_EQ(cluster["jobs"][0]["nodes"], placement_json(both));
}

TEST_F(NodesTest, PlanSaysWhereAJobWouldRun) {
  have({node("left", 2), node("right", 4, "t4")});
  start();
  JobDocument document;
  document.run = {"/bin/true"};
  document.min_devices = document.max_devices = 3;
  const auto plan = controller_->plan(kAdmin, document, {});
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_EQ((*plan)["nodes"], placement_json({{"right", "t4", 3}}));
  EXPECT_EQ((*plan)["device_type"], "t4");
  document.min_devices = document.max_devices = 5;
  const auto refused = controller_->plan(kAdmin, document, {});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message,
            "devices: the job needs at least 5 devices, but the cluster has 4 of one type; ask for "
            "fewer");
  document.min_devices = document.max_devices = 1;
  document.device_type = "h100";
  EXPECT_EQ(controller_->plan(kAdmin, document, {}).error().message,
            "device_type: the cluster has no 'h100', only 'a100, t4'");
}

// It was on the first node after every restart, whatever the other jobs had there.
TEST_F(NodesTest, ARestartLeavesJobsWhereTheyAre) {
  have({node("a", 2), node("b", 2), node("c", 4, "t4")});
  start();
  const JobNumber first = submit(2, 2, "a100");
  ASSERT_TRUE(until([&] { return job(first).held == 2; }));
  const JobNumber second = submit(2, 2, "a100");
  const JobNumber third = submit(3, 3, "t4");
  ASSERT_TRUE(until([&] { return job(second).held == 2 && job(third).held == 3; }));
  world_->finish(first);
  ASSERT_TRUE(until([&] { return ended(job(first).phase); }));
  const JobPlacement there = job(second).nodes;
  ASSERT_EQ(there.front().node, "b");
  const std::size_t grants = events("granted").size();
  for (int i = 0; i < 3; ++i) {
    start();
    const JobNumber next = submit(2, 2, "a100");
    ASSERT_TRUE(until([&] { return job(next).held == 2; }));
    EXPECT_EQ(job(next).nodes.front().node, "a");
    EXPECT_EQ(job(second).nodes, there);
    EXPECT_EQ(world_->wanted(second), there);
    EXPECT_EQ(job(third).nodes, (JobPlacement{{"c", "t4", 3}}));
    world_->finish(next);
    ASSERT_TRUE(until([&] { return ended(job(next).phase); }));
  }
  EXPECT_EQ(events("granted").size(), grants + 3) << "running jobs were granted something again";
  EXPECT_EQ(job(second).resizes, 0);
}

TEST_F(NodesTest, NodesComeAndGoWhileJobsRun) {
  have({node("a", 2)});
  world_->steps_take(0.8);
  start();
  const JobNumber wide = submit(1, 4);
  ASSERT_TRUE(until([&] { return job(wide).held == 2; }));
  world_->add(node("b", 2));
  ASSERT_TRUE(until([&] { return job(wide).held == 4; }));
  EXPECT_EQ(job(wide).nodes.size(), 2U);
  EXPECT_EQ(events("nodes").back().body["devices"], 4);
  world_->remove("a");
  ASSERT_TRUE(until([&] { return job(wide).nodes == JobPlacement{{"b", "a100", 2}}; }));
  ASSERT_TRUE(until([&] { return settled(); }));
  bool told = false;
  for (const Event& event : events("granted")) told |= event.body["reason"] == "node-down";
  EXPECT_TRUE(told);
  world_->remove("b");
  ASSERT_TRUE(until([&] { return job(wide).phase == Phase::kQueued; }));
  const json why = *controller_->why(kAdmin, wide);
  EXPECT_EQ(why["code"], "does-not-fit") << why;
  world_->add(node("c", 1));
  ASSERT_TRUE(until([&] { return job(wide).held == 1; }));
  EXPECT_EQ(job(wide).nodes, (JobPlacement{{"c", "a100", 1}}));
}

// The daemon finds that a node left while it was away.
TEST_F(NodesTest, ANodeThatIsGoneAfterARestartTakesItsDevicesWithIt) {
  have({node("a", 2), node("b", 2)});
  start();
  const JobNumber rigid = submit(4, 4);
  ASSERT_TRUE(until([&] { return job(rigid).held == 4; }));
  controller_.reset();
  world_->remove("a");
  start();
  ASSERT_TRUE(until([&] { return job(rigid).held == 0 && job(rigid).phase == Phase::kQueued; }));
  EXPECT_TRUE(world_->wanted(rigid).empty());
}

// A laptop with another name is still the same machine.
TEST_F(NodesTest, ANodeWithAnotherNameKeepsItsJobs) {
  have({node("old", 2)});
  start();
  const JobNumber both = submit(2, 2);
  ASSERT_TRUE(until([&] { return job(both).held == 2; }));
  controller_.reset();
  world_->rename("old", "new");
  start();
  const JobPlacement now{{"new", "a100", 2}};
  EXPECT_EQ(job(both).nodes, now);
  ASSERT_TRUE(until([&] { return job(both).held_nodes == now; }));
  EXPECT_EQ(events("placed").back().body["nodes"], placement_json(now));
  EXPECT_EQ(job(both).resizes, 0);
  EXPECT_EQ(events("granted").size(), 1U);
}

// The log of a daemon that knew one machine and did not name it.
TEST_F(NodesTest, ALogWithoutNodesGetsThem) {
  {
    auto store = Store::open(folder_.path());
    ASSERT_TRUE(store.ok());
    std::vector<Event> log{
        {.at = 1,
         .type = "submitted",
         .job = 1,
         .tenant = "default",
         .body = {{"document", {{"run", {"/bin/true"}}, {"devices", 2}, {"dir", "/"}}},
                  {"uid", "0123456789abcdef"}}},
        {.at = 2,
         .type = "granted",
         .job = 1,
         .tenant = "default",
         .body = {{"devices", 2}, {"reason", "started"}}}};
    ASSERT_TRUE((*store)->append(log).ok());
    EXPECT_EQ((*store)->state().jobs.at(1).nodes, unnamed_placement(2));
  }
  have({node("alpha", 2)});
  world_->rename(kUnnamedNode, "alpha");
  start();
  EXPECT_EQ(job(1).nodes, (JobPlacement{{"alpha", "a100", 2}}));
  ASSERT_TRUE(until([&] { return job(1).held == 2; }));
  EXPECT_EQ(job(1).resizes, 0);
}

TEST_F(NodesTest, ASpeedIsThatOfANumberOfNodes) {
  have({node("a", 2), node("b", 2), node("c", 4, "t4")});
  world_->steps_take(0.8, 3);
  start();
  const JobNumber across = submit(4, 4, "a100");
  const JobNumber within = submit(4, 4, "t4");
  const auto points = [&](JobNumber job) { return (*controller_->profile(kAdmin, job))["points"]; };
  ASSERT_TRUE(until([&] { return !points(across).empty() && !points(within).empty(); }));
  EXPECT_EQ(points(across)[0]["nodes"], 2);
  EXPECT_NEAR(points(across)[0]["step_s"].get<double>(), 0.6, 1e-9);
  EXPECT_EQ(points(within)[0]["nodes"], 1);
  EXPECT_NEAR(points(within)[0]["step_s"].get<double>(), 0.2, 1e-9);
}

TEST_F(NodesTest, ADaemonThatEncryptsJobsDoesSoUnlessTheJobSaysOtherwise) {
  have({node("a", 2)});
  for (const bool encrypt_jobs : {false, true}) {
    controller_.reset();
    auto made = Controller::start(
        {.folder = folder_.path(), .supervisor = "", .machine = {}, .encrypt_jobs = encrypt_jobs},
        std::make_unique<MemoryExecutor>(world_));
    ASSERT_TRUE(made.ok()) << made.error().message;
    controller_ = std::move(*made);
    for (const std::optional<bool> said : {std::optional<bool>(), std::optional(false)}) {
      JobDocument document;
      document.run = {"/bin/true"};
      document.dir = "/";
      document.encrypt = said;
      const auto job = controller_->submit(kAdmin, document, "");
      ASSERT_TRUE(job.ok()) << job.error().message;
      EXPECT_EQ(job->document.encrypt, said || !encrypt_jobs ? said : std::optional(true));
    }
  }
}

TEST_F(NodesTest, TwoNodesWithOneNameAreRefused) {
  have({node("a", 2), node("a", 1)});
  auto made = Controller::start({.folder = folder_.path(), .supervisor = "", .machine = {}},
                                std::make_unique<MemoryExecutor>(world_));
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().message, "two nodes have the name a");
}

// Jobs come, end, are paused, resumed, pinned and cancelled; devices are reserved; nodes come and
// go; the daemon is restarted. The world checks what it is asked for, the test what callers see.
class NodesInDisorder : public NodesTest, public ::testing::WithParamInterface<int> {
 protected:
  void step() {
    const std::vector<JobRecord> jobs = active();
    const JobNumber any =
        jobs.empty() ? 0 : jobs[random_.below(static_cast<std::uint32_t>(jobs.size()))].number;
    switch (random_.below(12)) {
      case 0:
      case 1:
      case 2: {
        if (jobs.size() > 12) break;
        const int low = random_.between(1, 3);
        const bool rigid = random_.chance(0.2);
        const char* types[] = {"", "a100", "t4"};
        submit(low, rigid ? low : random_.between(low, 6), types[random_.below(3)],
               rigid ? ElasticMode::kRigid : ElasticMode::kConsistent);
        break;
      }
      case 3:
        if (any > 0) static_cast<void>(controller_->cancel(kAdmin, any));
        break;
      case 4:
        if (any > 0) static_cast<void>(controller_->pause(kAdmin, any));
        break;
      case 5:
        if (any > 0) static_cast<void>(controller_->resume(kAdmin, any));
        break;
      case 6:
        if (any > 0) static_cast<void>(controller_->scale(kAdmin, any, random_.between(0, 4)));
        break;
      case 7:
        if (any > 0) world_->finish(any);
        break;
      case 8:
        static_cast<void>(controller_->reserve(kAdmin, random_.between(1, 2), 0.2));
        break;
      case 9:
        if (extra_.empty()) {
          extra_ = fmt::format("extra{}", ++extras_);
          world_->add(node(extra_, random_.between(1, 4), random_.chance(0.5) ? "t4" : "a100"));
        } else {
          world_->remove(std::exchange(extra_, ""));
        }
        break;
      case 10:
        start();
        break;
      default:
        std::this_thread::sleep_for(std::chrono::milliseconds(60));
    }
    check();
  }

  Random random_{static_cast<std::uint64_t>(GetParam())};
  std::string extra_;  // a node that is there now and then
  int extras_ = 0;
};

TEST_P(NodesInDisorder, NoDeviceIsGivenTwice) {
  SCOPED_TRACE(fmt::format("seed {}", GetParam()));
  have({node("a", 4), node("b", 2), node("c", 4, "t4"), node("d", 1, "t4")},
       static_cast<std::uint64_t>(GetParam()));
  world_->steps_take(0.8, 1.5);
  start();
  for (int i = 0; i < 60 && !HasFailure(); ++i) step();
  EXPECT_TRUE(until([&] {
    const std::vector<JobRecord> jobs = active();
    return std::all_of(jobs.begin(), jobs.end(), [&](const JobRecord& job) {
      return job.held_nodes == job.nodes && world_->wanted(job.number) == job.nodes &&
             world_->held(job.number) == job.nodes;
    });
  })) << "what is granted, wanted and held comes together";
  check();
  controller_.reset();
  const auto replayed = Store::replay(folder_.path());
  ASSERT_TRUE(replayed.ok()) << replayed.error().message;
}

INSTANTIATE_TEST_SUITE_P(Seeds, NodesInDisorder, ::testing::Range(1, 7),
                         [](const auto& seed) { return fmt::format("Seed{}", seed.param); });

// The map of the dashboard shows reserved devices where the scheduler keeps them free.
TEST_F(NodesTest, ReservedDevicesAreThoseThatNoJobGets) {
  const std::vector<LiveNode> all{{.name = "a", .device_type = "x", .devices = 2},
                                  {.name = "b", .device_type = "y", .devices = 3},
                                  {.name = "c", .device_type = "x", .devices = 4}};
  for (const int reserved : {1, 4, 5, 6, 8}) {
    SCOPED_TRACE(reserved);
    const auto cluster = LiveCluster::make(all);
    ASSERT_TRUE(cluster.ok());
    const std::vector<int> on = reserved_on(*cluster, reserved);
    auto scheduler = LiveScheduler::make(*cluster, {.name = "fifo"}, [] { return 1000.0; });
    ASSERT_TRUE(scheduler.ok());
    EXPECT_TRUE((*scheduler)->set_reserved(reserved).empty());
    for (JobNumber number = 1; number <= 9; ++number) {
      JobRecord job;
      job.number = number;
      job.document.run = {"/bin/true"};
      job.document.mode = ElasticMode::kRigid;
      ASSERT_TRUE((*scheduler)->add(job, Profile()).ok());
    }
    std::vector<Action> actions;
    ASSERT_TRUE((*scheduler)->round(actions).ok());
    std::vector<int> granted(all.size(), 0);
    for (const JobState* state : (*scheduler)->jobs()) {
      for (const NodeShare& share : state->allocation.shares) {
        granted[share.node.index()] += share.devices;
      }
    }
    for (std::size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(granted[i] + on[i], all[i].devices) << all[i].name;
    }
  }
}

}  // namespace
}  // namespace rubato::control
