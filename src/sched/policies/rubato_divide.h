// Dividing devices of several types among jobs, for the policy `rubato`.
#pragma once

#include <array>
#include <vector>

#include "model/cluster.h"
#include "solve/allocate.h"

namespace rubato {

// What a job may take; without the choice of getting nothing, which is worth 0.
struct TypedChoices {
  std::array<std::vector<Choice>, kMaxDeviceTypes> of{};  // by type
  // What it has now, if that is one of its choices: type and index.
  DeviceTypeId now_type{};
  int now = -1;
};

// How the types are divided. All are exact for one type (except `kGreedy`).
enum class DivisionMethod {
  kPrices,       // prices per type assign jobs to types, then types are improved in turn
  kImproveOnly,  // from what jobs have now, types are improved in turn
  kFastest,      // every job on the type that is worth most to it at its smallest size
  kGreedy,       // as kPrices, but types are divided by gain per device instead of exactly
};

// What every job gets: index into its choices of that type.
struct TypedShare {
  DeviceTypeId type{};  // invalid: nothing
  int choice = -1;
};

// Divides the devices. With one type this is `allocate`. With several, prices per type start it:
// each job asks for what is worth most after paying, and prices follow demand. Then each type in
// turn is divided exactly among all jobs, those on other types being worth there what they have, as
// long as that improves the sum. Starts from what jobs have now if that leads to more: with values
// that charge for changes, nothing moves without a gain. `price` (by type) is kept by the caller
// between decisions. O(types x the solver x rounds) with a handful of rounds.
std::vector<TypedShare> divide_types(const std::vector<TypedChoices>& jobs,
                                     const DeviceCounts& usable, std::size_t types,
                                     DivisionMethod method,
                                     std::array<double, kMaxDeviceTypes>& price);

}  // namespace rubato
