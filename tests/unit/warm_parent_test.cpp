#include "elastic/launch/warm_parent.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace rubato::elastic {
namespace {

// The launcher looks at the copy only when it needs it. One that was killed before that says
// nothing about later ones.
TEST(WarmParentTest, ACopyThatEndedBeforeItWasNeededIsReplaced) {
  WarmParent parent({"train"}, [](pid_t) { return false; });
  Descriptor offer = parent.offer();
  ASSERT_TRUE(offer.valid());
  const pid_t copy = fork();
  if (copy == 0) {
    send(offer.get(), "ready", 5, MSG_NOSIGNAL);
    _exit(0);
  }
  offer = Descriptor();
  siginfo_t info{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(copy), &info, WEXITED | WNOWAIT), 0);
  EXPECT_FALSE(parent.start({.environment = {}, .log = "/dev/null"}));
  EXPECT_TRUE(parent.offer().valid());
  EXPECT_EQ(waitpid(copy, nullptr, 0), copy);
}

}  // namespace
}  // namespace rubato::elastic
