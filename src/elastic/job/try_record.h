// How often an ordinary program (elastic/launch/ordinary_program.h) was started, and how that
// ended: FOLDER/tries.json. It is what makes "run once" true: a try is on disk before the program
// starts, and its end is on disk before anybody concludes anything from it.
#pragma once

#include <optional>

#include "base/result.h"
#include "elastic/job/job_folder.h"

namespace rubato::elastic {

struct TryRecord {
  enum class State {
    kNone,     // never started
    kRunning,  // started; if nobody watches it any more, its end is unknown
    kStopped,  // a stop was decided before the program had ended by itself: this try is repeated
    kEnded,    // by itself, or in a way that nobody saw
  };
  State state = State::kNone;
  int tries = 0;     // begun, without runs that were stopped
  int worker = 0;    // number of the last process, which names its log
  double run_s = 0;  // duration of all runs together
  std::optional<int> exit_code{};
  std::optional<int> signal{};  // neither of the two: nobody saw how it ended
};

// State kNone if there is no record.
Result<TryRecord> read_tries(const JobFolder& folder);
// Returns when the record is on disk.
Status write_tries(const JobFolder& folder, const TryRecord& record);

}  // namespace rubato::elastic
