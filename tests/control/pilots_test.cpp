// Pilots in Slurm: how many there should be, and what its commands are told and say. A real Slurm
// is in tests/cli/slurm_test.sh.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.h"
#include "control/pilots/pilot_plan.h"
#include "control/pilots/slurm.h"

namespace rubato::control {
namespace {

constexpr PilotRules kRules{.least = 1, .most = 4, .devices = 4, .successor = 600};

Pilot running(const std::string& id, std::optional<Seconds> left, int jobs = 1) {
  return {.id = id, .runs = true, .left = left, .jobs = jobs};
}

TEST(PilotPlan, AsManyAsJobsCanUse) {
  EXPECT_EQ(wanted_pilots(kRules, 0), 1);
  EXPECT_EQ(wanted_pilots(kRules, 5), 2);
  EXPECT_EQ(wanted_pilots(kRules, 1000), 4);
  EXPECT_EQ(plan_pilots(kRules, 9, {}, false).submit, 3);
  EXPECT_EQ(plan_pilots(kRules, 9, {{.id = "1"}, running("2", 5000)}, false).submit, 1);
}

TEST(PilotPlan, WhoLeavesSoonGetsASuccessorInTime) {
  EXPECT_EQ(plan_pilots(kRules, 4, {running("1", 601)}, false).submit, 0);
  EXPECT_EQ(plan_pilots(kRules, 4, {running("1", 599)}, false).submit, 1);
  EXPECT_EQ(plan_pilots(kRules, 4, {running("1", 599), {.id = "2"}}, false).submit, 0);
  EXPECT_EQ(plan_pilots(kRules, 4, {running("1", std::nullopt)}, false).submit, 0);
  Pilot leaving = running("1", 5000);
  leaving.leaves = true;
  EXPECT_EQ(plan_pilots(kRules, 4, {leaving}, false).submit, 1);
}

TEST(PilotPlan, ThoseWithoutUseGoFirst) {
  const std::vector<Pilot> pilots{
      running("busy", 5000, 2), running("old", 1000), {.id = "waits"}, running("empty", 5000, 0)};
  EXPECT_TRUE(plan_pilots(kRules, 4, pilots, false).leave.empty());
  PilotPlan plan = plan_pilots(kRules, 12, pilots, true);
  EXPECT_EQ(plan.cancel, std::vector<std::string>{"waits"});
  EXPECT_TRUE(plan.leave.empty());
  plan = plan_pilots(kRules, 1, pilots, true);
  EXPECT_EQ(plan.cancel, std::vector<std::string>{"waits"});
  EXPECT_EQ(plan.leave, (std::vector<std::string>{"empty", "old"}));
}

TEST(PilotPlan, PilotsThatCameTogetherDoNotLeaveTogether) {
  EXPECT_EQ(staggered_stay(100, 0, 1), 100);
  EXPECT_EQ(staggered_stay(100, 0, 4), 100);
  EXPECT_EQ(staggered_stay(100, 3, 4), 62.5);
}

// Whatever is there: following the plan, there are as many lasting pilots as wanted, and only
// surplus ones go.
TEST(PilotPlan, RandomClusters) {
  Random random(7);
  for (int round = 0; round < 5000; ++round) {
    PilotRules rules{.least = random.between(0, 3), .devices = random.between(1, 8)};
    rules.most = rules.least + random.between(0, 6);
    rules.successor = 100;
    std::vector<Pilot> pilots;
    for (int i = random.between(0, 12); i > 0; --i) {
      Pilot pilot{.id = std::to_string(i), .runs = random.chance(0.7)};
      pilot.leaves = random.chance(0.2);
      if (random.chance(0.8)) pilot.left = random.between(0, 300);
      pilot.jobs = random.between(0, 3);
      pilots.push_back(pilot);
    }
    const int devices = random.between(0, 60);
    const bool shrinks = random.chance(0.5);
    const PilotPlan plan = plan_pilots(rules, devices, pilots, shrinks);
    const int wanted = wanted_pilots(rules, devices);
    const int there = lasting_pilots(rules, pilots);
    const auto gone = static_cast<int>(plan.cancel.size() + plan.leave.size());
    ASSERT_EQ(plan.submit, std::max(0, wanted - there)) << "round " << round;
    ASSERT_EQ(gone, shrinks ? std::max(0, there - wanted) : 0) << "round " << round;
  }
}

TEST(Slurm, TimeLeft) {
  EXPECT_EQ(parse_time_left("1-02:03:04"), 93'784);
  EXPECT_EQ(parse_time_left(" 3:04 "), 184);
  EXPECT_EQ(parse_time_left("0:00"), 0);
  for (const char* text : {"UNLIMITED", "NOT_SET", "INVALID", "", "x-1:00", "-1:00"}) {
    EXPECT_EQ(parse_time_left(text), std::nullopt) << text;
  }
  EXPECT_EQ(slurm_minutes(1), "1");
  EXPECT_EQ(slurm_minutes(5401), "91");
}

// As Slurm 22.05 writes it.
TEST(Slurm, QueueAsItPrintsIt) {
  const auto jobs = parse_squeue(
      "9|PENDING|Priority|1:00|2026-11-19T18:44:56|0:00|rubato stays 38\n"
      "8|PENDING|Resources|1:00|N/A|0:00|(null)\n"
      "7|RUNNING|None|0:22|2026-11-19T18:44:16|0:30|rubato stays 38\n"
      "6|COMPLETING|None|UNLIMITED|2026-11-19T18:44:16|1:38|a note of the site\n");
  ASSERT_TRUE(jobs.ok()) << jobs.error().message;
  ASSERT_EQ(jobs->size(), 4U);
  EXPECT_TRUE((*jobs)[0].waits());
  EXPECT_EQ((*jobs)[0].reason, "Priority");
  EXPECT_EQ((*jobs)[0].starts, "2026-11-19T18:44:56");
  EXPECT_EQ((*jobs)[0].stays, 38);
  EXPECT_EQ((*jobs)[1].starts, "");
  EXPECT_EQ((*jobs)[1].stays, std::nullopt);
  EXPECT_TRUE((*jobs)[2].runs());
  EXPECT_EQ((*jobs)[2].stays, 8);
  EXPECT_EQ((*jobs)[2].left, 22);
  EXPECT_FALSE((*jobs)[3].runs());
  EXPECT_EQ((*jobs)[3].left, std::nullopt);
  EXPECT_EQ(parse_squeue("slurm_load_jobs error\n").error().message,
            "squeue: unexpected line 'slurm_load_jobs error'");
  EXPECT_TRUE(parse_squeue("")->empty());
}

TEST(Slurm, WhatSbatchIsTold) {
  EXPECT_EQ(
      sbatch_words({.name = "pilot",
                    .time = 3600,
                    .stays = 3480,
                    .output = "/home/me/%j.log",
                    .more = {"--account=x", "--gres=gpu:4"}},
                   "/home/me/pilot.sh"),
      (std::vector<std::string>{"sbatch", "--parsable", "--nodes=1", "--ntasks=1", "--no-requeue",
                                "--chdir=/tmp", "--job-name=pilot", "--time=60",
                                "--comment=rubato stays 3480", "--output=/home/me/%j.log",
                                "--account=x", "--gres=gpu:4", "/home/me/pilot.sh", "3480"}));
}

TEST(Slurm, WordsOfTheScriptAreQuoted) {
  const std::string script = pilot_script({.rubatod = "/opt/it's/rubatod",
                                           .url = "https://head:7117",
                                           .token_file = "/home/me/join token",
                                           .ca_file = "/home/me/ca.pem",
                                           .name = "pilot",
                                           .cpu_slots = 3});
  for (const char* part :
       {"'/opt/it'\\''s/rubatod' agent", "--token-file '/home/me/join token'",
        "--ca-file '/home/me/ca.pem'", "--cpu-slots 3", "--leave-after \"$1\"",
        "--node pilot-\"$SLURM_JOB_ID\"", "state=${TMPDIR:-/tmp}/rubato-pilot-"}) {
    EXPECT_NE(script.find(part), std::string::npos) << part << "\n" << script;
  }
}

}  // namespace
}  // namespace rubato::control
