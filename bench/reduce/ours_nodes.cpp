// The runtime's reduction between nodes. On every node the lowest rank is the gateway, as in a job.
#include <fmt/format.h>

#include <array>
#include <bit>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "elastic/bridge_host.h"
#include "elastic/data/exchange.h"
#include "reduce/ours.h"

namespace rubato::bench {

using elastic::ActiveView;
using elastic::Board;
using elastic::BridgeHost;
using elastic::HostStep;
using elastic::Segment;
using elastic::WorkerSegment;

namespace {

class OursBetweenNodes final : public Collective {
 public:
  OursBetweenNodes(const Member& member, NodesLayout layout)
      : member_(member), layout_(std::move(layout)) {
    if (member_.rank() == gateway(member_.rank())) {
      host_.emplace(member_.rank(), node(member_.rank()), "bench", false, layout_.host);
    }
  }
  ~OursBetweenNodes() override {
    if (host_) host_->close();
  }

  void prepare(std::size_t floats) override;
  void refill() override;
  void run(int variant, int iterations) override;
  bool right(int variant, int iterations) const override;

 private:
  // Where the gateways listen, exchanged through memory of the benchmark in place of a registry.
  struct Listener {
    std::array<char, 64> host;
    std::int32_t port;
  };
  int gateway(int rank) const { return rank - rank % layout_.members; }
  std::string node(int rank) const { return fmt::format("n{}", gateway(rank)); }
  std::string own_name(int rank) const { return fmt::format("{}-own{}", member_.name(), rank); }
  std::vector<Listener> exchange_listeners() const;
  std::shared_ptr<const WorkerSegment> segment_of(int rank, const std::string& prefix) const;
  void compute();
  float scale() const { return 1.0F / static_cast<float>(layout_.logical_workers); }

  const Member& member_;
  NodesLayout layout_;
  std::optional<BridgeHost> host_;  // of a gateway
  std::size_t floats_ = 0;
  std::int64_t view_number_ = 0;
  float sign_ = 1.0F;
  std::int64_t step_ = 0;
  std::shared_ptr<const WorkerSegment> own_;
  std::optional<Board> board_;
  std::shared_ptr<const ActiveView> view_;
};

std::vector<OursBetweenNodes::Listener> OursBetweenNodes::exchange_listeners() const {
  const std::string name = member_.name() + "-listeners";
  if (member_.rank() == 0) {
    const Segment made = value_of(Segment::create(name, kMaxRanks * sizeof(Listener)));
  }
  member_.barrier();
  const Segment segment = value_of(Segment::open(name, Segment::Access::kReadWrite));
  auto* const listeners = reinterpret_cast<Listener*>(segment.data());
  if (host_) {
    Listener& own = listeners[member_.rank()];
    layout_.host.copy(own.host.data(), own.host.size() - 1);
    own.port = host_->address().port;
  }
  member_.barrier();
  std::vector<Listener> all(listeners, listeners + member_.ranks());
  member_.barrier();
  if (member_.rank() == 0) elastic::remove_segment(name);
  return all;
}

std::shared_ptr<const WorkerSegment> OursBetweenNodes::segment_of(int rank,
                                                                  const std::string& prefix) const {
  if (rank == member_.rank()) return own_;
  const elastic::ProgramShape shape{.gradient_floats = floats_, .unit_bytes = {}};
  return std::make_shared<const WorkerSegment>(
      value_of(node(rank) == node(member_.rank())
                   ? WorkerSegment::open(own_name(rank), shape, layout_.logical_workers)
                   : WorkerSegment::mirror(fmt::format("{}-mirror{}", prefix, rank), shape,
                                           layout_.logical_workers)));
}

void OursBetweenNodes::prepare(std::size_t floats) {
  if (host_) host_->close();
  view_.reset();
  own_.reset();
  board_.reset();
  floats_ = floats;
  step_ = 0;
  sign_ = 1.0F;
  ++view_number_;
  const int rank = member_.rank();
  const std::string prefix = fmt::format("{}-{}", member_.name(), node(rank));
  own_ = std::make_shared<WorkerSegment>(value_of(WorkerSegment::create(
      own_name(rank), {.gradient_floats = floats, .unit_bytes = {}}, layout_.logical_workers)));
  if (host_) {
    const Board board =
        value_of(Board::create(prefix + "-board", {.logical_workers = layout_.logical_workers,
                                                   .gradient_floats = floats}));
    board.start_block(view_number_, member_.ranks(), 0);
  }
  const std::vector<Listener> listeners = exchange_listeners();
  board_ = value_of(Board::open(prefix + "-board"));
  elastic::View view{.number = view_number_, .leader = 0};
  elastic::SegmentMap segments;
  const int share = layout_.logical_workers / member_.ranks();
  for (int other = 0; other < member_.ranks(); ++other) {
    const Listener& listener = listeners[static_cast<std::size_t>(other)];
    view.members.push_back({.address = {.id = other,
                                        .node = node(other),
                                        .host = listener.host.data(),
                                        .port = listener.port,
                                        .segment = "own"},
                            .hosts = {other * share, (other + 1) * share}});
    segments[other] = segment_of(other, prefix);
  }
  view_ = value_of(make_active_view(view, rank, *board_, segments));
  member_.barrier();
  elastic::remove_segment(own_name(rank));
  if (host_) {
    elastic::remove_segment(prefix + "-board");
    for (int other = 0; other < member_.ranks(); ++other) {
      elastic::remove_segment(fmt::format("{}-mirror{}", prefix, other));
    }
  }
  compute();
  if (host_) {
    host_->open(view_, *board_, 0);
    while (!host_->bridge().connected()) std::this_thread::yield();
  }
  member_.barrier();
}

void OursBetweenNodes::compute() {
  for (int buffer = 0; buffer < view_->host.buffers; ++buffer) {
    RUBATO_CHECK(own_->reserve_buffer(buffer).ok(), "no shared memory for a gradient buffer");
  }
  for (const HostStep& step : view_->host.steps) {
    float* const buffer = own_->buffer(step.buffer);
    for (std::size_t i = 0; i < floats_; ++i) {
      const float value = gradient_value(step.logical, i);
      buffer[i] = step.accumulate ? buffer[i] + value : value;
    }
    for (const HostStep::Merge& merge : step.merges) {
      elastic::add_into(own_->buffer(merge.into), own_->buffer(merge.from), floats_);
    }
  }
}

void OursBetweenNodes::refill() {
  sign_ = -sign_;
  for (const elastic::HostRoot& root : view_->host.roots) {
    float* const buffer = own_->buffer(root.buffer);
    for (std::size_t i = 0; i < floats_; ++i) buffer[i] = -buffer[i];
  }
}

void OursBetweenNodes::run(int, int iterations) {
  PulsingGuard guard(*board_);
  for (int i = 0; i < iterations; ++i) exchange(*board_, *view_, step_++, scale(), guard);
}

bool OursBetweenNodes::right(int, int) const {
  const float* const result = board_->gradient(step_ - 1);
  for (std::size_t i = 0; i < floats_; i += check_stride(floats_)) {
    const float expected = sign_ * scale() * tree_sum({0, layout_.logical_workers}, i);
    if (std::bit_cast<std::uint32_t>(result[i]) != std::bit_cast<std::uint32_t>(expected)) {
      return false;
    }
  }
  return true;
}

}  // namespace

void serve_ours_between_nodes(const std::string& control, int rank, const NodesLayout& layout) {
  const Member member(control, rank);
  OursBetweenNodes ours(member, layout);
  serve(member, ours);
}

}  // namespace rubato::bench
