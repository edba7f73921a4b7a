#include "sched/tenant_shares.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace rubato {

std::vector<double> fair_shares(std::span<const TenantClaim> claims, int capacity) {
  std::vector<double> shares(claims.size(), 0);
  std::vector<char> satisfied(claims.size(), 0);
  double left = capacity;
  for (bool again = true; again;) {
    again = false;
    double weights = 0;
    for (std::size_t i = 0; i < claims.size(); ++i) {
      if (satisfied[i] == 0) weights += claims[i].weight;
    }
    const double before = left;
    for (std::size_t i = 0; i < claims.size(); ++i) {
      if (satisfied[i] != 0) continue;
      shares[i] = before * claims[i].weight / weights;
      if (shares[i] < claims[i].wanted) continue;
      shares[i] = claims[i].wanted;
      satisfied[i] = 1;
      left -= shares[i];
      again = true;
    }
  }
  return shares;
}

std::vector<int> whole_shares(std::span<const TenantClaim> claims, int capacity) {
  // Shares are sums of rounded numbers. Values closer than this to a whole number or to each other
  // are treated as equal.
  constexpr double kGrain = 1e-6;
  const std::vector<double> fair = fair_shares(claims, capacity);
  std::vector<int> shares(claims.size());
  std::vector<long> remainder(claims.size());  // in grains
  int wanted = 0;
  for (std::size_t i = 0; i < claims.size(); ++i) {
    shares[i] = static_cast<int>(std::floor(fair[i] + kGrain));
    remainder[i] = std::lround(std::max(0.0, fair[i] - shares[i]) / kGrain);
    wanted += claims[i].wanted;
  }
  std::vector<std::size_t> order(claims.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    if (remainder[a] != remainder[b]) return remainder[a] > remainder[b];
    const int more_a = claims[a].holding - shares[a];
    const int more_b = claims[b].holding - shares[b];
    return more_a != more_b ? more_a > more_b : claims[a].owed > claims[b].owed;
  });
  int left = std::min(capacity, wanted) - std::accumulate(shares.begin(), shares.end(), 0);
  for (const std::size_t i : order) {
    if (left <= 0) break;
    if (shares[i] >= claims[i].wanted) continue;
    ++shares[i];
    --left;
  }
  return shares;
}

}  // namespace rubato
