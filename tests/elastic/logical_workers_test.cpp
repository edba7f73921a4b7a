// How many workers or devices a job has never decides its result: without a number from its owner
// it trains with the program's own number of logical workers (elastic/job/logical_workers.h).
#include "elastic/job/logical_workers.h"

#include <gtest/gtest.h>

#include "elastic/runtime_fixture.h"

namespace rubato::elastic {
namespace {

class LogicalWorkers : public RuntimeTest {
 protected:
  // `rubato run` without --logical; the program's own arguments come last.
  static std::vector<std::string> plain(int workers, std::vector<std::string> of_program = {}) {
    std::vector<std::string> all = with_program({"--workers", std::to_string(workers)}, 30);
    all.insert(all.end(), of_program.begin(), of_program.end());
    return all;
  }
  std::vector<std::string> warnings(const RunningJob& job) const {
    std::vector<std::string> messages;
    for (const nlohmann::json& event : events_of(job, "warning")) {
      messages.push_back(event.value("message", ""));
    }
    return messages;
  }
};

// They trained with as many logical workers as they had workers: three models of one program.
TEST_F(LogicalWorkers, AnyNumberOfWorkersTrainsTheProgramsOwnModel) {
  const std::string expected = undisturbed(1, 4, 30);
  for (const int workers : {1, 2, 4}) {
    auto job = start("job" + std::to_string(workers), plain(workers));
    EXPECT_EQ(finish(*job), 0) << job->logs();
    EXPECT_EQ(job->hash(), expected) << workers << " workers";
    EXPECT_EQ(job->result().value("logical_workers", 0), 4);
    EXPECT_TRUE(warnings(*job).empty());
  }
}

TEST_F(LogicalWorkers, MoreWorkersThanLogicalWorkersAreEndedWithAWarning) {
  auto job = start("job", plain(4, {"--logical", "2"}));
  ASSERT_TRUE(job->until([&] { return job->view().members.size() == 2 && job->step() > 3; }))
      << job->logs();
  ASSERT_TRUE(job->until([&] { return !warnings(*job).empty(); })) << job->logs();
  EXPECT_EQ(finish(*job), 0) << job->logs();
  EXPECT_EQ(job->hash(), undisturbed(1, 2, 30));
  EXPECT_EQ(warnings(*job),
            std::vector<std::string>{
                "the job has 2 logical workers, so it runs on 2 workers instead of 4"});
}

// The program's --logical 2 was overridden without a word.
TEST_F(LogicalWorkers, AConflictOfJobAndProgramIsTold) {
  std::vector<std::string> arguments = toy(2, 4, 30);
  arguments.insert(arguments.end(), {"--logical", "2"});
  auto job = start("job", arguments);
  EXPECT_EQ(finish(*job), 0) << job->logs();
  EXPECT_EQ(job->hash(), undisturbed(1, 4, 30));
  EXPECT_EQ(warnings(*job),
            std::vector<std::string>{"the job asks for 4 logical workers and its program for 2 "
                                     "(--logical 2); it trains with 4"});
}

TEST_F(LogicalWorkers, AreKeptWhenTheJobIsContinued) {
  const std::vector<std::string> begin = plain(1);
  auto job = start("job", begin);
  ASSERT_TRUE(job->until([&] { return job->step() > 3; })) << job->logs();
  ASSERT_TRUE(job->change([](Target& target) { target.stop = true; }));
  EXPECT_EQ(job->wait(), 0) << job->logs();
  // With another number from the owner, or from the program.
  auto refused = start("job", toy(1, 2, 30));
  EXPECT_NE(refused->wait(), 0);
  EXPECT_NE(refused->logs().find("4 logical workers"), std::string::npos) << refused->logs();
  auto changed = start("job", plain(1, {"--logical", "2"}));
  EXPECT_NE(changed->wait(), 0);
  EXPECT_NE(changed->logs().find("continue the job with --logical 4"), std::string::npos)
      << changed->logs();
  auto continued = start("job", toy(2, 4, 30));
  EXPECT_EQ(finish(*continued), 0) << continued->logs();
  EXPECT_EQ(continued->hash(), undisturbed(1, 4, 30));
}

}  // namespace
}  // namespace rubato::elastic
