#include "elastic/transport/message_text.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace rubato::elastic {

namespace m = membership;

namespace {

using nlohmann::json;

struct KindOf {
  Message operator()(const m::Join&) const { return Message::kJoin; }
  Message operator()(const m::Accepted&) const { return Message::kAccepted; }
  Message operator()(const m::Refused&) const { return Message::kRefused; }
  Message operator()(const m::Ready&) const { return Message::kReady; }
  Message operator()(const m::Leave&) const { return Message::kLeave; }
  Message operator()(const m::Bye&) const { return Message::kBye; }
  Message operator()(const m::JobFinished&) const { return Message::kFinished; }
  Message operator()(const m::Prepare&) const { return Message::kPrepare; }
  Message operator()(const m::Prepared&) const { return Message::kPrepared; }
  Message operator()(const m::Freeze&) const { return Message::kFreeze; }
  Message operator()(const m::Frozen&) const { return Message::kFrozen; }
  Message operator()(const m::Start&) const { return Message::kStart; }
  Message operator()(const m::Broken&) const { return Message::kBroken; }
};

struct BodyOf {
  json operator()(const m::Join& join) const {
    json traits = json::object();
    for (const Program::Trait& trait : join.traits) traits[trait.name] = trait.value;
    return {{"address", to_json(join.address)},
            {"description", join.description},
            {"fingerprint", std::move(traits)}};
  }
  json operator()(const m::Accepted&) const { return json::object(); }
  json operator()(const m::Refused& refused) const {
    return {{"reason", refused.reason}, {"retry", refused.retry}};
  }
  json operator()(const m::Ready& ready) const { return {{"ready", ready.ready}}; }
  json operator()(const m::Leave&) const { return json::object(); }
  json operator()(const m::Bye& bye) const { return {{"done", bye.done}}; }
  json operator()(const m::JobFinished&) const { return json::object(); }
  json operator()(const m::Prepare& prepare) const {
    return {{"view", to_json(*prepare.view)}, {"attempt", prepare.proposal.attempt}};
  }
  json operator()(const m::Prepared& prepared) const {
    return {{"view", prepared.proposal.view},
            {"leader", prepared.proposal.leader},
            {"attempt", prepared.proposal.attempt}};
  }
  json operator()(const m::Freeze& freeze) const { return {{"next", freeze.next}}; }
  json operator()(const m::Frozen& frozen) const {
    json body = {{"next", frozen.next}};
    if (frozen.complete) body["complete"] = *frozen.complete;
    return body;
  }
  json operator()(const m::Start& start) const {
    json lost = json::array();
    for (const WorkerAddress& worker : start.lost) lost.push_back(to_json(worker));
    return {{"view", to_json(*start.view)},
            {"source", start.source},
            {"lagging", start.lagging},
            {"lost", std::move(lost)}};
  }
  json operator()(const m::Broken& broken) const {
    json body = {{"view", broken.view}, {"reason", broken.reason}};
    if (broken.lost) body["lost"] = *broken.lost;
    return body;
  }
};

m::ViewPtr view_in(const json& body) {
  const auto found = body.find("view");
  if (found == body.end()) return nullptr;
  Result<View> view = parse_view(*found);
  return view.ok() ? std::make_shared<const View>(std::move(*view)) : nullptr;
}

std::vector<Program::Trait> traits_in(const json& body) {
  std::vector<Program::Trait> traits;
  const auto found = body.find("fingerprint");
  if (found == body.end() || !found->is_object()) return traits;
  for (const auto& [name, value] : found->items()) {
    if (value.is_string()) traits.push_back({name, value.get<std::string>()});
  }
  return traits;
}

template <typename T>
std::optional<T> optional_in(const json& body, const char* name) {
  const auto found = body.find(name);
  if (found == body.end()) return std::nullopt;
  return found->get<T>();
}

// May throw: a field may be missing or of another type.
std::optional<m::Message> parse(int from, Message kind, const json& body) {
  switch (kind) {
    case Message::kJoin: {
      Result<WorkerAddress> address = parse_address(body.at("address"));
      if (!address.ok()) return std::nullopt;
      return m::Join{std::move(*address), body.at("description").get<std::string>(),
                     traits_in(body)};
    }
    case Message::kAccepted:
      return m::Accepted{};
    case Message::kRefused:
      return m::Refused{body.at("reason").get<std::string>(), body.at("retry").get<bool>()};
    case Message::kReady:
      return m::Ready{body.at("ready").get<bool>()};
    case Message::kPrepare: {
      const m::ViewPtr view = view_in(body);
      if (!view) return std::nullopt;
      return m::Prepare{view, {view->number, from, body.at("attempt").get<std::int64_t>()}};
    }
    case Message::kPrepared:
      return m::Prepared{{body.at("view").get<std::int64_t>(), body.at("leader").get<int>(),
                          body.at("attempt").get<std::int64_t>()}};
    case Message::kFreeze:
      return m::Freeze{body.at("next").get<std::int64_t>()};
    case Message::kFrozen:
      return m::Frozen{body.at("next").get<std::int64_t>(),
                       optional_in<std::int64_t>(body, "complete")};
    case Message::kStart: {
      const m::ViewPtr view = view_in(body);
      if (!view) return std::nullopt;
      m::Start start{view,
                     body.at("source").get<std::string>(),
                     body.at("lagging").get<std::vector<std::string>>(),
                     {}};
      for (const json& worker : body.at("lost")) {
        Result<WorkerAddress> address = parse_address(worker);
        if (!address.ok()) return std::nullopt;
        start.lost.push_back(std::move(*address));
      }
      return start;
    }
    case Message::kLeave:
      return m::Leave{};
    case Message::kBye:
      return m::Bye{body.at("done").get<bool>()};
    case Message::kFinished:
      return m::JobFinished{};
    case Message::kBroken:
      return m::Broken{body.at("view").get<std::int64_t>(), optional_in<int>(body, "lost"),
                       body.at("reason").get<std::string>()};
    case Message::kPing:
    case Message::kHello:
    case Message::kStream:
      return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

Message kind_of(const m::Message& message) { return std::visit(KindOf(), message); }

nlohmann::json body_of(const m::Message& message) { return std::visit(BodyOf(), message); }

std::optional<m::Message> parse_message(int from, Message kind, const nlohmann::json& body) {
  if (!body.is_object()) return std::nullopt;
  try {
    return parse(from, kind, body);
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

}  // namespace rubato::elastic
