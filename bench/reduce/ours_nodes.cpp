// The runtime's reduction between nodes: every rank is a node with its own board and a bridge to
// every other node, over TCP on the loopback interface.
#include <fmt/format.h>

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
  explicit OursBetweenNodes(const Member& member)
      : member_(member), host_(member.rank(), node(member.rank()), "bench") {}
  ~OursBetweenNodes() override { host_.close(); }

  void prepare(std::size_t floats) override;
  void refill() override;
  void run(int variant, int iterations) override;
  bool right(int variant, int iterations) const override;

 private:
  static std::string node(int rank) { return fmt::format("n{}", rank); }
  std::vector<int> exchange_ports() const;

  const Member& member_;
  BridgeHost host_;
  std::size_t floats_ = 0;
  std::int64_t view_number_ = 0;
  float sign_ = 1.0F;
  std::int64_t step_ = 0;
  std::shared_ptr<const WorkerSegment> own_;
  std::optional<Board> board_;
  std::shared_ptr<const ActiveView> view_;
};

// Exchanged through memory of the benchmark, in place of a registry.
std::vector<int> OursBetweenNodes::exchange_ports() const {
  const std::string name = member_.name() + "-ports";
  if (member_.rank() == 0) {
    const Segment made = value_of(Segment::create(name, kMaxRanks * sizeof(std::int32_t)));
  }
  member_.barrier();
  const Segment segment = value_of(Segment::open(name, Segment::Access::kReadWrite));
  auto* const ports = reinterpret_cast<std::int32_t*>(segment.data());
  ports[member_.rank()] = host_.address().port;
  member_.barrier();
  std::vector<int> all(ports, ports + member_.ranks());
  member_.barrier();
  if (member_.rank() == 0) elastic::remove_segment(name);
  return all;
}

void OursBetweenNodes::prepare(std::size_t floats) {
  host_.close();
  view_.reset();
  own_.reset();
  board_.reset();
  floats_ = floats;
  step_ = 0;
  sign_ = 1.0F;
  ++view_number_;
  const int rank = member_.rank();
  const elastic::ProgramShape shape{.gradient_floats = floats, .unit_bytes = {}};
  const std::string prefix = fmt::format("{}-{}", member_.name(), node(rank));
  own_ = std::make_shared<WorkerSegment>(
      value_of(WorkerSegment::create(prefix + "-own", shape, kLogicalWorkers)));
  elastic::remove_segment(prefix + "-own");
  board_ = value_of(Board::create(prefix + "-board",
                                  {.logical_workers = kLogicalWorkers, .gradient_floats = floats}));
  elastic::remove_segment(prefix + "-board");
  board_->start_block(view_number_, member_.ranks(), 0);
  const std::vector<int> ports = exchange_ports();
  elastic::View view{.number = view_number_, .leader = 0};
  elastic::SegmentMap segments;
  for (int other = 0; other < member_.ranks(); ++other) {
    view.members.push_back({.address = {.id = other,
                                        .node = node(other),
                                        .port = ports[static_cast<std::size_t>(other)],
                                        .segment = "own"},
                            .hosts = hosted_range(member_.ranks(), other, true)});
    const std::string mirror = fmt::format("{}-mirror{}", prefix, other);
    segments[other] = other == rank ? own_
                                    : std::make_shared<const WorkerSegment>(value_of(
                                          WorkerSegment::mirror(mirror, shape, kLogicalWorkers)));
    elastic::remove_segment(mirror);
  }
  view_ = value_of(make_active_view(view, rank, *board_, segments));
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
  host_.open(view_, *board_, 0);
  while (!host_.bridge().connected()) std::this_thread::yield();
  member_.barrier();
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
  for (int i = 0; i < iterations; ++i) exchange(*board_, *view_, step_++, kScale, guard);
}

bool OursBetweenNodes::right(int, int) const {
  const float* const result = board_->gradient(step_ - 1);
  for (std::size_t i = 0; i < floats_; i += check_stride(floats_)) {
    const float expected = sign_ * kScale * tree_sum({0, kLogicalWorkers}, i);
    if (std::bit_cast<std::uint32_t>(result[i]) != std::bit_cast<std::uint32_t>(expected)) {
      return false;
    }
  }
  return true;
}

}  // namespace

void serve_ours_between_nodes(const std::string& control, int rank) {
  const Member member(control, rank);
  OursBetweenNodes ours(member);
  serve(member, ours);
}

}  // namespace rubato::bench
