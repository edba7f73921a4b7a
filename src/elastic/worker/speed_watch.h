// What a leader learns of the speed of its members from the board: who is slow, and how the work
// should be divided.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "elastic/job/view.h"
#include "elastic/membership/inputs.h"
#include "elastic/memory/board.h"
#include "elastic/worker/straggler.h"

namespace rubato::elastic {

class SpeedWatch {
 public:
  // `record` writes an event to the job's event log.
  explicit SpeedWatch(std::function<void(const nlohmann::json&)> record)
      : record_(std::move(record)) {}

  // Judges every step of the view as far back as the board remembers, except the first, which maps
  // memory and warms up caches. Nothing if there is no new one.
  std::optional<membership::Speeds> look(const Board& board, const View& view);

 private:
  std::function<void(const nlohmann::json&)> record_;
  StragglerWatch stragglers_;
  std::int64_t view_ = 0;
  std::int64_t judged_step_ = -1;
};

}  // namespace rubato::elastic
