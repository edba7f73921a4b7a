#include "elastic/transport/bridge_frame.h"

#include "elastic/memory/board.h"

namespace rubato::elastic {

namespace {

constexpr std::uint32_t kBridgeMagic = 0x32474252;  // "RBG2"
constexpr std::int64_t kLargestNumber = std::int64_t{1} << 56;

class Writer {
 public:
  explicit Writer(BridgeHeaderBytes& out) : out_(out) {}
  template <typename T>
  void put(T value) {
    auto bits = static_cast<std::make_unsigned_t<T>>(value);
    for (std::size_t i = 0; i < sizeof(T); ++i) {
      out_[at_++] = static_cast<std::byte>(bits & 0xff);
      if constexpr (sizeof(T) > 1) bits >>= 8;
    }
  }

 private:
  BridgeHeaderBytes& out_;
  std::size_t at_ = 0;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte, kBridgeHeaderBytes> in) : in_(in) {}
  template <typename T>
  T get() {
    std::make_unsigned_t<T> bits = 0;
    for (std::size_t i = sizeof(T); i-- > 0;) {
      bits = static_cast<std::make_unsigned_t<T>>(bits << 8) |
             std::to_integer<std::make_unsigned_t<T>>(in_[at_ + i]);
    }
    at_ += sizeof(T);
    return static_cast<T>(bits);
  }

 private:
  std::span<const std::byte, kBridgeHeaderBytes> in_;
  std::size_t at_ = 0;
};

bool known(std::uint32_t type) {
  return (type >= static_cast<std::uint32_t>(BridgeFrame::kArrived) &&
          type <= static_cast<std::uint32_t>(BridgeFrame::kEnd)) ||
         (type >= static_cast<std::uint32_t>(BridgeFrame::kNext) &&
          type <= static_cast<std::uint32_t>(BridgeFrame::kUnitData));
}

}  // namespace

BridgeHeaderBytes encode(const BridgeHeader& header) {
  BridgeHeaderBytes bytes{};
  Writer out(bytes);
  out.put(kBridgeMagic);
  out.put(static_cast<std::uint32_t>(header.type));
  out.put(header.member);
  out.put(header.flag);
  out.put(header.view);
  out.put(header.step);
  out.put(header.next.view);
  out.put(header.next.first_step);
  out.put(header.next_members);
  out.put(header.watchers);
  out.put(header.compute_us);
  out.put(header.stall_us);
  out.put(header.step_us);
  out.put(header.payload_bytes);
  out.put(header.copiers);
  out.put(header.next.proposal.leader);
  out.put(header.next.proposal.attempt);
  out.put(header.next.prepare_us);
  return bytes;
}

std::optional<BridgeHeader> decode_bridge_header(
    std::span<const std::byte, kBridgeHeaderBytes> bytes) {
  Reader in(bytes);
  if (in.get<std::uint32_t>() != kBridgeMagic) return std::nullopt;
  const auto type = in.get<std::uint32_t>();
  if (!known(type)) return std::nullopt;
  BridgeHeader header;
  header.type = static_cast<BridgeFrame>(type);
  header.member = in.get<std::int32_t>();
  header.flag = in.get<std::int32_t>();
  header.view = in.get<std::int64_t>();
  header.step = in.get<std::int64_t>();
  header.next.view = in.get<std::int64_t>();
  header.next.first_step = in.get<std::int64_t>();
  header.next_members = in.get<std::int32_t>();
  header.watchers = in.get<std::int32_t>();
  header.compute_us = in.get<std::int64_t>();
  header.stall_us = in.get<std::int64_t>();
  header.step_us = in.get<std::int64_t>();
  header.payload_bytes = in.get<std::uint64_t>();
  header.copiers = in.get<std::int32_t>();
  header.next.proposal.leader = in.get<std::int32_t>();
  header.next.proposal.attempt = in.get<std::int64_t>();
  header.next.prepare_us = in.get<std::int64_t>();
  if (header.next.proposal.attempt != 0) header.next.proposal.view = header.next.view;
  for (const std::int64_t number :
       {header.view, header.next.view, header.next.first_step, header.next.proposal.attempt,
        header.next.prepare_us, header.compute_us, header.step_us}) {
    if (number < 0 || number > kLargestNumber) return std::nullopt;
  }
  for (const std::int64_t number : {header.step, header.stall_us}) {  // -1: none
    if (number < -1 || number > kLargestNumber) return std::nullopt;
  }
  if (header.member < 0 || header.watchers < 0 || header.watchers > kMaxWorkers * 16 ||
      header.copiers < 0 || header.copiers > header.watchers || header.next_members < 0 ||
      header.next_members > kMaxWorkers || header.flag < 0 ||
      header.flag > (kWithGradient | kWithSlots)) {
    return std::nullopt;
  }
  return header;
}

const char* problem_of(const BridgeHeader& header, const BridgeExpectation& expected) {
  if (header.view != expected.view) return "a frame of another view";
  if (header.type == BridgeFrame::kArrived) {
    if (header.step != expected.arrived + 1 || header.step != expected.reduced + 1) {
      return "a step out of order";
    }
    if (header.payload_bytes != expected.arrived_bytes) return "partial sums of another size";
    if (header.next.view != 0 &&
        (header.next.view != header.view + 1 || header.next.first_step != header.step + 1)) {
      return "an announcement of another step";
    }
    return "";
  }
  if (header.type != BridgeFrame::kReduced) return "a frame that does not belong here";
  if (header.step != expected.reduced + 1 || header.step > expected.arrived) {
    return "a slice out of order";
  }
  if (header.payload_bytes != expected.reduced_bytes) return "a slice of another size";
  return "";
}

}  // namespace rubato::elastic
