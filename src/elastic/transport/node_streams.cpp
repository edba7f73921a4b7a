#include "elastic/transport/node_streams.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace rubato::elastic {

using membership::Proposal;
using membership::ViewPtr;

bool NodeStreams::is_gateway(const View& view) const {
  return several_nodes(view) && gateway_of(view, node_) == worker_;
}

// --- Bridges -------------------------------------------------------------------------------------

bool NodeStreams::ready_for(const std::shared_ptr<const ActiveView>& view,
                            const Proposal& proposal) {
  if (!is_gateway(view->view)) return true;
  std::unique_ptr<Bridge>& bridge = bridges_[view->view.number];
  if (!bridge || proposals_[view->view.number] != proposal || !bridge->problem().empty()) {
    bridge.reset();
    bridge = std::make_unique<Bridge>(
        view, memory_.boards(),
        Bridge::Options{.node = node_, .identity = identity_, .proposal = proposal});
    proposals_[view->view.number] = proposal;
    used_ = true;
  }
  return bridge->connected();
}

Result<bool> NodeStreams::restored(const membership::Restore& start) {
  const View& view = *start.view;
  if (!is_gateway(view)) return true;
  std::unique_ptr<Bridge>& bridge = bridges_[view.number];
  if (!bridge || proposals_.contains(view.number) || !bridge->problem().empty()) {
    Result<std::shared_ptr<const ActiveView>> active = memory_.map_view(view);
    if (!active.ok()) return active.error();
    bridge.reset();
    bridge = std::make_unique<Bridge>(
        *active, memory_.boards(),
        Bridge::Options{.node = node_, .identity = identity_, .proposal = std::nullopt});
    proposals_.erase(view.number);
    bridge->start({view.first_step, start.source, start.lagging});
    used_ = true;
  }
  return bridge->restored();
}

std::string NodeStreams::problem(const View& view) const {
  if (!is_gateway(view)) return "";
  const auto bridge = bridges_.find(view.number);
  if (bridge != bridges_.end()) return bridge->second->problem();
  return fmt::format("view {} has no bridge on node {}", view.number, node_);
}

void NodeStreams::stop_receiving() {
  feed_.reset();
  bridges_.clear();
  proposals_.clear();
}

// --- Feeds ---------------------------------------------------------------------------------------

void NodeStreams::know(const std::vector<ViewPtr>& views) {
  const MutexLock lock(mutex_);
  known_.clear();
  for (const ViewPtr& view : views) known_[view->number] = view;
}

FeedClient::Options::Successor NodeStreams::successor(std::int64_t number) {
  using Successor = FeedClient::Options::Successor;
  if (number == 0) return Successor::kNobody;
  const MutexLock lock(mutex_);
  const auto found = known_.find(number);
  if (found == known_.end()) return Successor::kUnknown;
  if (gateway_of(*found->second, node_) < 0) return Successor::kNobody;
  return found->second->planned() ? Successor::kBridge : Successor::kGateway;
}

std::string NodeStreams::feed_board(const Situation& now) {
  const View& current = *now.view;
  const View& newest = *now.newest;
  const Board& board = memory_.board();
  if (feed_ && feed_->ended()) feed_.reset();
  const int gateway = gateway_of(newest, node_);
  if (!now.member && gateway >= 0 && newest.find(worker_) == nullptr &&
      newest.find(gateway)->address.board != board.name()) {
    return "workers of this node have joined on another board";
  }
  // Also as a member of the next view, until the board says that it begins.
  const bool wanted = now.newcomer && !current.empty() && current.find(worker_) == nullptr &&
                      gateway_of(current, node_) < 0 &&
                      (gateway < 0 || (newest.planned() && newest.find(worker_) != nullptr));
  if (!feed_) {
    const bool used = board.used() != 0;
    if (!wanted || (!used && !board.try_lock())) return "";
    if (!now.fresh()) return "";  // another worker of this node may have become a member
    using Successor = FeedClient::Options::Successor;
    // An earlier feeder may have known newer views: to tell them once more would undo what has
    // begun.
    const std::int64_t from = std::max(current.number, board.newest_view());
    const ViewBlock& block = board.block(from);
    if ((from > current.number && successor(from) != Successor::kNobody) ||
        (block.view == from && successor(block.next_view) != Successor::kNobody)) {
      return "";  // nothing more to feed, or not known yet
    }
    // Former members, stopped or leaving, may still write to it.
    if (used) return "all other workers of this node have left the job";
    used_ = true;
    feed_ = std::make_unique<FeedClient>(
        memory_.boards(),
        FeedClient::Options{
            .identity = identity_, .view = from, .successor = [this](std::int64_t number) {
              return successor(number);
            }});
  }
  const int donor = feed_->donor();
  if (donor >= 0 && current.find(donor) != nullptr && now.connected(donor)) return "";
  for (const Member& member : current.members) {
    if (!now.connected(member.address.id)) continue;
    feed_->set_donor(member.address);
    break;
  }
  return "";
}

std::function<void(Stream)> NodeStreams::on_stream(int peer, const nlohmann::json& purpose,
                                                   const Situation& now) {
  if (!purpose.is_object() || !memory_.has_board()) return {};
  const auto stream = purpose.find("stream");
  if (stream != purpose.end() && *stream == kFeedPurpose) {
    if (!now.serves) return {};  // not a member (yet)
    return [this, number = now.view->number](Stream opened) {
      if (!feed_server_) {
        feed_server_ = std::make_unique<FeedServer>(memory_.boards(), memory_.own(), shape_);
      }
      feed_server_->set_view(number);
      feed_server_->serve(std::move(opened));
      used_ = true;
    };
  }
  for (const auto& [number, bridge] : bridges_) {
    if (!bridge->expects(peer, purpose)) continue;
    return [taker = bridge.get(), peer](Stream opened) { taker->accept(peer, std::move(opened)); };
  }
  return {};
}

std::unique_ptr<Donor> NodeStreams::donor(const WorkerAddress& worker) const {
  return std::make_unique<RemoteDonor>(worker, identity_);
}

void NodeStreams::tidy(const Situation& now) {
  if (feed_server_) {
    feed_server_->reap();
    if (now.member) feed_server_->set_view(now.view->number);
  }
  std::erase_if(bridges_, [&](const auto& entry) {
    return entry.first < now.view->number &&
           (entry.second->finished() || !entry.second->problem().empty());
  });
}

NodeStreams::Delivery NodeStreams::deliver(const View& current) {
  if (!used_) return {true, true};  // everything is on this node's board; others pass it on
  const std::int64_t next = memory_.board().block(current.number).next_view;
  Delivery delivery{.over = !feed_server_ || next == 0 || feed_server_->told(next),
                    .delivered = true};
  for (const auto& [number, bridge] : bridges_) {
    if (number > current.number) continue;
    bridge->close();
    delivery.delivered = delivery.delivered && bridge->finished();
    delivery.over = delivery.over && (bridge->finished() || !bridge->problem().empty());
  }
  return delivery;
}

void NodeStreams::stop() {
  feed_.reset();  // their threads use the board
  feed_server_.reset();
  bridges_.clear();
}

}  // namespace rubato::elastic
