// Messages as a person reads them in a trace.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <string_view>

#include "membership/process.h"

namespace rubato::elastic::membership::sim {

namespace {

struct Describe {
  std::string operator()(const Join&) const { return "join"; }
  std::string operator()(const Accepted&) const { return "accepted"; }
  std::string operator()(const Refused& m) const { return "refused: " + m.reason; }
  std::string operator()(const Ready&) const { return "ready"; }
  std::string operator()(const Leave&) const { return "leave"; }
  std::string operator()(const Bye& m) const { return m.done ? "bye, all delivered" : "bye"; }
  std::string operator()(const JobFinished&) const { return "the job is done"; }
  std::string operator()(const Prepare& m) const {
    return fmt::format("prepare view {} ({}), attempt {}: {}", m.view->number, m.view->cause,
                       m.proposal.attempt, fmt::join(m.view->ids(), " "));
  }
  std::string operator()(const Prepared& m) const {
    return fmt::format("prepared view {}, attempt {}", m.proposal.view, m.proposal.attempt);
  }
  std::string operator()(const Freeze& m) const {
    return fmt::format("freeze for view {}", m.next);
  }
  std::string operator()(const Frozen& m) const {
    return fmt::format("frozen for view {}, complete is {}", m.next,
                       m.complete ? std::to_string(*m.complete) : "nothing");
  }
  std::string operator()(const Start& m) const {
    return fmt::format("start view {} from step {}: {}", m.view->number, m.view->first_step,
                       fmt::join(m.view->ids(), " "));
  }
  std::string operator()(const Broken& m) const {
    return m.lost ? fmt::format("view {} is broken, worker {} is lost", m.view, *m.lost)
                  : fmt::format("view {} is broken: {}", m.view, m.reason);
  }
};

}  // namespace

std::string_view message_name(std::size_t which) {
  constexpr std::array<std::string_view, std::variant_size_v<Message>> kNames = {
      "join",    "accepted", "refused", "ready",  "leave", "bye",   "finished",
      "prepare", "prepared", "freeze",  "frozen", "start", "broken"};
  return kNames[which];
}

std::string describe(const Message& message) { return std::visit(Describe(), message); }

}  // namespace rubato::elastic::membership::sim
