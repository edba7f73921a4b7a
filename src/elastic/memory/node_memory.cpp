#include "elastic/memory/node_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "elastic/data/exchange.h"
#include "elastic/transport/bridge_layout.h"

namespace rubato::elastic {

namespace {

// Another newcomer may be creating the board.
constexpr auto kBoardPause = std::chrono::milliseconds(5);
constexpr int kBoardTries = 200;

}  // namespace

NodeMemory::NodeMemory(Options options, std::shared_ptr<const WorkerSegment> own)
    : options_(std::move(options)) {
  segments_[options_.worker] = std::move(own);
}

// --- The board -----------------------------------------------------------------------------------

BoardShape NodeMemory::board_shape() const {
  return {.logical_workers = options_.logical_slots,
          .gradient_floats = options_.shape.gradient_floats,
          .private_bytes = options_.shape.private_bytes,
          .batch = options_.data ? 0 : options_.batch};
}

// Adaptive job. Of newcomers that share a board, any may create it.
Result<DataBoard> NodeMemory::shared_data_board(const std::string& board) const {
  const std::string name = DataBoard::name_for(board);
  Result<DataBoard> data = DataBoard::open(name);
  if (!data.ok()) data = DataBoard::create(name, *options_.data);
  for (int tries = 0; !data.ok() && tries < kBoardTries; ++tries) {
    std::this_thread::sleep_for(kBoardPause);
    data = DataBoard::open(name);
  }
  return data;
}

NodeBoards NodeMemory::boards() const {
  if (!data_board_) return {*board_};
  return {*board_, *data_board_, options_.logical_workers};
}

Status NodeMemory::make_board(const View& first) {
  const std::string name = founders_board_name(options_.token, options_.node.name, options_.worker);
  Result<Board> board = Board::create(name, board_shape());
  if (!board.ok()) return board.error();
  if (options_.data) {
    Result<DataBoard> data = DataBoard::create(DataBoard::name_for(name), *options_.data);
    if (!data.ok()) {
      remove_segment(name);
      return data.error();
    }
    data_board_.emplace(std::move(*data));
  }
  const std::int64_t before = first.first_step - 1;
  board->start_block(first.number, 1, first.first_step);
  board->completed() = before;
  // There is no gradient for it, but everything else that nodes without members may ask for
  // (feed.h).
  board->gradient_step(before) = -2 - before;
  board_.emplace(std::move(*board));
  return ok_status();
}

void NodeMemory::drop_board() {
  if (!board_) return;
  remove_segment(board_->name());
  if (data_board_) remove_segment(DataBoard::name_for(board_->name()));
  data_board_.reset();
  board_.reset();
}

Status NodeMemory::adopt_board(const View& latest) {
  const std::string& node = options_.node.name;
  const int number = options_.node.board >= 0 ? options_.node.board : options_.worker;
  std::string name = board_name(options_.token, node, number);
  const int gateway = gateway_of(latest, node);
  if (gateway >= 0) {
    name = latest.find(gateway)->address.board;
    Status own = check_node_of_segment(name, options_.token, node);
    if (!own.ok()) return own.error();
  }
  Result<Board> board = Board::open(name);
  if (!board.ok() && gateway < 0) {
    if (options_.data) {  // first: whoever opens the board finds it
      const Result<DataBoard> data = shared_data_board(name);
      if (!data.ok()) return data.error();
    }
    board = Board::create(name, board_shape());
    for (int tries = 0; !board.ok() && tries < kBoardTries; ++tries) {
      std::this_thread::sleep_for(kBoardPause);
      board = Board::open(name);
    }
  }
  if (!board.ok()) return board.error();
  if (gateway < 0 && board->used() != 0) {
    return invalid_input("the workers of this node have just left the job");
  }
  if (options_.data) {
    Result<DataBoard> data = DataBoard::open(DataBoard::name_for(name));
    if (!data.ok()) return data.error();
    data_board_.emplace(std::move(*data));
  }
  board_.emplace(std::move(*board));
  return ok_status();
}

membership::BoardFacts NodeMemory::facts(const View& view) const {
  membership::BoardFacts facts{.view = view.number};
  const ViewBlock& block = board_->block(view.number);
  facts.open = block.view == view.number;
  if (!facts.open) return facts;
  facts.closed = block.closed != 0;
  const Announcement next = block.announcement();
  facts.next = next.view;
  facts.next_first_step = next.first_step;
  facts.reduced.reserve(view.members.size());
  for (std::size_t i = 0; i < view.members.size(); ++i) {
    facts.reduced.push_back(block.rows[i].reduced.load(std::memory_order_acquire));
  }
  return facts;
}

// Follows the announcements from the view that runs here to the last one that has begun.
ViewBlock& NodeMemory::last_begun(const View& view) const {
  ViewBlock* block = &board_->block(view.number);
  for (;;) {
    const Announcement next = block->announcement();
    if (next.view == 0 || block->complete() < next.first_step - 1) return *block;
    ViewBlock& following = board_->block(next.view);
    if (following.view != next.view || following.members == 0) return *block;
    block = &following;
  }
}

void NodeMemory::close(const View& view) const {
  if (!board_) return;
  for (std::int64_t number = view.number; number != 0;) {
    ViewBlock& block = board_->block(number);
    if (block.view != number) break;
    block.close();
    number = block.announcement().view;
  }
}

std::optional<std::int64_t> NodeMemory::complete(const View& view) const {
  if (!board_) return std::nullopt;
  const ViewBlock& begun = board_->block(view.number);
  if (begun.view != view.number || begun.members == 0) return std::nullopt;
  const std::int64_t step = last_begun(view).complete();
  // A board that was fed may lack the gradient of its newest step, or be receiving a later step
  // that overwrites what the next step reads. Nobody could continue from there.
  const bool fed = gateway_of(view, options_.node.name) < 0;
  if (fed && (board_->gradient_step(step) != step || board_->fed_slots() != step)) {
    return std::nullopt;
  }
  return step;
}

void NodeMemory::open_block(const View& current, const View& view) const {
  const std::int64_t complete = view.first_step - 1;
  ViewBlock& before = last_begun(current);
  // A lost worker may have published, until it was dead, what was decided to be done again.
  board_->completed() = complete;
  std::atomic<std::int64_t>& repeated = board_->gradient_step(complete + 1);
  if (repeated > complete) repeated = -2 - (complete + 1);
  const auto members = static_cast<std::size_t>(before.members.load());
  for (std::size_t i = 0; i < members; ++i) {  // if the last step came from another node
    MemberRow& row = before.rows[i];
    if (row.reduced >= complete) continue;
    row.arrived = complete;
    row.reduced = complete;
  }
  board_->start_block(view.number, static_cast<int>(view.members.size()), view.first_step);
  before.announce({.view = view.number, .first_step = view.first_step});
  board_->pulse();
}

// --- Segments ------------------------------------------------------------------------------------

Result<std::shared_ptr<const WorkerSegment>> NodeMemory::map_member(
    const WorkerAddress& worker) const {
  if (here(worker)) {
    Status own = check_node_of_segment(worker.segment, options_.token, options_.node.name);
    if (!own.ok()) return own.error();
  }
  Result<WorkerSegment> segment =
      here(worker) ? WorkerSegment::open(worker.segment, options_.shape, options_.logical_workers)
                   : WorkerSegment::mirror(mirror_name(board_->name(), worker.id), options_.shape,
                                           options_.logical_workers);
  if (!segment.ok()) return segment.error();
  return std::shared_ptr<const WorkerSegment>(std::make_shared<WorkerSegment>(std::move(*segment)));
}

Result<std::shared_ptr<const ActiveView>> NodeMemory::map_view(const View& view) {
  const int expected = options_.batches.logical_workers(static_cast<int>(view.members.size()));
  if (view.logical_workers() != expected) {
    return invalid_input(fmt::format("view {} hosts {} logical workers; expected {}", view.number,
                                     view.logical_workers(), expected));
  }
  for (const Member& member : view.members) {
    const int worker = member.address.id;
    if (segments_.contains(worker)) continue;
    Result<std::shared_ptr<const WorkerSegment>> segment = map_member(member.address);
    if (!segment.ok()) return segment.error();
    segments_[worker] = std::move(*segment);
  }
  return make_active_view(view, options_.worker, *board_, segments_);
}

void NodeMemory::move_on(const View* before, const View& now) {
  // A mirror keeps its name as long as any worker of this node may still map it, perhaps for a view
  // that this worker has not entered: two mirrors of one name would be two separate memories. A
  // worker that has left a view never returns.
  if (before != nullptr) {
    for (const Member& member : before->members) {
      if (here(member.address) || now.find(member.address.id) != nullptr) continue;
      remove_segment(mirror_name(board_->name(), member.address.id));
    }
  }
  std::erase_if(segments_, [&](const auto& entry) {
    return entry.first != options_.worker && now.find(entry.first) == nullptr;
  });
}

void NodeMemory::forget_worker(int worker) {
  if (worker != options_.worker) segments_.erase(worker);
}

void NodeMemory::remove_lost(int worker) const {
  remove_segment(worker_segment_name(options_.token, options_.node.name, worker));
}

}  // namespace rubato::elastic
