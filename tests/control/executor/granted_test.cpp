// A daemon that dies between a grant and the job's folder.
#include "control/controller.h"
#include "control/executor/executor_fixture.h"
#include "control/job_owner.h"
#include "control/store.h"

namespace rubato::control {
namespace {

// The folder was made without its owner: the job ran, but nobody saw its log, and at the next start
// its folder was taken for a stranger's.
TEST(GrantedJobs, GetTheirFolderFromTheNextDaemon) {
  std::string root = (std::filesystem::temp_directory_path() / "rubato-granted-XXXXXX").string();
  ASSERT_NE(mkdtemp(root.data()), nullptr);
  {
    auto store = Store::open(root);
    ASSERT_TRUE(store.ok()) << store.error().message;
    std::vector<Event> events{
        {.at = 1,
         .type = "submitted",
         .job = 1,
         .tenant = "default",
         .body =
             {{"document",
               {{"run", {"/bin/echo", "hello"}}, {"mode", "opaque"}, {"devices", 1}, {"dir", "/"}}},
              {"uid", "0123456789abcdef"}}},
        {.at = 2,
         .type = "granted",
         .job = 1,
         .tenant = "default",
         .body = {{"devices", 1}, {"reason", "started"}}}};
    ASSERT_TRUE((*store)->append(events).ok());
  }
  const Caller admin{.tenant = "", .admin = true};
  {
    auto controller = Controller::start({.folder = root,
                                         .supervisor = test_paths::program("test_supervisor"),
                                         .machine = {.type = "cpu", .devices = 1}});
    ASSERT_TRUE(controller.ok()) << controller.error().message;
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    Phase phase = Phase::kQueued;
    while (!ended(phase) && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      phase = (*controller)->job(admin, 1)->phase;
    }
    EXPECT_EQ(phase, Phase::kFinished);
    EXPECT_TRUE(owns_folder(root + "/jobs/1", "0123456789abcdef"));
    const auto logs = (*controller)->log_files(admin, 1);
    ASSERT_TRUE(logs.ok());
    EXPECT_EQ(logs->size(), 1U);
  }
  remove_tree(root);
}

}  // namespace
}  // namespace rubato::control
