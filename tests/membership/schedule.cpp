#include <algorithm>

#include "membership/world.h"

namespace rubato::elastic::membership::sim {

Schedule random_schedule(std::uint64_t seed, int nodes, int workers, int faults) {
  Random random(seed ^ 0xfa17);
  Schedule schedule{.seed = seed, .nodes = nodes, .workers = workers, .faults = {}};
  Micros at = random.between(0, 50'000);
  const bool only_wishes = random.one_in(8);
  for (int i = 0; i < faults; ++i) {
    at += random.one_in(3) ? random.between(0, 3'000) : random.between(0, 40'000);
    if (random.one_in(15)) at += random.between(0, 2'500'000);
    Fault fault{.at = at};
    fault.worker = static_cast<int>(random.below(64));
    fault.other = static_cast<int>(random.below(64));
    // Between nodes, the end of a leaver's streams may be taken for a break if others are slow.
    const bool wish = only_wishes && (nodes > 1 || !random.one_in(3));
    const std::int64_t kind = only_wishes ? random.below(2) : random.below(nodes > 1 ? 15 : 12);
    if (only_wishes && !wish) {
      fault.kind = kind == 0 ? Fault::Kind::kStop : Fault::Kind::kRegistryDoubt;
      // Short: a newcomer that stops for many steps must copy again, and if all whom it could copy
      // from have left meanwhile, it is lost indeed.
      fault.duration = random.between(1'000, kind == 0 ? 15'000 : kStall / 2);
      schedule.faults.push_back(fault);
      continue;
    }
    switch (wish ? random.between(7, 9) : kind) {
      case 0:
      case 1:
      case 2:
        fault.kind = Fault::Kind::kKill;
        break;
      case 3:
      case 4:
        fault.kind = Fault::Kind::kStop;
        fault.duration = random.one_in(2) ? random.between(1'000, 200'000)
                                          : random.between(1'500'000, 6'000'000);
        // Some wake up just when the others give up on them.
        if (random.one_in(4)) fault.duration = random.between(1'950'000, 2'300'000);
        break;
      case 5:
      case 6:
        fault.kind = Fault::Kind::kBreak;
        break;
      case 7:
      case 8:
        fault.kind = Fault::Kind::kTarget;
        fault.amount = random.between(nodes > 1 ? 0 : 1, (workers + nodes - 1) / nodes);
        break;
      case 9:
        fault.kind = random.one_in(2) ? Fault::Kind::kMigrate : Fault::Kind::kLeave;
        break;
      case 10:
        fault.kind = Fault::Kind::kRegistryDoubt;
        fault.duration = random.between(1'000, 1'000'000);
        break;
      case 12:
        fault.kind = random.one_in(2) ? Fault::Kind::kPartition : Fault::Kind::kCutLink;
        fault.amount = random.below(2);
        fault.duration = random.one_in(2) ? random.between(1'000, 200'000)
                                          : random.between(1'500'000, 6'000'000);
        break;
      case 13:
        fault.kind = Fault::Kind::kBreakStream;
        break;
      case 14:
        fault.kind = Fault::Kind::kSlowLink;
        fault.duration = random.between(1'000, 500'000);
        break;
      default:
        fault.kind = random.one_in(3) ? Fault::Kind::kClock : Fault::Kind::kSlow;
        if (fault.kind == Fault::Kind::kClock) {
          fault.amount = random.between(-1000, 1000);
        } else {
          fault.duration = random.between(1'000, 500'000);
        }
        break;
    }
    schedule.faults.push_back(fault);
  }
  add_moments(schedule, random);
  schedule.patient = nodes == 1 && random.one_in(8);
  return schedule;
}

bool Schedule::nothing_fails() const {
  return std::all_of(faults.begin(), faults.end(), [](const Fault& fault) {
    return fault.kind == Fault::Kind::kTarget || fault.kind == Fault::Kind::kMigrate ||
           fault.kind == Fault::Kind::kLeave || fault.kind == Fault::Kind::kRegistryDoubt ||
           (fault.kind == Fault::Kind::kStop && fault.duration < kStall);
  });
}

}  // namespace rubato::elastic::membership::sim
