// The shared memory of a worker's node as the worker sees it: the board, and the segments of the
// members of its views. Used by the membership's thread alone, but for the board itself.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "elastic/data/batch_rule.h"
#include "elastic/job/job_folder.h"
#include "elastic/job/node_names.h"
#include "elastic/membership/inputs.h"
#include "elastic/memory/active_view.h"
#include "elastic/memory/board.h"
#include "elastic/memory/data_board.h"
#include "elastic/memory/worker_segment.h"
#include "elastic/transport/node_boards.h"
#include "elastic/worker/program.h"

namespace rubato::elastic {

class NodeMemory {
 public:
  struct Options {
    std::string token;  // of the job
    NodeIdentity node;
    int worker = 0;
    ProgramShape shape;
    int logical_workers = 1;
    int logical_slots = 1;   // founder: the number of logical workers the board has room for
    std::int64_t batch = 1;  // consistent job: samples per logical worker
    BatchRule batches;
    std::optional<DataBoardShape> data;  // adaptive job
  };
  NodeMemory(Options options, std::shared_ptr<const WorkerSegment> own);

  bool has_board() const { return board_.has_value(); }
  const Board& board() const { return *board_; }
  const DataBoard* data_board() const { return data_board_ ? &*data_board_ : nullptr; }
  // Of those, what nodes exchange.
  NodeBoards boards() const;
  const std::shared_ptr<const WorkerSegment>& own() const { return segments_.at(options_.worker); }

  // Founder: a board on which only its view of itself has begun.
  Status make_board(const View& first);
  void drop_board();  // another worker founded the job
  // The board that this node's members use, or without members the one that its newcomers share.
  Status adopt_board(const View& latest);

  // Maps everything that is not mapped yet, so that the view can be trained.
  Result<std::shared_ptr<const ActiveView>> map_view(const View& view);
  // The state of a member of this node, for copying.
  Result<std::shared_ptr<const WorkerSegment>> map_member(const WorkerAddress& worker) const;
  // This worker now trains `now`: what only earlier views needed is unmapped.
  void move_on(const View* before, const View& now);
  void forget_worker(int worker);
  void remove_lost(int worker) const;  // a worker of this node is dead: its memory goes

  // What the board says of the view.
  membership::BoardFacts facts(const View& view) const;
  bool is_open(const View& view) const { return board_->block(view.number).view == view.number; }
  // Closes the view and those that were announced after it, for all workers of the node.
  void close(const View& view) const;
  // The newest step that is complete on the board, seen from a worker that trains or follows
  // `view`; nothing if nobody could continue from there.
  std::optional<std::int64_t> complete(const View& view) const;
  // Prepares the board for a view that is started by message and links the view's block to the
  // previous one, so that the next recovery follows it. `current` is the view that ran here.
  void open_block(const View& current, const View& view) const;

 private:
  bool here(const WorkerAddress& worker) const { return worker.node == options_.node.name; }
  ViewBlock& last_begun(const View& view) const;
  BoardShape board_shape() const;
  Result<DataBoard> shared_data_board(const std::string& board) const;

  Options options_;
  std::optional<Board> board_;
  std::optional<DataBoard> data_board_;
  SegmentMap segments_;
};

}  // namespace rubato::elastic
