// What those read who follow the shared log.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/base64.h"
#include "base/json_text.h"
#include "base/text.h"
#include "control/json_fields.h"
#include "control/standby/shared_keys.h"
#include "control/standby/shared_log.h"

namespace rubato::control {

namespace {

using nlohmann::json;
using shared_keys::end_of_prefix;
using shared_keys::log_name;
using shared_keys::not_ours;
using shared_keys::pairs_of;
constexpr std::int64_t kCommitsAtOnce = 4;  // an answer has at most 8 MiB
constexpr std::size_t kKeysAtOnce = 64;

}  // namespace

// The events of a commit, which may be in pieces.
Result<json> SharedLog::whole(const json& entry) {
  if (entry.is_array()) return entry;
  const std::string place = text_of(entry, "place");
  if (place.empty()) return not_ours("an event");
  std::string text;
  for (std::int64_t part = 0; part < whole_in(entry, "parts"); ++part) {
    const auto answer =
        client_.call("/v3/kv/range", {{"key", base64(key(fmt::format("{}/{}", place, part)))}});
    if (!answer.ok()) return Error{ErrorCode::kIo, answer.error().message};
    const auto pairs = pairs_of(*answer);
    if (!pairs.ok()) return pairs.error();
    if (pairs->empty()) return Error{ErrorCode::kNotFound, "deleted meanwhile"};
    text += pairs->front().value;
  }
  json events = parse_json(text);
  if (!events.is_array()) return not_ours("an event");
  return events;
}

Result<std::optional<std::vector<json>>> SharedLog::events_after(std::int64_t seq,
                                                                 const NewestKey& newest) {
  std::vector<json> events;
  if (newest.seq <= seq) return std::optional(std::move(events));
  const auto answer =
      client_.call("/v3/kv/range", {{"key", base64(key(log_name(seq + 1)))},
                                    {"range_end", base64(end_of_prefix(key("log/")))},
                                    {"limit", std::to_string(kCommitsAtOnce)}});
  if (!answer.ok()) return Error{ErrorCode::kIo, answer.error().message};
  const auto pairs = pairs_of(*answer);
  if (!pairs.ok()) return pairs.error();
  for (const Pair& pair : *pairs) {
    const std::int64_t next = seq + static_cast<std::int64_t>(events.size()) + 1;
    if (pair.key != key(log_name(next))) break;
    auto commit = whole(parse_json(pair.value));
    if (!commit.ok() && commit.error().code == ErrorCode::kNotFound) break;
    if (!commit.ok()) return commit.error();
    for (json& event : *commit) events.push_back(std::move(event));
  }
  if (events.empty()) return std::optional<std::vector<json>>();
  return std::optional(std::move(events));
}

Result<std::optional<json>> SharedLog::event_at(std::int64_t seq) {
  // The newest commit that begins with it or before.
  const auto answer = client_.call("/v3/kv/range", {{"key", base64(key("log/"))},
                                                    {"range_end", base64(key(log_name(seq + 1)))},
                                                    {"limit", "1"},
                                                    {"sort_order", "DESCEND"},
                                                    {"sort_target", "KEY"}});
  if (!answer.ok()) return Error{ErrorCode::kIo, answer.error().message};
  const auto pairs = pairs_of(*answer);
  if (!pairs.ok()) return pairs.error();
  if (pairs->empty()) return std::optional<json>();
  auto commit = whole(parse_json(pairs->front().value));
  if (!commit.ok() && commit.error().code == ErrorCode::kNotFound) return std::optional<json>();
  if (!commit.ok()) return commit.error();
  for (json& event : *commit) {
    if (whole_in(event, "seq") == seq) return std::optional(std::move(event));
  }
  return std::optional<json>();
}

Result<std::vector<std::int64_t>> SharedLog::firsts() {
  const std::string begin = key("log/");
  const auto answer = client_.call(
      "/v3/kv/range",
      {{"key", base64(begin)}, {"range_end", base64(end_of_prefix(begin))}, {"keys_only", true}});
  if (!answer.ok()) return Error{ErrorCode::kIo, answer.error().message};
  const auto pairs = pairs_of(*answer);
  if (!pairs.ok()) return pairs.error();
  std::vector<std::int64_t> firsts;
  for (const Pair& pair : *pairs) {
    std::string_view digits = std::string_view(pair.key).substr(begin.size());
    digits.remove_prefix(std::min(digits.find_first_not_of('0'), digits.size()));
    const auto first = parse_int(digits);
    if (!first) return not_ours(pair.key);
    firsts.push_back(*first);
  }
  return firsts;
}

Status SharedLog::report(const Standby& standby) {
  const std::string value =
      compact_json({{"url", standby.url}, {"seq", standby.seq}, {"count", standby.count}});
  const auto answer = client_.call(
      "/v3/kv/put", {{"key", base64(key("standby/" + standby.id))}, {"value", base64(value)}});
  return answer.ok() ? ok_status() : Status(Error{ErrorCode::kIo, answer.error().message});
}

Status SharedLog::forget(const std::string& id) {
  const auto answer = client_.call("/v3/kv/deleterange", {{"key", base64(key("standby/" + id))}});
  return answer.ok() ? ok_status() : Status(Error{ErrorCode::kIo, answer.error().message});
}

Result<std::vector<SharedLog::Standby>> SharedLog::standbys() {
  const std::string begin = key("standby/");
  const auto answer = client_.call(
      "/v3/kv/range", {{"key", base64(begin)}, {"range_end", base64(end_of_prefix(begin))}});
  if (!answer.ok()) return Error{ErrorCode::kIo, answer.error().message};
  const auto pairs = pairs_of(*answer);
  if (!pairs.ok()) return pairs.error();
  std::vector<Standby> all;
  for (const Pair& pair : *pairs) {
    const json value = parse_json(pair.value);
    if (!value.is_object()) return not_ours(pair.key);
    all.push_back({.id = pair.key.substr(begin.size()),
                   .url = text_of(value, "url"),
                   .seq = whole_in(value, "seq"),
                   .count = whole_in(value, "count")});
  }
  return all;
}

Result<std::vector<SharedLog::Pair>> SharedLog::read(const std::string& place) {
  const std::string begin = key(place);
  std::vector<Pair> all;
  for (std::string from = begin;;) {
    const auto answer = client_.call("/v3/kv/range", {{"key", base64(from)},
                                                      {"range_end", base64(end_of_prefix(begin))},
                                                      {"limit", std::to_string(kKeysAtOnce)}});
    if (!answer.ok()) return Error{ErrorCode::kIo, answer.error().message};
    auto pairs = pairs_of(*answer);
    if (!pairs.ok()) return pairs.error();
    if (pairs->empty()) break;
    from = pairs->back().key + '\0';
    const bool more = pairs->size() == kKeysAtOnce;
    for (Pair& pair : *pairs) {
      all.push_back({pair.key.substr(begin.size()), std::move(pair.value)});
    }
    if (!more) break;
  }
  return all;
}

}  // namespace rubato::control
