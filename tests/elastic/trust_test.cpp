// Strangers at the control port of a training worker: refused, counted, and harmless.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <sstream>

#include "base/random.h"
#include "elastic/runtime_fixture.h"
#include "elastic/stranger.h"
#include "elastic/transport/handshake.h"
#include "elastic/transport/secret.h"

namespace rubato::elastic {
namespace {

long memory_kb(pid_t pid) {
  std::ifstream status(fmt::format("/proc/{}/status", pid));
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("RssAnon:")) return std::atol(line.c_str() + 8);
  }
  return -1;
}

class Trust : public RuntimeTest {
 protected:
  void begin(int steps) {
    job_ = start("job", toy(2, 4, steps));
    ASSERT_TRUE(job_->until([&] { return job_->step() > 5; })) << job_->logs();
    view_ = job_->view();
    ASSERT_EQ(view_.members.size(), 2u);
  }
  std::int64_t refused() const {
    const Result<Board> board = Board::open(view_.board);
    return board.ok() ? board->refused_connections().load() : -1;
  }

  std::unique_ptr<RunningJob> job_;
  View view_;
};

TEST_F(Trust, OnlyTheOwnerReadsTheSecretAndOnlyLoopbackListens) {
  begin(1000);
  struct stat secret {};
  ASSERT_EQ(stat(job_->folder().secret_file().c_str(), &secret), 0);
  EXPECT_EQ(secret.st_mode & 0777, 0600u);
  int listening = 0;
  for (const char* table : {"tcp", "tcp6"}) {
    const auto pid = view_.members[0].address.pid;
    std::ifstream lines(fmt::format("/proc/{}/net/{}", pid, table));
    std::string line;
    std::getline(lines, line);
    while (std::getline(lines, line)) {
      std::istringstream fields(line);
      std::string number;
      std::string local;
      std::string remote;
      std::string state;
      fields >> number >> local >> remote >> state;
      const int port = static_cast<int>(std::stol(local.substr(local.rfind(':') + 1), nullptr, 16));
      for (const Member& member : view_.members) {
        if (state != "0A" || port != member.address.port) continue;
        EXPECT_EQ(local.substr(0, local.rfind(':')), "0100007F");
        ++listening;
      }
    }
  }
  EXPECT_EQ(listening, 2);
  EXPECT_EQ(finish(*job_), 0) << job_->logs();
}

TEST_F(Trust, StrangersAreTurnedAwayAndCountedWhileTheJobTrains) {
  // Long enough to outlast the strangers, who have five seconds to authenticate.
  const std::string expected = undisturbed(1, 4, 1500);
  begin(1500);
  const auto pid = static_cast<pid_t>(view_.members[0].address.pid);
  const int port = view_.members[0].address.port;
  const std::string name = std::to_string(view_.members[0].address.id);
  const Result<std::string> secret = job_->folder().read_secret();
  const Result<JobSettings> settings = job_->folder().read_settings();
  ASSERT_TRUE(secret.ok() && settings.ok());
  const long memory = memory_kb(pid);
  std::int64_t hostile = 0;
  constexpr std::uint64_t kSeed = 3;
  SCOPED_TRACE(kSeed);
  Random random(kSeed);

  for (int i = 0; i < 50; ++i) {  // random bytes
    Stranger stranger(port);
    std::string bytes(static_cast<std::size_t>(random.between(5000, 20000)), '\0');
    for (char& byte : bytes) byte = static_cast<char>(random.between(0, 255));
    stranger.say(bytes);
    EXPECT_TRUE(stranger.turned_away());
    ++hostile;
  }
  for (int i = 0; i < 20; ++i) {  // a frame that is too large, and a large one that is allowed
    Stranger too_large(port);
    too_large.say(std::string("\xff\xff\xff\x7f\x02", 5));
    EXPECT_TRUE(too_large.turned_away());
    Stranger large(port);
    large.say(encode_frame(kAnswerFrame, std::string(kLargestPayload, '[')).substr(0, 1 << 19));
    EXPECT_TRUE(large.turned_away());
    hostile += 2;
  }
  const auto answer_with = [&](Stranger& stranger, const std::string& key) {
    Handshake handshake = Handshake::connector({key, settings->name, "777"}, *random_nonce(), name);
    const std::optional<Frame> challenge = stranger.hear();
    return challenge ? handshake.handle(*challenge) : std::string();
  };
  {
    Stranger stranger(port);
    stranger.say(answer_with(stranger, std::string(kSecretBytes, 'x')));  // another secret
    EXPECT_TRUE(stranger.turned_away());
    ++hostile;
  }
  {
    Stranger honest(port);
    const std::string answer = answer_with(honest, *secret);
    honest.say(answer);
    const std::optional<Frame> welcome = honest.hear();
    ASSERT_TRUE(welcome.has_value());
    EXPECT_EQ(welcome->type, kWelcomeFrame);
    Stranger replay(port);  // an answer is valid for one connection only
    replay.say(answer);
    EXPECT_TRUE(replay.turned_away());
    ++hostile;
  }
  // Connections that stay silent or stop midway: they cannot keep a newcomer out.
  std::vector<std::unique_ptr<Stranger>> idle;
  for (int i = 0; i < 300; ++i) {
    idle.push_back(std::make_unique<Stranger>(port));
    ASSERT_TRUE(idle.back()->connected());
    if (i % 2 == 0) idle.back()->say(std::string("\x10\x00\x00\x00\x02{", 6));
  }
  ASSERT_TRUE(job_->change([](Target& t) { t.workers = 3; }));
  ASSERT_TRUE(job_->until([&] { return job_->view().members.size() == 3; })) << job_->logs();
  for (const auto& stranger : idle) EXPECT_TRUE(stranger->turned_away());
  hostile += 300;

  ASSERT_TRUE(job_->until([&] { return refused() >= hostile; }))
      << refused() << " of " << hostile << "\n"
      << job_->logs();
  EXPECT_EQ(refused(), hostile);
  EXPECT_LT(memory_kb(pid), memory + 8 * 1024);
  EXPECT_NE(job_->view().find(view_.members[0].address.id), nullptr);
  EXPECT_EQ(finish(*job_), 0) << job_->logs();
  EXPECT_EQ(job_->hash(), expected) << job_->logs();
  EXPECT_TRUE(view_event(*job_, "failure").is_null()) << job_->logs();
}

}  // namespace
}  // namespace rubato::elastic
