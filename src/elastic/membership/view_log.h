// The views a worker knows of, newest last, and how fresh that knowledge is. Only a
// compare-and-swap proves that a view is the newest; what was read may be stale.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "elastic/job/job_folder.h"
#include "elastic/membership/inputs.h"

namespace rubato::elastic::membership {

class ViewLog {
 public:
  // The newest known view; null before the first answer of the registry.
  const ViewPtr& newest() const { return newest_; }
  // The view with this number; null if it is not known.
  ViewPtr at(ViewNumber number) const {
    for (const ViewPtr& view : views_) {
      if (view->number == number) return view;
    }
    return nullptr;
  }
  template <typename Condition>
  bool any_after(ViewNumber number, const Condition& holds) const {
    return std::any_of(views_.begin(), views_.end(),
                       [&](const ViewPtr& view) { return view->number > number && holds(*view); });
  }
  const Target& target() const { return *target_; }

  void learn(const ViewPtr& view) {
    if (newest_ && view->number <= newest_->number) {
      if (!at(view->number)) insert(view);
      return;
    }
    ++revision_;
    views_.push_back(view);
    newest_ = view;
  }
  // All that are known, by number. The revision changes whenever they do.
  const std::vector<ViewPtr>& views() const { return views_; }
  std::int64_t revision() const { return revision_; }
  void learn_target(std::shared_ptr<const Target> target) {
    if (target) target_ = std::move(target);
  }
  void forget_before(ViewNumber number) {
    ++revision_;
    std::erase_if(views_, [&](const ViewPtr& view) { return view->number < number; });
  }

  // --- Freshness: one read at a time ---
  using Ticket = std::int64_t;
  // What a read that is asked for from now on will have answered.
  Ticket next_read() const { return asked_ + 1; }
  bool answered(Ticket ticket) const { return answered_ >= ticket; }
  bool reading() const { return asked_ > finished_; }
  void asked(Time now) {
    ++asked_;
    asked_at_ = now;
    because_old_ = std::exchange(old_, false);
  }
  void read_ended(bool answered) {
    finished_ = asked_;
    if (answered) {
      answered_ = asked_;
    } else {
      old_ = old_ || because_old_;
    }
  }
  Time asked_at() const { return asked_at_; }
  // There may be something that the last read was too early for.
  void registry_changed() { old_ = true; }
  bool old() const { return old_; }

 private:
  void insert(const ViewPtr& view) {
    ++revision_;
    auto place = views_.begin();
    while (place != views_.end() && (*place)->number < view->number) ++place;
    views_.insert(place, view);
  }

  std::vector<ViewPtr> views_;  // by number; may have gaps
  ViewPtr newest_;
  std::int64_t revision_ = 0;
  std::shared_ptr<const Target> target_ = std::make_shared<const Target>();
  Ticket asked_ = 0;
  Ticket finished_ = 0;
  Ticket answered_ = 0;
  Time asked_at_{};
  bool old_ = false;
  bool because_old_ = false;  // the last read was asked for for this reason
};

}  // namespace rubato::elastic::membership
