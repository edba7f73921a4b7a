#include "control/event_versions.h"

#include <fmt/format.h>

#include <array>

namespace rubato::control {

namespace {

// Version 2 only adds what is optional.
void from_1_to_2(Event& /*event*/) {}

// Nor does version 3.
void from_2_to_3(Event& /*event*/) {}

using Step = void (*)(Event&);
constexpr std::array<Step, kEventVersion - 1> kSteps{from_1_to_2, from_2_to_3};

}  // namespace

Status upgrade_event(Event& event) {
  if (event.version < 1 || event.version > kEventVersion) {
    return invalid_input(fmt::format(
        "version {} of an event, written by a newer rubatod; this one knows versions up to {}",
        event.version, kEventVersion));
  }
  for (; event.version < kEventVersion; ++event.version) {
    kSteps[static_cast<std::size_t>(event.version - 1)](event);
  }
  return ok_status();
}

}  // namespace rubato::control
