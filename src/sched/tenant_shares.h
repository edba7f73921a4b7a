// How many devices each tenant may have when several want more than there are: weighted max-min
// fairness. Nobody gets more than it can use or may hold; what it leaves is divided among the
// others by weight.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

namespace rubato {

struct TenantRule {
  double weight = 1;  // above 0
  int quota = 0;      // most devices at a time; 0: no limit
};
using TenantRules = std::map<std::string, TenantRule, std::less<>>;

// What a tenant asks for at one moment.
struct TenantClaim {
  double weight = 1;
  int wanted = 0;   // devices its jobs can use, at most its quota
  int holding = 0;  // devices it has now
  double owed = 0;  // what it got too little before, in any unit
};

// Water filling: every tenant gets the same devices per weight, or what it wants if that is less.
// The sum is the capacity, or everything wanted. O(n^2) in tenants.
std::vector<double> fair_shares(std::span<const TenantClaim> claims, int capacity);

// The same in whole devices: fair shares rounded down, and what is left one by one to the largest
// remainders; of equal ones to the tenant that would have to give a device back, so that it does
// not wander to and fro; then to the one that is owed more; then to the first. A share differs from
// the fair one by less than a device.
std::vector<int> whole_shares(std::span<const TenantClaim> claims, int capacity);

}  // namespace rubato
