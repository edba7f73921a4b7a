// The table of event types: what each one changes, and the fields of its body. State::apply checks
// events against it, the store looks up in it what an event changes, and docs/events.md is
// generated from it. Every later program must replay today's logs: event_versions.h says which
// changes of this table need a new version.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "control/state.h"

namespace rubato::control {

// The part of a State that an event changes.
enum class Subject { kNothing, kJob, kTenant, kReservation, kProfile, kNode, kPolicy };

enum class FieldKind {
  kCount,   // whole number from 0 to 2^31 - 1
  kWhole,   // whole number >= 0
  kNumber,  // finite number >= 0
  kText,
  kObject,
  kTexts,  // object whose values are strings
  kNodes,  // list of nodes with devices (job_placement.h)
};
std::string_view to_string(FieldKind kind);

struct EventField {
  std::string_view name;
  FieldKind kind = FieldKind::kCount;
  bool required = true;
  std::string_view help{};
};

struct EventType {
  std::string_view name;
  Subject subject = Subject::kNothing;
  std::string_view meaning{};
  std::vector<EventField> fields{};
  bool more_fields = false;  // other fields are allowed and kept
  // Checks the event against the state and applies it. Changes nothing if it refuses the event.
  Status (*apply)(State& state, const Event& event) = nullptr;
  // The same for a job that came to rest before the log begins (State::folded_below). Null: such an
  // event cannot be about one.
  Status (*apply_at_rest)(State& state, const Event& event) = nullptr;
};

// In the order of the documentation.
std::span<const EventType> event_types();
// Null if there is no such type.
const EventType* find_event_type(std::string_view name);
// Checks the fields of the body, the time, and that the event names a job if it must.
Status check_event(const EventType& type, const Event& event);

// The table as Markdown (docs/events.md).
std::string event_types_markdown();

}  // namespace rubato::control
