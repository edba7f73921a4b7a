// How many devices each tenant may have if the tenants together want more than there are: weighted
// max-min fairness. No tenant gets more than it can use or its quota allows. What it leaves is
// divided among the others by weight.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

namespace rubato {

struct TenantRule {
  double weight = 1;  // above 0
  int quota = 0;      // maximum number of devices at a time; 0: no limit
};
using TenantRules = std::map<std::string, TenantRule, std::less<>>;

// What a tenant asks for at one moment.
struct TenantClaim {
  double weight = 1;
  int wanted = 0;   // devices its jobs can use, capped by its quota
  int holding = 0;  // devices it holds now
  double owed = 0;  // how far it fell short before, in any unit
};

// Water filling: every tenant gets the same number of devices per weight, or what it wants if that
// is less. The shares add up to the capacity or to everything wanted, whichever is less. O(n^2) in
// tenants.
std::vector<double> fair_shares(std::span<const TenantClaim> claims, int capacity);

// The same in whole devices. Fair shares are rounded down, and the remaining devices go one by one
// to the largest remainders. Ties go to the tenant that would otherwise have to give a device back,
// so that devices do not move back and forth; then to the tenant that is owed more; then to the
// first. A share differs from the fair share by less than one device.
std::vector<int> whole_shares(std::span<const TenantClaim> claims, int capacity);

}  // namespace rubato
