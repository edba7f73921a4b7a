// Bridges between the boards of nodes: their frames, which node sends what, and two real bridges
// over TCP.
#include "elastic/transport/bridge.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <bit>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "base/random.h"
#include "elastic/bridge_host.h"
#include "elastic/data/exchange.h"

namespace rubato::elastic {
namespace {

// --- Frames --------------------------------------------------------------------------------------

BridgeHeader example() {
  return {.type = BridgeFrame::kArrived,
          .member = 3,
          .view = 7,
          .step = 41,
          .next = {.view = 8,
                   .first_step = 42,
                   .proposal = {.view = 8, .leader = 3, .attempt = 5},
                   .prepare_us = 1234},
          .next_members = 5,
          .watchers = 2,
          .copiers = 1,
          .compute_us = 1234,
          .stall_us = -1,
          .step_us = 99,
          .flag = 1,
          .payload_bytes = 4096};
}

TEST(BridgeFrames, AreReadAsWritten) {
  EXPECT_EQ(decode_bridge_header(encode(example())), example());
  EXPECT_EQ(decode_bridge_header(encode(BridgeHeader{})), BridgeHeader{});
}

TEST(BridgeFrames, OfAnyOtherFormAreRefused) {
  constexpr std::uint64_t kSeed = 5;
  SCOPED_TRACE(kSeed);
  Random random(kSeed);
  for (int i = 0; i < 20000; ++i) {
    BridgeHeaderBytes bytes = encode(example());
    const bool noise = random.chance(0.3);
    const int changes = random.between(1, 8);
    for (int k = 0; k < changes; ++k) {
      bytes[random.below(kBridgeHeaderBytes)] = static_cast<std::byte>(random.below(256));
    }
    if (noise) {
      for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.below(256));
    }
    const std::optional<BridgeHeader> header = decode_bridge_header(bytes);
    EXPECT_FALSE(noise && header);
    if (!header) continue;
    EXPECT_EQ(decode_bridge_header(encode(*header)), header);  // nothing is lost or made up
    EXPECT_GE(header->member, 0);
    EXPECT_LE(header->next_members, kMaxWorkers);
    EXPECT_GE(header->step, -1);
  }
}

TEST(BridgeFrames, OfNumbersOutOfTheirRangeAreRefused) {
  using Limits = std::numeric_limits<std::int64_t>;
  for (const auto field : {&BridgeHeader::view, &BridgeHeader::step, &BridgeHeader::compute_us,
                           &BridgeHeader::stall_us, &BridgeHeader::step_us}) {
    for (const std::int64_t number : {Limits::max(), Limits::min(), std::int64_t{-2}}) {
      BridgeHeader header = example();
      header.*field = number;
      EXPECT_EQ(decode_bridge_header(encode(header)), std::nullopt) << number;
    }
  }
  for (const auto field :
       {&Announcement::view, &Announcement::first_step, &Announcement::prepare_us}) {
    BridgeHeader header = example();
    header.next.*field = Limits::max();
    EXPECT_EQ(decode_bridge_header(encode(header)), std::nullopt);
  }
}

TEST(BridgeFrames, AreTakenInOrderAndInTheExpectedSizeOnly) {
  const BridgeExpectation waiting{
      .view = 7, .arrived = 40, .reduced = 40, .arrived_bytes = 4096, .reduced_bytes = 64};
  BridgeExpectation computed = waiting;
  computed.arrived = 41;
  const BridgeHeader arrived = example();
  BridgeHeader reduced{.type = BridgeFrame::kReduced, .view = 7, .step = 41, .payload_bytes = 64};
  EXPECT_STREQ(problem_of(arrived, waiting), "");
  EXPECT_STREQ(problem_of(reduced, computed), "");
  EXPECT_STRNE(problem_of(arrived, computed), "");  // twice
  EXPECT_STRNE(problem_of(reduced, waiting), "");   // before its partial sums
  const auto wrong = [&](auto&& change) {
    BridgeHeader header = arrived;
    change(header);
    return *problem_of(header, waiting) != '\0';
  };
  EXPECT_TRUE(wrong([](BridgeHeader& h) { h.view = 6; }));
  EXPECT_TRUE(wrong([](BridgeHeader& h) { h.step = 42; }));
  EXPECT_TRUE(wrong([](BridgeHeader& h) { h.step = 40; }));
  EXPECT_TRUE(wrong([](BridgeHeader& h) { h.payload_bytes = 4095; }));
  EXPECT_TRUE(wrong([](BridgeHeader& h) { h.next.view = 9; }));
  EXPECT_TRUE(wrong([](BridgeHeader& h) { h.next.first_step = 43; }));
  EXPECT_TRUE(wrong([](BridgeHeader& h) { h.type = BridgeFrame::kStep; }));
}

// --- Layout --------------------------------------------------------------------------------------

TEST(BridgeLayoutTest, DividesTheWorkOfAViewByNode) {
  View view{.number = 1, .leader = 2};
  view.members = {{{.id = 2, .node = "a"}, {0, 1}},
                  {{.id = 5, .node = "a"}, {1, 4}},
                  {{.id = 3, .node = "b"}, {4, 8}}};
  const BoardShape shape{.logical_workers = 8, .gradient_floats = 300};
  const BridgeLayout layout(view, shape, 128);
  ASSERT_EQ(layout.nodes().size(), 2u);
  const NodeShare& a = *layout.find("a");
  const NodeShare& b = *layout.find("b");
  EXPECT_EQ(layout.find("c"), nullptr);
  EXPECT_EQ(a.gateway, 2);
  EXPECT_EQ(b.gateway, 3);
  ASSERT_EQ(a.slices.size(), 1u);  // the slices of its two members are adjacent
  EXPECT_EQ(a.slices[0].end, b.slices[0].begin);
  EXPECT_EQ(b.slices[0].end, 300u);
  const std::size_t b_bytes = (b.slices[0].end - b.slices[0].begin) * sizeof(float);
  // Its members export [0,1), [1,2) and [2,4), which make up one sum once the second one is there.
  EXPECT_EQ(layout.arrived_bytes(0, b), 128);
  EXPECT_EQ(layout.arrived_bytes(1, b), 3 * 128 + b_bytes);
  EXPECT_EQ(layout.reduced_bytes(2), b_bytes);
  EXPECT_EQ(gateway_of(view, "b"), 3);
  EXPECT_EQ(gateway_of(view, "c"), -1);
  EXPECT_TRUE(several_nodes(view));
  View other = view;
  other.first_step = 12;
  EXPECT_EQ(membership_of(view), membership_of(other));
  other.members[2].address.node = "c";
  EXPECT_NE(membership_of(view), membership_of(other));
}

// --- Two nodes in one process --------------------------------------------------------------------

constexpr int kLogical = 4;
constexpr std::size_t kFloats = 5000;
constexpr float kScale = 0.25F;

class PlainGuard final : public ExchangeGuard {
 public:
  explicit PlainGuard(const Board& board) : board_(board) {}
  bool interrupted() const override { return interrupted_; }
  bool publish(const std::function<void()>& write) override {
    if (interrupted_) return false;
    write();
    board_.pulse();
    return true;
  }
  void interrupt() {
    interrupted_ = true;
    board_.pulse();
  }

 private:
  const Board& board_;
  std::atomic<bool> interrupted_{false};
};

struct Node {
  std::unique_ptr<BridgeHost> host;
  std::optional<Board> board;
  std::shared_ptr<const WorkerSegment> own;
  std::shared_ptr<const ActiveView> view;
};

class BridgeTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string prefix = fmt::format("rubato-bridge-test-{}", getpid());
    const ProgramShape shape{.gradient_floats = kFloats, .unit_bytes = {}};
    View view{.number = 1, .leader = 0};
    for (int i = 0; i < 2; ++i) {
      Node& node = nodes_[static_cast<std::size_t>(i)];
      node.host = std::make_unique<BridgeHost>(i, fmt::format("n{}", i), "job");
      const std::string name = fmt::format("{}-{}", prefix, i);
      Result<Board> board = Board::create(
          name, {.logical_workers = kLogical, .gradient_floats = kFloats, .private_bytes = 100});
      ASSERT_TRUE(board.ok()) << board.error().message;
      remove_segment(name);
      node.board.emplace(std::move(*board));
      node.board->start_block(1, 2, 0);
      Result<WorkerSegment> own = WorkerSegment::create(name + "-own", shape, kLogical);
      ASSERT_TRUE(own.ok()) << own.error().message;
      remove_segment(name + "-own");
      node.own = std::make_shared<WorkerSegment>(std::move(*own));
      // Node 0 hosts [0, 1); node 1 hosts [1, 4), which is two nodes of the tree.
      view.members.push_back({.address = node.host->address(),
                              .hosts = i == 0 ? LogicalRange{0, 1} : LogicalRange{1, kLogical}});
    }
    for (int i = 0; i < 2; ++i) {
      Node& node = nodes_[static_cast<std::size_t>(i)];
      const std::string name = fmt::format("{}-{}-mirror", prefix, i);
      Result<WorkerSegment> mirror = WorkerSegment::mirror(name, shape, kLogical);
      ASSERT_TRUE(mirror.ok()) << mirror.error().message;
      remove_segment(name);
      const SegmentMap segments{{i, node.own},
                                {1 - i, std::make_shared<WorkerSegment>(std::move(*mirror))}};
      Result<std::shared_ptr<const ActiveView>> active =
          make_active_view(view, i, *node.board, segments);
      ASSERT_TRUE(active.ok()) << active.error().message;
      node.view = *active;
    }
  }
  void TearDown() override {
    for (Node& node : nodes_) {
      if (node.host) node.host->close();
    }
  }

  static float value(int logical, std::size_t index, std::int64_t step) {
    return 1.0F / static_cast<float>(3 + logical) + static_cast<float>(index) * 0.37F +
           static_cast<float>(step);
  }
  // As in Training: gradients go into buffers, slots onto the board.
  static void compute(Node& node, std::int64_t step) {
    for (const HostStep& host : node.view->host.steps) {
      float* const buffer = node.own->buffer(host.buffer);
      for (std::size_t i = 0; i < kFloats; ++i) {
        const float v = value(host.logical, i, step);
        buffer[i] = host.accumulate ? buffer[i] + v : v;
      }
      for (const HostStep::Merge& merge : host.merges) {
        add_into(node.own->buffer(merge.into), node.own->buffer(merge.from), kFloats);
      }
      SlotHeader& slot = node.board->slot(host.logical, step + 1);
      slot = {.loss = static_cast<double>(step * 10 + host.logical), .samples = 1};
      for (std::byte& byte : node.board->private_state(host.logical, step + 1)) {
        byte = static_cast<std::byte>(step + host.logical);
      }
    }
  }
  static void expect_step(const Node& node, std::int64_t step) {
    const float* const gradient = node.board->gradient(step);
    for (std::size_t i = 0; i < kFloats; i += 7) {
      const float expected = kScale * ((value(0, i, step) + value(1, i, step)) +
                                       (value(2, i, step) + value(3, i, step)));
      ASSERT_EQ(std::bit_cast<std::uint32_t>(gradient[i]), std::bit_cast<std::uint32_t>(expected));
    }
    for (int logical = 0; logical < kLogical; ++logical) {
      EXPECT_EQ(node.board->slot(logical, step + 1).loss, static_cast<double>(step * 10 + logical));
      EXPECT_EQ(node.board->private_state(logical, step + 1)[99],
                static_cast<std::byte>(step + logical));
    }
  }
  static bool wait(const std::function<bool()>& condition) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(120);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::yield();
    }
    return true;
  }

  std::array<Node, 2> nodes_;
};

TEST_F(BridgeTest, MakesBothBoardsSayTheSame) {
  constexpr std::int64_t kSteps = 50;
  std::vector<std::thread> threads;
  for (Node& node : nodes_) {
    threads.emplace_back([&node] {
      node.host->open(node.view, *node.board, 0);
      PlainGuard guard(*node.board);
      for (std::int64_t step = 0; step < kSteps; ++step) {
        compute(node, step);
        node.view->row().note_compute(step, 1000 + step);
        ASSERT_TRUE(exchange(*node.board, *node.view, step, kScale, guard));
        expect_step(node, step);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(nodes_[i].view->block->rows[1 - i].compute_us(kSteps - 1), 1000 + kSteps - 1);
  }
  for (Node& node : nodes_) node.host->bridge().close();
  for (Node& node : nodes_) {
    EXPECT_TRUE(wait([&] { return node.host->bridge().finished(); }));
    EXPECT_EQ(node.host->bridge().problem(), "");
  }
}

TEST_F(BridgeTest, AnnouncesTheNextViewBeforeTheLeaderArrives) {
  for (Node& node : nodes_) node.host->open(node.view, *node.board, 0);
  compute(nodes_[0], 0);
  ViewBlock& block = *nodes_[0].view->block;
  nodes_[0].board->start_block(2, 3, 1);
  const Announcement next{
      .view = 2, .first_step = 1, .proposal = {.view = 2, .leader = 7, .attempt = 3}};
  block.announce(next);
  nodes_[0].view->row().arrived = 0;
  nodes_[0].board->pulse();
  const ViewBlock& remote = *nodes_[1].view->block;
  ASSERT_TRUE(wait([&] { return remote.rows[0].arrived == 0; }));
  EXPECT_EQ(remote.announcement(), next);
  EXPECT_EQ(nodes_[1].board->block(2).view, 2);
  EXPECT_EQ(nodes_[1].board->block(2).members, 3);
}

// The leader's ledger would read beyond the slot.
TEST_F(BridgeTest, RefusesASlotWithMoreSamplesThanThereCanBe) {
  for (Node& node : nodes_) node.host->open(node.view, *node.board, 0);
  compute(nodes_[0], 0);
  nodes_[0].board->slot(0, 1).samples = 1'000'000;
  nodes_[0].view->row().arrived = 0;
  nodes_[0].board->pulse();
  EXPECT_TRUE(wait([&] { return !nodes_[1].host->bridge().problem().empty(); }));
  EXPECT_EQ(nodes_[1].view->block->rows[0].arrived, -1);
}

// The slots that step 0 reads must be intact until step 0 is complete here.
TEST_F(BridgeTest, TakesAStepOnlyWhenTheOneBeforeIsComplete) {
  for (Node& node : nodes_) node.host->open(node.view, *node.board, 0);
  Node& fast = nodes_[0];
  Node& slow = nodes_[1];
  compute(fast, 0);
  compute(slow, 0);
  std::thread other([&] {
    PlainGuard guard(*slow.board);
    MemberRow& row = slow.view->row();
    row.arrived = 0;
    slow.board->pulse();
    ASSERT_TRUE(wait([&] { return slow.view->block->all_arrived(0); }));
    slow.view->sum.run(slow.view->inputs, kScale, slow.board->gradient(0), slow.view->slice.begin,
                       slow.view->slice.end);
  });
  PlainGuard guard(*fast.board);
  fast.view->row().arrived = 0;
  fast.board->pulse();
  other.join();
  ASSERT_TRUE(wait([&] { return fast.view->block->all_arrived(0); }));
  // The fast node continues as if it had all slices, while the slow one lacks its own. That slice
  // is not marked as received here: the frame that brings it would be refused as the second one.
  fast.view->row().reduced = 0;
  compute(fast, 1);
  fast.view->row().arrived = 1;
  fast.board->pulse();
  const MemberRow& seen = slow.view->block->rows[0];
  ASSERT_TRUE(wait([&] { return seen.reduced == 0; }));
  EXPECT_EQ(seen.arrived, 0);
  EXPECT_EQ(slow.board->slot(0, 2).loss, 0.0);
  slow.view->row().reduced = 0;
  slow.board->pulse();
  ASSERT_TRUE(wait([&] { return seen.arrived == 1; }));
  EXPECT_EQ(slow.board->slot(0, 2).loss, 10.0);
}

TEST_F(BridgeTest, ABrokenConnectionIsReported) {
  for (Node& node : nodes_) node.host->open(node.view, *node.board, 0);
  ASSERT_TRUE(wait([&] { return nodes_[0].host->bridge().connected(); }));
  nodes_[1].host->close();
  EXPECT_TRUE(wait([&] { return !nodes_[0].host->bridge().problem().empty(); }));
}

// A holder of the secret that sends garbage is cut off; none of it reaches a row.
TEST_F(BridgeTest, GarbageClosesTheConnection) {
  constexpr std::uint64_t kSeed = 9;
  SCOPED_TRACE(kSeed);
  Random random(kSeed);
  const std::atomic<bool> never{false};
  for (int round = 0; round < 30; ++round) {
    nodes_[0].host->open(nodes_[0].view, *nodes_[0].board, 0);
    Result<Stream> stream = Stream();  // a dial may time out on a busy machine
    ASSERT_TRUE(wait([&] {
      stream = Stream::dial(nodes_[0].host->address(), nodes_[1].host->identity(),
                            Bridge::purpose(nodes_[0].view->view, "n0"), never);
      return stream.ok();
    })) << stream.error().message;
    BridgeHeader header{.type = BridgeFrame::kArrived, .member = 1, .view = 1, .step = 0};
    switch (round % 5) {
      case 0:  // noise
        break;
      case 1:
        header.payload_bytes = std::uint64_t{1} << 62;
        break;
      case 2:
        header.member = 0;  // of the receiver's own node
        break;
      case 3:
        header.type = BridgeFrame::kRestore;
        break;
      default:
        header.view = 2;
    }
    BridgeHeaderBytes bytes = encode(header);
    if (round % 5 == 0) {
      for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.below(256));
    }
    ASSERT_TRUE(stream->send(bytes));
    std::array<std::byte, 1> answer;
    EXPECT_FALSE(stream->receive(answer));  // closed
    EXPECT_TRUE(wait([&] { return !nodes_[0].host->bridge().problem().empty(); }));
    EXPECT_EQ(nodes_[0].view->block->rows[1].arrived, -1);
    EXPECT_EQ(nodes_[0].view->block->rows[1].reduced, -1);
  }
}

TEST_F(BridgeTest, StreamsThatAreNotExpectedAreNotTaken) {
  nodes_[0].host->open(nodes_[0].view, *nodes_[0].board, 0);
  const std::atomic<bool> never{false};
  const WorkerAddress& to = nodes_[0].host->address();
  View other = nodes_[0].view->view;
  other.number = 2;
  EXPECT_FALSE(
      Stream::dial(to, nodes_[1].host->identity(), Bridge::purpose(other, "n0"), never).ok());
  EXPECT_FALSE(Stream::dial(to, nodes_[1].host->identity(), nlohmann::json::array(), never).ok());
  Handshake::Identity stranger = nodes_[1].host->identity();
  stranger.secret = std::string(kSecretBytes, 'x');
  const nlohmann::json right = Bridge::purpose(nodes_[0].view->view, "n0");
  EXPECT_FALSE(Stream::dial(to, stranger, right, never).ok());
  stranger = nodes_[1].host->identity();
  stranger.worker = "7";  // holds the secret, but is not a gateway of the view
  EXPECT_FALSE(Stream::dial(to, stranger, right, never).ok());
}

// --- Several members per node --------------------------------------------------------------------

// Nodes with several members, which may be unaligned to the tree or not next to each other. Every
// member is a thread with its own view of its node's board; the lowest member of a node has the
// bridge.
class Crew {
 public:
  // The node of each member and the number of logical workers that it hosts.
  using Plan = std::vector<std::pair<std::string, int>>;

  Crew(const Plan& plan, std::size_t floats) : floats_(floats) {
    for (const auto& [node, size] : plan) logical_ += size;
    std::map<std::string, std::size_t> gateways;
    for (std::size_t i = 0; i < plan.size(); ++i) {
      Worker& worker = workers_.emplace_back();
      worker.node = plan[i].first;
      const int begin = i == 0 ? 0 : view_.members.back().hosts.end;
      worker.gateway = gateways.try_emplace(worker.node, i).first->second;
      WorkerAddress address{.id = static_cast<int>(i), .node = worker.node};
      if (worker.gateway == i) {
        worker.host = std::make_unique<BridgeHost>(address.id, worker.node, "job");
        address = worker.host->address();
        worker.board.emplace(take(Board::create(
            name("board", i), {.logical_workers = logical_, .gradient_floats = floats})));
        remove_segment(name("board", i));
        worker.board->start_block(1, static_cast<int>(plan.size()), 0);
      }
      worker.own = std::make_shared<WorkerSegment>(
          take(WorkerSegment::create(name("own", i), shape(), logical_)));
      remove_segment(name("own", i));
      view_.members.push_back({address, {begin, begin + plan[i].second}});
    }
    view_.number = 1;
    view_.leader = 0;
    for (std::size_t i = 0; i < plan.size(); ++i) map(i);
  }
  ~Crew() {
    for (Worker& worker : workers_) {
      if (worker.host) worker.host->close();
    }
  }

  int logical() const { return logical_; }
  static float value(int logical, std::size_t index, std::int64_t step) {
    return 1.0F / static_cast<float>(3 + logical + static_cast<int>(step)) +
           static_cast<float>(index) * 0.37F;
  }
  float expected(LogicalRange range, std::size_t index, std::int64_t step) const {
    if (range.size() == 1) return value(range.begin, index, step);
    int left = 1;
    while (2 * left < range.size()) left *= 2;
    const int middle = range.begin + left;
    return expected({range.begin, middle}, index, step) +
           expected({middle, range.end}, index, step);
  }

  // All members train; returns how many times a gradient had other bits.
  int train(std::int64_t steps) {
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      if (workers_[i].host) workers_[i].host->open(workers_[i].view, board(i), 0);
    }
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      threads.emplace_back([&, i] {
        PlainGuard guard(board(i));
        for (std::int64_t step = 0; step < steps; ++step) {
          compute(i, step);
          if (!exchange(board(i), *workers_[i].view, step, kScale, guard)) ++wrong;
          for (std::size_t at = 0; at < floats_; at += 61) {
            const float right = kScale * expected({0, logical_}, at, step);
            if (std::bit_cast<std::uint32_t>(board(i).gradient(step)[at]) !=
                std::bit_cast<std::uint32_t>(right)) {
              ++wrong;
            }
          }
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    return wrong;
  }

 private:
  struct Worker {
    std::string node;
    std::size_t gateway = 0;
    std::unique_ptr<BridgeHost> host;
    std::optional<Board> board;
    std::shared_ptr<const WorkerSegment> own;
    std::shared_ptr<const ActiveView> view;
    SegmentMap segments;
  };
  template <typename T>
  static T take(Result<T> result) {
    RUBATO_CHECK(result.ok(), result.error().message.c_str());
    return std::move(*result);
  }
  static std::string name(const char* what, std::size_t number) {
    return fmt::format("rubato-crew-{}-{}{}", getpid(), what, number);
  }
  ProgramShape shape() const { return {.gradient_floats = floats_, .unit_bytes = {}}; }
  const Board& board(std::size_t worker) const { return *workers_[workers_[worker].gateway].board; }
  // Members of a node share the mirrors of the others, so the gateway's are everybody's.
  void map(std::size_t i) {
    Worker& worker = workers_[i];
    for (std::size_t other = 0; other < workers_.size(); ++other) {
      auto& segment = worker.segments[static_cast<int>(other)];
      if (workers_[other].node == worker.node) {
        segment = workers_[other].own;
      } else if (worker.gateway != i) {
        segment = workers_[worker.gateway].segments.at(static_cast<int>(other));
      } else {
        segment = std::make_shared<WorkerSegment>(
            take(WorkerSegment::mirror(name("mirror", other), shape(), logical_)));
        remove_segment(name("mirror", other));
      }
    }
    worker.view = take(make_active_view(view_, static_cast<int>(i), board(i), worker.segments));
  }
  void compute(std::size_t i, std::int64_t step) {
    const Worker& worker = workers_[i];
    for (const HostStep& host : worker.view->host.steps) {
      float* const buffer = worker.own->buffer(host.buffer);
      for (std::size_t at = 0; at < floats_; ++at) {
        const float v = value(host.logical, at, step);
        buffer[at] = host.accumulate ? buffer[at] + v : v;
      }
      for (const HostStep::Merge& merge : host.merges) {
        add_into(worker.own->buffer(merge.into), worker.own->buffer(merge.from), floats_);
      }
      board(i).slot(host.logical, step + 1) = {.loss = 1.0, .samples = 0};
    }
  }

  std::size_t floats_;
  int logical_ = 0;
  View view_;
  std::vector<Worker> workers_;
};

TEST(BridgesOfSeveralMembers, GiveTheBitsOfOneNode) {
  const std::vector<Crew::Plan> plans{
      {{"a", 2}, {"a", 2}, {"b", 2}, {"b", 2}},            // one sum per node
      {{"a", 1}, {"a", 3}, {"a", 1}, {"b", 3}, {"c", 1}},  // not aligned to the tree
      {{"a", 2}, {"b", 1}, {"a", 1}, {"b", 3}, {"a", 1}},  // not next to each other
  };
  for (const Crew::Plan& plan : plans) {
    Crew crew(plan, 20'011);
    EXPECT_EQ(crew.train(12), 0) << plan.size() << " members";
  }
}

// Longer slices are sent part by part.
TEST(BridgesOfSeveralMembers, SendSlicesWhileTheyAreSummed) {
  Crew crew({{"a", 1}, {"a", 1}, {"b", 2}}, 5 * kSlicePart + 77);
  EXPECT_EQ(crew.train(3), 0);
}

}  // namespace
}  // namespace rubato::elastic
