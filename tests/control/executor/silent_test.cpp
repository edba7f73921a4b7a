// Commands without a mode that never call the runtime: they use one device, and others get the
// rest.
#include <atomic>

#include "control/executor/controller_fixture.h"

namespace rubato::control {
namespace {

TEST_F(ControlledTest, ASilentProgramGivesBackWhatItDoesNotUse) {
  std::atomic<double> later = 0;
  const TimeSource real = computer_time();
  time_.wall = [&later, real] { return real.wall() + later; };
  time_.elapsed = [&later, real] { return real.elapsed() + later; };
  start();
  ASSERT_TRUE(controller_->use_policy(kAdmin, "greedy", {}).ok());  // gives what is there
  JobDocument document;
  document.name = "silent";
  document.run = {"/bin/sh", "-c", "sleep 1000"};
  document.max_devices = 4;
  document.grace_s = 0.1;
  ASSERT_TRUE(controller_->submit(kAdmin, document, "").ok());
  ASSERT_TRUE(wait([&] { return job(1).held == 4; })) << text(1);
  later = 60;
  ASSERT_TRUE(wait([&] { return job(1).held == 1 && job(1).granted == 1; })) << text(1);
  EXPECT_EQ(job(1).phase, Phase::kRunning);
  EXPECT_EQ(job(1).restarts, 0);
  EXPECT_NE(text(1).find("has not called the runtime"), std::string::npos) << text(1);
  // A program that calls the runtime keeps what it has.
  ASSERT_TRUE(controller_->submit(kAdmin, toy(1'000'000, 3), "").ok());
  ASSERT_TRUE(wait([&] { return job(2).held > 1; })) << text(2);
  later = 180;
  ASSERT_TRUE(wait([&] { return controller_->metrics().rounds > 0 && job(1).held == 1; }));
  EXPECT_EQ(job(2).max_useful, 0);
  controller_.reset();
  time_ = real;
}

}  // namespace
}  // namespace rubato::control
