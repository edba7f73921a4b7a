// The shared memory of a simulated worker: the board of its node.
#include <fmt/format.h>

#include <algorithm>

#include "elastic/transport/bridge_layout.h"
#include "membership/process.h"

namespace rubato::elastic::membership::sim {

void Process::use_board(const std::string& name) {
  board_name_ = name;
  board_ = &world_.boards_[name];
  board_->at.push_back(this);
}

// The board that the members of this node use, or without members the one that its newcomers share.
void Process::adopt_board(const ViewPtr& view) {
  const int gateway = gateway_of(*view, node_name());
  const std::string name = gateway >= 0 ? view->find(gateway)->address.board
                                        : fmt::format("{}-{}", node_name(), board_number_);
  if (gateway < 0 && world_.boards_[name].used) {
    answer(10, 500, BoardFailed{"the workers of this node have just left the job"});
    return;
  }
  use_board(name);
  observed_ = view;
  if (gateway < 0) world_.after(world_.random_.between(100, 2000), id_, {FeedDue{}});
  answer(10, 500, BoardReady{board_name_});
}

// Tells which views are mapped. A gateway is ready when it is connected with those of other nodes.
void Process::answer_mapped() {
  for (auto& [number, mapping] : mapping_) {
    if (!mapping.mapped || mapping.answered) continue;
    const View& next = *mapping.view;
    if (several_nodes(next) && gateway_of(next, node_name()) == id_) {
      if (frozen_ || !bridge_for(mapping.view, std::nullopt).connected()) continue;
    }
    mapping.answered = true;
    prepared_[number] = {mapping.proposal, mapping.view};
    const Proposal proposal = mapping.proposal;
    input(Mapped{proposal});
    return;  // the map may have changed
  }
}

void Process::continue_restore() {
  if (!restoring_) return;
  const ViewPtr view = restoring_->view;
  const Block& block = board_->block(view->number);
  if (gateway_of(*view, node_name()) == id_ && block.view != view->number) {
    if (several_nodes(*view) && !bridge_for(view, restoring_).restored()) return;
    open_block(*view);
    return;  // that comes back here
  }
  if (block.view != view->number) return;
  answer(1, 200, Restored{view->number});
  restoring_.reset();
}

// An excluded worker that wakes up must not go on to a step that overwrites what is read again.
void Process::close_blocks() {
  const View* const of = current();
  if (board_ == nullptr || of == nullptr) return;
  for (ViewNumber number = of->number; number != 0;) {
    Block& block = board_->block(number);
    if (block.view != number) return;
    block.closed = true;
    number = block.next;
  }
}

Block& Process::last_begun() {
  Block* at = &board_->block(current()->number);
  for (;;) {
    if (at->next == 0 || at->complete() < at->next_first_step - 1) return *at;
    Block& following = board_->block(at->next);
    if (following.view != at->next || following.rows.empty()) return *at;
    at = &following;
  }
}

std::optional<Step> Process::complete_here() {
  const View* const of = current();
  if (board_ == nullptr || of == nullptr) return std::nullopt;
  const Block& begun = board_->block(of->number);
  if (begun.view != of->number || begun.rows.empty()) return std::nullopt;
  const Step step = last_begun().complete();
  // A board that was fed may lack the gradient of its newest step, or the slots that the next step
  // reads. Nobody could continue from there.
  const bool fed = gateway_of(*of, node_name()) < 0;
  if (fed && (board_->gradient_tag(step) != step || board_->fed_slots != step)) {
    return std::nullopt;
  }
  return step;
}

void Process::open_block(const View& view) {
  const Step complete = view.first_step - 1;
  Block& before = last_begun();
  // A lost worker may have published, until it was dead, what was decided to be done again.
  board_->completed = complete;
  for (Step& tag : board_->gradient_step) tag = std::min(tag, complete);
  for (Row& row : before.rows) {
    if (row.reduced < complete) row = Row{complete, complete};
  }
  const ViewNumber from = before.view;
  board_->open(view.number, view.members.size(), view.first_step);
  Block& linked = board_->block(from);
  if (linked.view == from) {
    linked.next = view.number;
    linked.next_first_step = view.first_step;
  }
  pulse();
}

// Somebody changed the board: whoever waits for it looks again.
void Process::pulse() {
  // NOLINTNEXTLINE(modernize-loop-convert): it may change meanwhile
  for (std::size_t i = 0; i < board_->at.size(); ++i) {
    Process& other = *board_->at[i];
    if (other.ended_) continue;
    if (other.restoring_ || !other.bridges_.empty()) other.bridge_soon();
    if (other.waits_no_more()) other.train_soon();
  }
}

void Process::check_publishing(const View& in) {
  if (in.number < promised_) {
    world_.violate(
        fmt::format("worker {} published after it promised to wait for view {}", id_, promised_));
  }
  // One that left as planned may say late that its last step is complete.
  for (auto n = static_cast<std::size_t>(in.number); n < world_.views_.size(); ++n) {
    const View& later = *world_.views_[n];
    if (later.find(id_) != nullptr) continue;
    if (later.planned() || later.empty()) break;
    if (board_->block(later.number).view == later.number) {
      world_.violate(
          fmt::format("worker {} publishes, but view {} began without it", id_, later.number));
    }
  }
}

}  // namespace rubato::elastic::membership::sim
