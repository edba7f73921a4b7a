// What must hold in every history.
#include <fmt/format.h>

#include <algorithm>

#include "membership/process.h"

namespace rubato::elastic::membership::sim {

// The restart before this view, if any: steps after it may be done again.
ViewNumber World::incarnation(ViewNumber view) const {
  for (ViewNumber n = view; n > 0; --n) {
    if (views_[static_cast<std::size_t>(n - 1)]->empty()) return n;
  }
  return 0;
}

// Every logical worker, and with it every sample, has one place.
void World::committed(const View& view) {
  int hosted = 0;
  for (const Member& member : view.members) {
    if (member.hosts.begin != hosted || member.hosts.end < hosted) {
      violate(fmt::format("view {} does not divide the logical workers", view.number));
    }
    hosted = member.hosts.end;
  }
  if (!view.empty() && hosted != kLogical) {
    violate(fmt::format("view {} hosts {} logical workers", view.number, hosted));
  }
}

void World::entered(const View& view) {
  if (view.number > static_cast<ViewNumber>(views_.size())) {
    violate(fmt::format("view {} begins and is not committed", view.number));
    return;
  }
  const View& committed = *views_[static_cast<std::size_t>(view.number - 1)];
  if (committed.ids() != view.ids() || committed.first_step != view.first_step) {
    violate(fmt::format("view {} begins with other members or another step than committed",
                        view.number));
  }
}

void World::completed(const Process& by, const View& view, Step step) {
  // NOLINTNEXTLINE(modernize-loop-convert): from the newest on
  for (auto known = completed_.rbegin(); known != completed_.rend(); ++known) {
    if (known->worker != by.id()) continue;
    if (known->view != view.number) break;
    known->step = step;
    return;
  }
  completed_.push_back({view.number, by.id(), step});
}

// Who was told to leave, or whose place others have taken, does not report success.
void World::reports_success(const Process& by, const View* view, Step version) {
  if (by.told_to_leave()) violate(fmt::format("worker {} leaves and reports success", by.id()));
  if (view == nullptr || view->leader != by.id()) return;
  if (version != last_step_) {
    violate(fmt::format("worker {} writes the result of step {}", by.id(), version));
  }
}

// Every step was completed once: in the last view of its incarnation that begins before it, and
// before that only by workers that the others had lost, so that nobody goes on from there.
void World::audit() {
  complete_on_a_board_.resize(views_.size() + 1, kNever);
  for (const Completed& done : completed_) {
    bool planned = true;
    for (auto n = static_cast<std::size_t>(done.view); n < views_.size(); ++n) {
      const View& later = *views_[n];
      if (later.empty()) break;  // what follows begins from a checkpoint
      if (later.first_step <= done.step && later.find(done.worker) != nullptr) {
        violate(fmt::format("worker {} has completed step {} in view {} and does it again in {}",
                            done.worker, done.step, done.view, later.number));
      }
      // Everybody knows of a planned view before it can complete the step before that view. After a
      // failure, what the lost have done is done again.
      planned = planned && later.planned();
      if (planned && later.first_step <= done.step) {
        violate(fmt::format("worker {} has completed step {} in view {}, but view {} begins at {}",
                            done.worker, done.step, done.view, later.number, later.first_step));
      }
    }
  }
  // Whatever a view begins after was complete on some board.
  for (const Completed& done : completed_) {
    const View& view = *views_[static_cast<std::size_t>(done.view - 1)];
    const ViewNumber since = incarnation(done.view);
    if (view.first_step == views_[static_cast<std::size_t>(since)]->first_step) continue;
    bool had = false;
    for (ViewNumber n = since + 1; n < done.view; ++n) {
      had = had || complete_on_a_board_[static_cast<std::size_t>(n)] >= view.first_step - 1;
    }
    if (!had) {
      violate(fmt::format("view {} begins with step {}, but the one before was never complete",
                          view.number, view.first_step));
    }
  }
}

void World::complete_on_a_board(ViewNumber view, Step step) {
  const auto index = static_cast<std::size_t>(view);
  if (index >= complete_on_a_board_.size()) complete_on_a_board_.resize(index + 1, kNever);
  complete_on_a_board_[index] = std::max(complete_on_a_board_[index], step);
}

std::string World::stuck() const {
  std::string text;
  for (const auto& process : processes_) {
    if (!process->alive()) continue;
    text += fmt::format("\n  {} on {}: {}{}, {}", process->id(), process->node_name(),
                        to_string(kind_of(process->machine().state())),
                        process->stopped() ? " (stopped)" : "", process->doing());
  }
  return text;
}

}  // namespace rubato::elastic::membership::sim
