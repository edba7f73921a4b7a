// Divides devices of several types among jobs, for the policy `rubato`.
#pragma once

#include <array>
#include <vector>

#include "model/cluster.h"
#include "solve/allocate.h"

namespace rubato {

// The choices of a job. Getting nothing is always possible and worth 0; it is not listed.
struct TypedChoices {
  std::array<std::vector<Choice>, kMaxDeviceTypes> of{};  // by type
  // Type and index of its current allocation, if that is one of its choices.
  DeviceTypeId now_type{};
  int now = -1;
};

// How the types are divided. Every method except `kGreedy` is exact for one type.
enum class DivisionMethod {
  kPrices,       // prices per type assign jobs to types; then the types are improved in turn
  kImproveOnly,  // the types are improved in turn, starting from what jobs have now
  kFastest,      // every job goes to the type that is worth most to it at its smallest size
  kGreedy,       // like kPrices, but types are divided by gain per device instead of exactly
};

// What a job gets: an index into its choices of that type.
struct TypedShare {
  DeviceTypeId type{};  // invalid: nothing
  int choice = -1;
};

// Divides the devices. With one type this is `allocate`. With several, it starts from prices per
// type: each job asks for what is worth most to it after paying, and prices follow demand. Then
// each type in turn is divided exactly among all jobs, where a job on another type is worth what it
// has there, as long as the sum improves. It starts from what jobs have now instead if that leads
// to a larger sum: if the values charge for changes, nothing moves without a gain. The caller keeps
// `price` (by type) between decisions. O(types x the solver x rounds), with a handful of rounds.
std::vector<TypedShare> divide_types(const std::vector<TypedChoices>& jobs,
                                     const DeviceCounts& usable, std::size_t types,
                                     DivisionMethod method,
                                     std::array<double, kMaxDeviceTypes>& price);

}  // namespace rubato
