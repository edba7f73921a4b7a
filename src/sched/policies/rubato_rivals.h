// Which waiting jobs must not take the place of a running one, for the policy `rubato`.
//
// Equal jobs are not swapped, however long one of them waits: that would cost two changes and gain
// nothing. A waiting job is like a running one if both need as many devices and
//  - both are of one application and the waiting one has no fewer epochs left; if nothing but their
//    age says how long they are, any job of the application is (the one that has run longer is not
//    expected to be the longer one), or
//  - their applications differ, nothing but their age says how long either is, and it does not say
//    that the running one is more than twice as long.
#pragma once

#include <span>
#include <vector>

#include "sched/policies/rubato_outlook.h"

namespace rubato {

struct Contender {
  const Outlook* outlook = nullptr;
  double value = 0;  // of a waiting job at its best size
};

// For every running job, the largest value of a waiting job that is like it; 0 if there is none,
// for jobs that wait, and for jobs of applications that were never measured. O(jobs log jobs).
std::vector<double> rival_values(std::span<const Contender> jobs);

}  // namespace rubato
