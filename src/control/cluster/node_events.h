// What the events about nodes change in the state. event_types.cpp has them in its table.
#pragma once

#include "base/result.h"
#include "control/state.h"

namespace rubato::control {

Status node_joined(State& state, const Event& event);
Status node_removed(State& state, const Event& event);
Status node_lost(State& state, const Event& event);
Status node_back(State& state, const Event& event);
Status node_drained(State& state, const Event& event);
Status node_undrained(State& state, const Event& event);

}  // namespace rubato::control
