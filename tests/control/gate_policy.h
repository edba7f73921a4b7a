// A policy that decides when a test lets it.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <limits>
#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>

#include "sched/policy.h"

namespace rubato::control {

class Gate {
 public:
  void open() { closed_from_ = kOpen; }
  // For decisions that are about a job with this number or a larger one.
  void close(int from_job) { closed_from_ = from_job; }
  // The policy behind the gate throws from now on.
  void break_policy() { broken_ = true; }
  // Decisions that have come to the closed gate.
  int entered() const { return entered_; }
  // Decisions that are being made at the same time, at most so far.
  int most_at_once() const { return most_; }

  // For LivePolicy::around and ControllerOptions::around_policy. The gate must outlive the policy.
  // With `obedient`, a decision whose limit is reached passes the closed gate.
  std::function<std::unique_ptr<Policy>(std::unique_ptr<Policy>)> around(bool obedient);

 private:
  friend class GatePolicy;
  static constexpr int kOpen = std::numeric_limits<int>::max();
  std::atomic<int> closed_from_{kOpen};
  std::atomic<bool> broken_{false};
  std::atomic<int> entered_{0};
  std::atomic<int> inside_{0};
  std::atomic<int> most_{0};
};

class GatePolicy final : public Policy {
 public:
  GatePolicy(Gate& gate, bool obedient, std::unique_ptr<Policy> policy)
      : gate_(gate), obedient_(obedient), policy_(std::move(policy)) {}

  Plan decide(const PolicyInput& input) override {
    const int inside = ++gate_.inside_;
    if (inside > gate_.most_) gate_.most_ = inside;
    int newest = 0;
    for (const JobState* job : input.jobs) newest = std::max(newest, job->spec.id.value);
    if (newest >= gate_.closed_from_) ++gate_.entered_;
    while (newest >= gate_.closed_from_ && !(obedient_ && input.out_of_time())) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    --gate_.inside_;
    if (gate_.broken_) throw std::runtime_error("the policy is broken");
    return policy_->decide(input);
  }

 private:
  Gate& gate_;
  const bool obedient_;
  std::unique_ptr<Policy> policy_;
};

inline std::function<std::unique_ptr<Policy>(std::unique_ptr<Policy>)> Gate::around(bool obedient) {
  return [this, obedient](std::unique_ptr<Policy> policy) -> std::unique_ptr<Policy> {
    return std::make_unique<GatePolicy>(*this, obedient, std::move(policy));
  };
}

}  // namespace rubato::control
