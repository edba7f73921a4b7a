// Bridges between the boards of nodes: their frames, which node sends what, and two real bridges
// over TCP.
#include "elastic/transport/bridge.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <limits>
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
  EXPECT_EQ(layout.arrived_bytes(0, b), 128 + b_bytes);
  EXPECT_EQ(layout.arrived_bytes(1, b), 3 * 128 + 2 * b_bytes);  // [1,2) and [2,4) are two sums
  EXPECT_EQ(layout.reduced_bytes(2), b_bytes);
  EXPECT_EQ(layout.restore_bytes(), 8 * 128 + 300 * sizeof(float));
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

}  // namespace
}  // namespace rubato::elastic
