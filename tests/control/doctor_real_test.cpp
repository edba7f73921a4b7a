// What `rubato doctor` sees of the machine that the test runs on.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control/doctor/real_machine.h"

namespace rubato::control::doctor {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;

TEST(RealMachine, KeepsOutputAndErrorsOfAProgramApart) {
  const Ran ran = RealMachine().run({"sh", "-c", "echo out; echo err >&2; exit 3"}, minutes(5));
  EXPECT_EQ(ran.end, Ran::End::kEnded);
  EXPECT_EQ(ran.code, 3);
  EXPECT_EQ(ran.output, "out\n");
  EXPECT_EQ(ran.errors, "err\n");
  EXPECT_EQ(ran.complaint(), "err\n");
  EXPECT_EQ(RealMachine().run({"sh", "-c", "kill -9 $$"}, minutes(5)).code, 128 + 9);
}

TEST(RealMachine, KillsAProgramThatTakesTooLong) {
  const Ran ran =
      RealMachine().run({"sh", "-c", "echo begun; sleep 1000; true"}, milliseconds(300));
  EXPECT_EQ(ran.end, Ran::End::kTimedOut);
  // Also one that has closed its output.
  const Ran silent =
      RealMachine().run({"sh", "-c", "exec >&- 2>&-; sleep 1000"}, milliseconds(300));
  EXPECT_EQ(silent.end, Ran::End::kTimedOut);
}

TEST(RealMachine, SaysThatAProgramIsNotThere) {
  EXPECT_EQ(RealMachine().run({"no-such-program-here"}, minutes(5)).end, Ran::End::kNotFound);
}

TEST(RealMachine, ReadsWhatTheLoaderWouldLoad) {
  const Libraries shell = RealMachine().libraries("/bin/sh");
  EXPECT_TRUE(shell.loadable) << shell.problem;
  EXPECT_FALSE(shell.found.empty());
  EXPECT_FALSE(RealMachine().libraries("/etc/passwd").loadable);
  EXPECT_FALSE(RealMachine().libraries("libnothing-of-this-name.so.7").loadable);
}

TEST(RealMachine, ReadsTheLoadersList) {
  const Libraries found = parse_library_list(
      "\tlinux-vdso.so.1 (0x1)\n\tliba.so.1 => /lib/a (b)/liba.so.1 (0x2)\n\t/lib64/ld.so (0x3)\n",
      true);
  EXPECT_TRUE(found.loadable);
  ASSERT_EQ(found.found.size(), 1U);
  EXPECT_EQ(found.found[0].name, "liba.so.1");
  EXPECT_EQ(found.found[0].path, "/lib/a (b)/liba.so.1");

  const Libraries missing =
      parse_library_list("\tlibx.so => not found\n\tliby.so => not found\n", true);
  EXPECT_FALSE(missing.loadable);
  EXPECT_EQ(missing.problem, "libx.so is not found");

  EXPECT_FALSE(parse_library_list("x: file too short\n", false).loadable);
  EXPECT_EQ(parse_library_list("x: file too short\n", false).problem, "x: file too short");
  EXPECT_FALSE(parse_library_list(" => \n => => \x01\xff", true).loadable);
}

TEST(RealMachine, KnowsWhetherAPortIsFree) {
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(listener, 1), 0);
  ASSERT_EQ(::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
  EXPECT_EQ(RealMachine().port("127.0.0.1", ntohs(address.sin_port)).state, Port::State::kTaken);
  ::close(listener);
  EXPECT_EQ(RealMachine().port("127.0.0.1", 0).state, Port::State::kFree);
  EXPECT_EQ(RealMachine().port("192.0.2.1", 0).state, Port::State::kUnusable);  // of nobody
  EXPECT_EQ(RealMachine().port("not a host", 1).state, Port::State::kUnusable);
}

TEST(RealMachine, ReadsFilesAndFolders) {
  const RealMachine machine;
  EXPECT_TRUE(machine.read("/proc/self/status"));
  EXPECT_FALSE(machine.read("/no/such/file"));
  EXPECT_FALSE(machine.read("/"));
  EXPECT_TRUE(machine.file("/tmp").folder);
  EXPECT_FALSE(machine.file("").exists);
  EXPECT_TRUE(machine.space("/"));
  EXPECT_FALSE(machine.space("/no/such/folder"));
  EXPECT_GE(machine.usable_cpus(), 1);
  EXPECT_GT(machine.clocks().monotonic_passed_s, 0);
  EXPECT_EQ(machine.get("http://127.0.0.1:1/").status, 0);
}

}  // namespace
}  // namespace rubato::control::doctor
