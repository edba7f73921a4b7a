// What coordinators of several nodes agree on if something happens at a chosen moment of a step.
#include "elastic/worker/coordinator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "elastic/played_worker.h"
#include "elastic/sockets.h"

namespace rubato::elastic {
namespace {

using Event = TrainingPort::Event;

// Shuts down all connections to a control port of this process: control connections, which are
// reestablished, and streams.
void cut_connections_to(int port) {
  for (const SocketOf& socket : sockets_of(getpid())) {
    if (socket.peer_port == port) shutdown(socket.remote_fd, SHUT_RDWR);
  }
}

// A third worker is lost when a step is complete on node b but not on the leader's node a. Node a
// gets the step from b. The view that waits for it begins; it is not abandoned for another one just
// because the lost worker is a member of the previous view.
TEST(Coordinators, TheLeadersNodeGetsAStepThatItLacksWhileSomebodyIsLost) {
  const PlayedJob job({{"b", 1}, {"c", 1}});
  PlayedWorker a(job, 0, "a");
  ASSERT_TRUE(a.hears(Event::kFound));
  a.port().filled();
  PlayedWorker b(job, 1, "b");
  auto c = std::make_unique<PlayedWorker>(job, 2, "c");
  for (PlayedWorker* newcomer : {&b, c.get()}) {
    ASSERT_TRUE(newcomer->hears(Event::kObserve));
    ASSERT_TRUE(newcomer->sees([&] { return newcomer->port().sees_view(); }));
    newcomer->port().ready();
  }
  const std::vector<PlayedWorker*> all{&a, &b, c.get()};
  for (PlayedWorker* worker : all) ASSERT_TRUE(worker->begins());
  ASSERT_EQ(a.view().view.leader, 0);
  ASSERT_EQ(a.view().view.members.size(), 3u);

  // If this process is not scheduled for too long, the view is frozen before b has reduced. Then
  // try again in the next view.
  bool complete_on_b = false;
  while (!complete_on_b) {
    for (PlayedWorker* worker : all) ASSERT_TRUE(worker->arrives(0));
    for (PlayedWorker* worker : all) {
      ASSERT_TRUE(worker->sees([&] { return worker->view().block->all_arrived(0); }));
    }
    ASSERT_TRUE(a.reduces(0, 1) && c->reduces(0, 3));
    ASSERT_TRUE(b.sees([&] { return b.has_reduced(0, 0) && b.has_reduced(2, 0); }));
    cut_connections_to(a.view().view.find(0)->address.port);
    complete_on_b = b.reduces(0, 2);
    if (!complete_on_b) {
      for (PlayedWorker* worker : all) ASSERT_TRUE(worker->begins());
    }
  }
  EXPECT_FALSE(a.has_reduced(1, 0));
  const std::int64_t before = a.view().view.number;
  c.reset();

  for (PlayedWorker* worker : {&a, &b}) {
    do {
      ASSERT_TRUE(worker->begins());
    } while (worker->view().view.members.size() > 2);  // the cut may have been noticed first
    EXPECT_EQ(worker->view().view.ids(), (std::vector<int>{0, 1}));
    EXPECT_EQ(worker->view().view.first_step, 1);
    EXPECT_LE(worker->view().view.number, before + 2);
    EXPECT_EQ(worker->board().completed(), 0);
    for (std::size_t i = 0; i < job.shape().gradient_floats; ++i) {
      ASSERT_EQ(worker->board().gradient(0)[i], b.board().gradient(0)[i]) << i;
    }
  }
  EXPECT_EQ(a.board().gradient(0)[job.shape().gradient_floats / 2], 2);
  // The new view works.
  for (PlayedWorker* worker : {&a, &b}) ASSERT_TRUE(worker->arrives(1));
  for (PlayedWorker* worker : {&a, &b}) {
    ASSERT_TRUE(worker->sees([&] { return worker->view().block->all_arrived(1); }));
  }
}

// The founder opens the first view on the board that it shares with its node's gateway. The gateway
// must not begin the view by itself: only the founder's message makes it open streams to the
// others.
TEST(Coordinators, AGatewayThatSharesTheFoundersBoardBeginsByMessage) {
  const PlayedJob job({{"b", 1}});
  job.want({{"b", 1}}, 2);
  PlayedWorker founder(job, 1, "a");
  ASSERT_TRUE(founder.hears(Event::kFound));
  founder.port().filled();
  PlayedWorker gateway(job, 0, "a");
  PlayedWorker b(job, 2, "b");
  for (PlayedWorker* newcomer : {&gateway, &b}) {
    ASSERT_TRUE(newcomer->hears(Event::kObserve));
    ASSERT_TRUE(newcomer->sees([&] { return newcomer->port().sees_view(); }));
    newcomer->port().ready();
  }
  // Like a training thread that waits for its first step.
  ASSERT_TRUE(gateway.sees([&] {
    EXPECT_EQ(gateway.port().admitted_at(0), nullptr);
    return gateway.board().block(2).view == 2;
  }));
  EXPECT_EQ(gateway.port().admitted_at(0), nullptr);
  const std::vector<PlayedWorker*> all{&founder, &gateway, &b};
  for (PlayedWorker* worker : all) ASSERT_TRUE(worker->begins());
  EXPECT_EQ(gateway.view().view.ids(), (std::vector<int>{0, 1, 2}));
  for (PlayedWorker* worker : all) ASSERT_TRUE(worker->arrives(0));
  for (PlayedWorker* worker : all) {
    EXPECT_TRUE(worker->sees([&] { return worker->view().block->all_arrived(0); }));
  }
  EXPECT_EQ(job.view().number, 2);
  for (PlayedWorker* worker : all) worker->port().finish();
}

// A newcomer has ended, and its memory is gone with it, but its leader has not heard so yet and
// composes a view with it. The leader must go on to listen: only its peers can tell it why it
// cannot map the view.
TEST(Coordinators, ALeaderThatCannotMapANewcomerHearsThatItIsGone) {
  const PlayedJob job({});
  job.want({}, 2);
  PlayedWorker leader(job, 0, "a");
  ASSERT_TRUE(leader.hears(Event::kFound));
  leader.port().filled();
  auto gone = std::make_unique<PlayedWorker>(job, 1, "a");
  ASSERT_TRUE(gone->hears(Event::kObserve));
  ASSERT_TRUE(gone->sees([&] { return gone->port().sees_view(); }));
  remove_segment(worker_segment_name(job.settings().token, "a", 1));
  gone->port().ready();
  ASSERT_TRUE(leader.sees([&] { return leader.board().ready_newcomers() == 1; }));
  gone.reset();
  PlayedWorker other(job, 2, "a");
  ASSERT_TRUE(other.hears(Event::kObserve));
  ASSERT_TRUE(other.sees([&] { return other.port().sees_view(); }));
  other.port().ready();
  const std::vector<PlayedWorker*> all{&leader, &other};
  for (PlayedWorker* worker : all) ASSERT_TRUE(worker->begins());
  EXPECT_EQ(leader.view().view.ids(), (std::vector<int>{0, 2}));
  for (PlayedWorker* worker : all) worker->port().finish();
}

// A registry whose first write waits until it is released.
class HeldRegistry final : public Registry {
 public:
  explicit HeldRegistry(Registry& real) : real_(real) {}
  Result<Record> get(const std::string& name) override { return real_.get(name); }
  Result<bool> compare_and_swap(const std::string& name, std::int64_t expected,
                                const std::string& value) override {
    if (!held_.try_wait()) held_.count_down();
    let_go_.wait();
    return real_.compare_and_swap(name, expected, value);
  }
  Result<std::optional<std::string>> at(const std::string& name, std::int64_t version) override {
    return real_.at(name, version);
  }
  void wait_until_held() const { held_.wait(); }
  void let_go() { let_go_.count_down(); }

 private:
  Registry& real_;
  std::latch held_{1};
  std::latch let_go_{1};
};

// A registry on storage that shows new views late.
class LateRegistry final : public Registry {
 public:
  explicit LateRegistry(Registry& real) : real_(real) {}
  Result<Record> get(const std::string& name) override {
    Result<Record> newest = real_.get(name);
    if (name != kViewRecord || !newest.ok() || newest->version <= newest_shown_) return newest;
    return Record{newest_shown_, **real_.at(name, newest_shown_)};
  }
  Result<bool> compare_and_swap(const std::string& name, std::int64_t expected,
                                const std::string& value) override {
    return real_.compare_and_swap(name, expected, value);
  }
  Result<std::optional<std::string>> at(const std::string& name, std::int64_t version) override {
    if (name != kViewRecord || version <= newest_shown_) return real_.at(name, version);
    return std::optional<std::string>();
  }
  void show_until(std::int64_t version) { newest_shown_ = version; }

 private:
  Registry& real_;
  std::atomic<std::int64_t> newest_shown_{1'000'000};
};

// The next view is announced on b's board before b's storage shows it. What was announced is what b
// has prepared, so neither its training thread nor its gateway needs the storage to go on.
TEST(Coordinators, AViewThatTheStorageShowsLateBeginsAllTheSame) {
  const PlayedJob job({{"b", 1}});
  LateRegistry late(job.registry());
  PlayedWorker a(job, 0, "a");
  ASSERT_TRUE(a.hears(Event::kFound));
  a.port().filled();
  PlayedWorker b(job, 1, "b", -1, late);
  ASSERT_TRUE(b.hears(Event::kObserve));
  ASSERT_TRUE(b.sees([&] { return b.port().sees_view(); }));
  b.port().ready();
  const std::vector<PlayedWorker*> all{&a, &b};
  for (PlayedWorker* worker : all) ASSERT_TRUE(worker->begins());
  const std::int64_t number = a.view().view.number;
  late.show_until(number);
  ASSERT_TRUE(change_target(job.registry(), [](Target& target) {
                target.audits = 1;  // any planned change
                return ok_status();
              }).ok());
  ASSERT_TRUE(a.commits(job, 0));
  for (const PlayedWorker* worker : all) ASSERT_TRUE(worker->arrives(0));
  for (const PlayedWorker* worker : all) {
    ASSERT_TRUE(worker->sees([&] { return worker->view().block->all_arrived(0); }));
    ASSERT_TRUE(worker->reduces(0, 1));
  }
  for (const PlayedWorker* worker : all) ASSERT_TRUE(worker->finishes(0));
  ASSERT_EQ(a.goes_on(0), TrainingPort::Next::Kind::kSwitch);
  ASSERT_EQ(b.goes_on(0), TrainingPort::Next::Kind::kSwitch);
  ASSERT_EQ(b.view().view.number, number + 1);
  // The streams of the view work.
  for (const PlayedWorker* worker : all) ASSERT_TRUE(worker->arrives(1));
  for (const PlayedWorker* worker : all) {
    EXPECT_TRUE(worker->sees([&] { return worker->view().block->all_arrived(1); }));
  }
  EXPECT_EQ(job.view().number, number + 1);
  for (PlayedWorker* worker : all) worker->port().finish();
}

// A spare that is ready follows the gradients. Only those that still copy the state need copies of
// it in the members' memory, which are expensive if the state is on a device.
TEST(Coordinators, ASpareThatIsReadyNeedsNoCopies) {
  const PlayedJob job({{"b", 1}});
  PlayedWorker a(job, 0, "a");
  ASSERT_TRUE(a.hears(Event::kFound));
  a.port().filled();
  PlayedWorker b(job, 1, "b");
  ASSERT_TRUE(b.hears(Event::kObserve));
  ASSERT_TRUE(b.sees([&] { return b.port().sees_view(); }));
  b.port().ready();
  ASSERT_TRUE(a.begins() && b.begins());
  const PlayedWorker spare(job, 2, "c");
  ASSERT_TRUE(spare.hears(Event::kObserve));
  const auto are = [&](int watchers, int copiers) {
    return a.sees([&, watchers, copiers] {
      return a.board().watchers() == watchers && a.board().copiers() == copiers;
    });
  };
  EXPECT_TRUE(are(1, 1));
  spare.port().ready();
  EXPECT_TRUE(are(1, 0));
  EXPECT_EQ(a.board().ready_newcomers(), 1);
  spare.port().ready(false);  // it could not keep up
  EXPECT_TRUE(are(1, 1));
  EXPECT_EQ(a.board().ready_newcomers(), 0);
  // The other node's workers hear the same.
  ASSERT_TRUE(a.arrives(0));
  EXPECT_TRUE(b.sees([&] { return b.board().watchers() == 1 && b.board().copiers() == 1; }));
  a.port().finish();
  b.port().finish();
}

// A worker of node b tries to found the job, but another node is faster. Meanwhile a second worker
// of node b has arrived. The two must still share a board.
TEST(Coordinators, WhoDoesNotFoundSharesItsNodesBoard) {
  const PlayedJob job({{"b", 2}});
  HeldRegistry held(job.registry());
  const PlayedWorker late(job, 1, "b", 1, held);
  held.wait_until_held();
  const PlayedWorker a(job, 0, "a");
  EXPECT_TRUE(a.hears(Event::kFound));
  const PlayedWorker other(job, 2, "b", 1);
  EXPECT_TRUE(other.hears(Event::kObserve));
  held.let_go();
  ASSERT_TRUE(late.hears(Event::kObserve));
  other.board().block(9).members = 3;
  EXPECT_EQ(late.board().block(9).members, 3);
}

// Two workers of node b leave as planned. The message of the second that it has completed its last
// step reaches node a before its share of the step, which waits for the gateway's. This is not a
// loss.
TEST(Coordinators, WhoLeavesInOrderIsNotLostBeforeItsLastStepHasCome) {
  const PlayedJob job({{"b", 2}});
  PlayedWorker a(job, 0, "a");
  ASSERT_TRUE(a.hears(Event::kFound));
  a.port().filled();
  PlayedWorker gateway(job, 1, "b", 1);
  auto second = std::make_unique<PlayedWorker>(job, 2, "b", 1);
  for (const PlayedWorker* newcomer : {&gateway, second.get()}) {
    ASSERT_TRUE(newcomer->hears(Event::kObserve));
    ASSERT_TRUE(newcomer->sees([&] { return newcomer->port().sees_view(); }));
    newcomer->port().ready();
  }
  const std::vector<PlayedWorker*> all{&a, &gateway, second.get()};
  for (PlayedWorker* worker : all) ASSERT_TRUE(worker->begins());
  ASSERT_EQ(a.view().view.ids(), (std::vector<int>{0, 1, 2}));
  job.want({});
  ASSERT_TRUE(a.commits(job, 0));
  const std::int64_t number = job.view().number;
  for (const PlayedWorker* worker : all) ASSERT_TRUE(worker->arrives(0));
  for (const PlayedWorker* worker : all) {
    ASSERT_TRUE(worker->sees([&] { return worker->view().block->all_arrived(0); }));
  }
  ASSERT_TRUE(a.reduces(0, 1) && second->reduces(0, 3));
  const int port = second->view().view.find(2)->address.port;
  second->coordinator().depart();
  second.reset();
  const auto connected = [&] {
    const std::vector<SocketOf> sockets = sockets_of(getpid());
    return std::any_of(sockets.begin(), sockets.end(),
                       [&](const SocketOf& s) { return s.peer_port == port; });
  };
  ASSERT_TRUE(a.sees([&] { return !connected(); }));  // both have received its message
  ASSERT_TRUE(gateway.reduces(0, 2));
  EXPECT_TRUE(a.sees([&] { return a.view().block->all_reduced(0); }));
  EXPECT_EQ(job.view().number, number);
  a.port().finish();
  gateway.port().finish();
}

// Workers of a node share a board. A newcomer that waits on a board other than that of members who
// joined meanwhile can never join.
TEST(Coordinators, ANewcomerOnABoardThatItsNodeDoesNotUseGoes) {
  const PlayedJob job({{"b", 1}});
  PlayedWorker a(job, 0, "a");
  ASSERT_TRUE(a.hears(Event::kFound));
  a.port().filled();
  const PlayedWorker early(job, 1, "b", 1);
  ASSERT_TRUE(early.hears(Event::kObserve));
  PlayedWorker late(job, 2, "b", 2);  // its launcher has seen the node leave the view
  ASSERT_TRUE(late.hears(Event::kObserve));
  ASSERT_TRUE(late.sees([&] { return late.port().sees_view(); }));
  late.port().ready();
  ASSERT_TRUE(a.begins());
  ASSERT_TRUE(late.begins());
  EXPECT_EQ(a.view().view.ids(), (std::vector<int>{0, 2}));
  EXPECT_TRUE(early.hears(Event::kLeave));
  EXPECT_FALSE(early.port().was_refused());  // another worker may take its place
}

// The leader's node is lost right after it alone has completed the step before a view with a worker
// of a new node, c. Node c knows the step from its feed, so the job continues after it, and node b
// gets it from c. This does not hold if the feed has skipped the gradient, which b needs. Newcomers
// of node d know the view that never began elsewhere, and still find their way to the next one.
void lose_leader_after_its_last_step(bool gradient_on_c) {
  const PlayedJob job({{"b", 1}});
  auto a = std::make_unique<PlayedWorker>(job, 0, "a");
  ASSERT_TRUE(a->hears(Event::kFound));
  a->port().filled();
  PlayedWorker b(job, 1, "b");
  const auto follow = [](const PlayedWorker& newcomer) {
    return newcomer.hears(Event::kObserve) &&
           newcomer.sees([&] { return newcomer.port().sees_view(); });
  };
  ASSERT_TRUE(follow(b));
  b.port().ready();
  ASSERT_TRUE(a->begins() && b.begins());
  PlayedWorker c(job, 2, "c", 2);
  const PlayedWorker d(job, 3, "d", 3);
  ASSERT_TRUE(follow(c) && follow(d));
  cut_connections_to(b.view().view.find(1)->address.port);  // newcomers fed by b are now fed by a
  job.want({{"b", 1}, {"c", 1}});
  c.port().ready();
  ASSERT_TRUE(a->commits(job, 0));
  const std::int64_t number = job.view().number;
  ASSERT_EQ(job.view().ids(), (std::vector<int>{0, 1, 2}));

  ASSERT_TRUE(a->arrives(0) && b.arrives(0));
  ASSERT_TRUE(a->sees([&] { return a->view().block->all_arrived(0); }));
  std::fill_n(a->board().gradient(0), job.shape().gradient_floats, 5.0F);
  a->view().block->rows[1].reduced = 0;  // as if b's part had arrived, and a's were on its way to b
  ASSERT_TRUE(a->reduces(0, 5) && a->finishes(0));
  for (const PlayedWorker* fed : {&std::as_const(c), &d}) {
    ASSERT_TRUE(fed->sees([&] { return fed->board().block(number - 1).next_view == number; }));
    ASSERT_EQ(fed->board().gradient_step(0), 0);
  }
  if (!gradient_on_c) c.board().gradient_step(0) = -2;
  a.reset();

  ASSERT_TRUE(b.begins() && c.begins());
  EXPECT_EQ(b.view().view.number, number + 1);
  EXPECT_EQ(b.view().view.ids(), (std::vector<int>{1, 2}));
  EXPECT_EQ(b.view().view.first_step, gradient_on_c ? 1 : 0);
  if (gradient_on_c) {
    for (std::size_t i = 0; i < job.shape().gradient_floats; ++i) {
      ASSERT_EQ(b.board().gradient(0)[i], 5) << i;
    }
  }
  EXPECT_TRUE(d.sees([&] { return d.board().block(number + 1).view == number + 1; }));
}

TEST(Coordinators, AStepThatOnlyANewcomersNodeHasIsTakenFromThere) {
  lose_leader_after_its_last_step(true);
}

TEST(Coordinators, AStepWhoseGradientIsLostIsRepeated) { lose_leader_after_its_last_step(false); }

// The training thread fills in the private states. A newcomer of another node that asks before that
// must ask again: it would keep what it got until the first step is done.
TEST(Feeds, BeginWhenTheFounderHasFilledItsBoard) {
  const PlayedJob job({{"b", 1}});
  const PlayedWorker a(job, 0, "a");
  ASSERT_TRUE(a.hears(Event::kFound));
  const std::atomic<bool> never{false};
  const auto dial = [&](const std::string& name) {
    return Stream::dial(job.view().find(0)->address,
                        {std::string(kSecretBytes, 's'), job.settings().name, name},
                        {{"stream", kFeedPurpose}}, never);
  };
  EXPECT_FALSE(dial("1000").ok());
  const PlayedWorker b(job, 1, "b");
  ASSERT_TRUE(b.hears(Event::kObserve));
  for (int logical = 0; logical < job.settings().logical_workers; ++logical) {
    std::ranges::fill(a.board().private_state(logical, 0), std::byte{7});
  }
  a.port().filled();
  ASSERT_TRUE(b.sees([&] { return b.port().sees_view(); }));
  for (int logical = 0; logical < job.settings().logical_workers; ++logical) {
    for (const std::byte byte : b.board().private_state(logical, 0)) ASSERT_EQ(byte, std::byte{7});
  }
  EXPECT_TRUE(dial("1001").ok());
}

// A feeder hears of a view that was started by message after the node's gateway has begun it on the
// board. The feed ends, and what the members have published stays.
TEST(Feeds, LeaveAViewAloneThatTheGatewayHasBegun) {
  const PlayedJob job({{"b", 1}});  // the founder waits for that one
  PlayedWorker a(job, 0, "a");
  ASSERT_TRUE(a.hears(Event::kFound));
  a.port().filled();
  Result<Board> board = Board::create(board_name(job.settings().token, "b", 1), a.board().shape());
  ASSERT_TRUE(board.ok());
  std::atomic<bool> asked{false};
  FeedClient feed(*board, {.identity = {std::string(kSecretBytes, 's'), job.settings().name, "1"},
                           .view = 0,
                           .successor = [&](std::int64_t view) {
                             if (view < 2) return FeedClient::Options::Successor::kNobody;
                             asked = true;
                             return FeedClient::Options::Successor::kGateway;
                           }});
  const auto until = [&](const std::function<bool()>& condition) {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    return board->wait(condition, [&] { return std::chrono::steady_clock::now() > end; });
  };
  feed.set_donor(job.view().find(0)->address);
  ASSERT_TRUE(until([&] { return board->block(1).view == 1; }));
  board->start_block(2, 3, 0);
  board->block(2).rows[2].arrived = 0;
  job.want({});  // view 2 begins
  ASSERT_TRUE(until([&] { return feed.ended(); }));
  EXPECT_TRUE(asked);
  EXPECT_EQ(board->block(2).members, 3);
  EXPECT_EQ(board->block(2).rows[2].arrived, 0);
  EXPECT_EQ(board->block(1).next_view, 0);
}

// Of two newcomers of a node, the one that feeds their board leaves when the other is already in
// the next view. The other takes over and sees the view begin.
TEST(Coordinators, AMemberOfTheNextViewFeedsItsBoardWhenTheFeederIsGone) {
  const PlayedJob job({});
  PlayedWorker a(job, 0, "a");
  ASSERT_TRUE(a.hears(Event::kFound));
  a.port().filled();
  ASSERT_TRUE(a.begins());
  auto feeder = std::make_unique<PlayedWorker>(job, 1, "b", 1);
  ASSERT_TRUE(feeder->hears(Event::kObserve));
  ASSERT_TRUE(feeder->sees([&] { return feeder->port().sees_view(); }));
  PlayedWorker next(job, 2, "b", 1);
  ASSERT_TRUE(next.hears(Event::kObserve));
  job.want({{"b", 1}});
  next.port().ready();
  ASSERT_TRUE(a.commits(job, 0));
  ASSERT_EQ(job.view().ids(), (std::vector<int>{0, 2}));
  feeder.reset();
  ASSERT_TRUE(a.arrives(0) && a.reduces(0, 7) && a.finishes(0));
  EXPECT_TRUE(next.sees([&] { return next.port().admitted_at(1) != nullptr; }));
  EXPECT_EQ(next.board().gradient(0)[0], 7);
}

}  // namespace
}  // namespace rubato::elastic
