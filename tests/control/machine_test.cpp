#include <gtest/gtest.h>

#include "control/local_executor.h"

namespace rubato::control {
namespace {

TEST(Machine, IsWhatNvidiaSmiLists) {
  const Result<Machine> machine = parse_gpu_list(
      "GPU-11111111-2222-3333-4444-555555555555, NVIDIA H200\n"
      "GPU-66666666-2222-3333-4444-555555555555, NVIDIA H200\n");
  ASSERT_TRUE(machine.ok()) << machine.error().message;
  EXPECT_EQ(machine->type, "NVIDIA H200");
  EXPECT_EQ(machine->devices, 2);
  ASSERT_EQ(machine->visible.size(), 2u);
  EXPECT_EQ(machine->visible[1], "GPU-66666666-2222-3333-4444-555555555555");
}

TEST(Machine, HasNoGpusWhereNoneAreListed) {
  const Result<Machine> machine = parse_gpu_list("");
  ASSERT_TRUE(machine.ok());
  EXPECT_EQ(machine->devices, 0);
}

TEST(Machine, DoesNotGuess) {
  EXPECT_FALSE(parse_gpu_list("No devices were found\n").ok());
  EXPECT_FALSE(parse_gpu_list("GPU-1\n").ok());
  EXPECT_FALSE(parse_gpu_list("GPU-1, A\nGPU-2, B\n").ok());
  EXPECT_FALSE(parse_gpu_list("\x01\xff\n").ok());
}

TEST(Machine, CpuSlotsAreAsManyAsAskedFor) {
  const Result<Machine> machine = find_machine(3);
  ASSERT_TRUE(machine.ok());
  EXPECT_EQ(machine->type, "cpu");
  EXPECT_EQ(machine->devices, 3);
  EXPECT_TRUE(machine->visible.empty());
}

}  // namespace
}  // namespace rubato::control
