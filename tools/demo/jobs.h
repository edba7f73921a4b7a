// The jobs of the demo: a few long ones come first, then a stream of short ones, as in real queues.
#pragma once

#include <string>
#include <vector>

#include "live/live_jobs.h"

namespace rubato::demo {

constexpr int kSlots = 4;
constexpr int kPaceMs = 25;  // length of a mini-batch

struct DemoJob {
  double at = 0;  // submitted so many seconds after the start
  std::string name;
  bool is_long = false;
  // As submitted: every mini-batch is paced (--pace), so a worker mostly waits and four slots are
  // four times as fast as one even on two processors.
  live::LiveProgram paced;
  // The same training at full speed, whose result the paced one must have.
  live::LiveProgram unpaced;
  std::string id{};  // once submitted
};

// In order of submission. `examples` is the folder of the example programs.
std::vector<DemoJob> demo_jobs(const std::string& examples);

}  // namespace rubato::demo
