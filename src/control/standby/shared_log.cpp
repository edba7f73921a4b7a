#include "control/standby/shared_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/base64.h"
#include "base/json_text.h"
#include "base/sha256.h"
#include "base/text.h"
#include "control/json_fields.h"
#include "control/store_events.h"
#include "control/tokens.h"

namespace rubato::control {

namespace {

using nlohmann::json;
using Outcome = SharedLog::Outcome;
using Answer = SharedLog::Answer;

// etcd takes 1.5 MiB in a request.
constexpr std::size_t kMostValue = 1 << 20;
constexpr std::int64_t kCommitsAtOnce = 4;  // an answer has at most 8 MiB
constexpr std::size_t kKeysAtOnce = 64;
constexpr int kDigits = 16;  // so that keys are in the order of numbers

std::string log_name(std::int64_t first) { return fmt::format("log/{:0{}}", first, kDigits); }
std::string part_name(std::int64_t first) { return fmt::format("part/{:0{}}", first, kDigits); }

// The first key after all that begin so.
std::string end_of_prefix(std::string prefix) {
  ++prefix.back();
  return prefix;
}

json put_of(const std::string& key, const std::string& value) {
  return {{"request_put", {{"key", base64(key)}, {"value", base64(value)}}}};
}
json range_of(const std::string& key) { return {{"request_range", {{"key", base64(key)}}}}; }
json delete_of(const std::string& key, const std::string& end) {
  return {{"request_delete_range", {{"key", base64(key)}, {"range_end", base64(end)}}}};
}

Error not_ours(const std::string& what) {
  return invalid_input(
      fmt::format("etcd: {} was not written by rubatod; choose another prefix", what));
}

using Pair = SharedLog::Pair;
// The keys and values of an answer to a range.
Result<std::vector<Pair>> pairs_of(const json& range) {
  std::vector<Pair> pairs;
  const json* list = field_of(range, "kvs");
  if (list == nullptr) return pairs;
  if (!list->is_array()) return not_ours("the answer");
  for (const json& entry : *list) {
    const auto key = parse_base64(text_of(entry, "key"));
    const auto value = parse_base64(text_of(entry, "value"));
    if (!key || !value) return not_ours("the answer");
    pairs.push_back({*key, *value});
  }
  return pairs;
}
// The value of the one key that the n-th part of a transaction asked for; "": it does not exist.
Result<std::string> value_in(const json& answer, std::size_t n) {
  const json* responses = field_of(answer, "responses");
  if (responses == nullptr || !responses->is_array() || responses->size() <= n) {
    return not_ours("the answer");
  }
  const json* range = field_of((*responses)[n], "response_range");
  if (range == nullptr) return not_ours("the answer");
  auto pairs = pairs_of(*range);
  if (!pairs.ok()) return pairs.error();
  return pairs->empty() ? std::string() : pairs->front().value;
}

bool succeeded(const json& answer) {
  const json* field = field_of(answer, "succeeded");
  return field != nullptr && *field == true;
}

Result<LeaderKey> leader_from(const std::string& text) {
  const json value = parse_json(text);
  if (!value.is_object() || text_of(value, "claim").empty()) return not_ours("the key leader");
  return LeaderKey{.text = text,
                   .id = text_of(value, "id"),
                   .url = text_of(value, "url"),
                   .tokens = text_of(value, "tokens"),
                   .claim = text_of(value, "claim"),
                   .term = whole_in(value, "term")};
}
void write_text(LeaderKey& key) {
  key.text = compact_json({{"id", key.id},
                           {"url", key.url},
                           {"tokens", key.tokens},
                           {"claim", key.claim},
                           {"term", key.term}});
}

Result<NewestKey> newest_from(const std::string& text) {
  const json value = parse_json(text);
  if (!value.is_object() || text_of(value, "store").empty() || whole_in(value, "seq") < 0) {
    return not_ours("the key newest");
  }
  return NewestKey{.text = text,
                   .store = text_of(value, "store"),
                   .seq = whole_in(value, "seq"),
                   .commit = text_of(value, "commit"),
                   .began = whole_in(value, "began"),
                   .began_digest = text_of(value, "began_digest")};
}
void write_text(NewestKey& key) {
  key.text = compact_json({{"store", key.store},
                           {"seq", key.seq},
                           {"commit", key.commit},
                           {"began", key.began},
                           {"began_digest", key.began_digest}});
}

Answer lost() { return {Outcome::kLost, "another daemon leads now"}; }
Answer unanswered(const Error& error) {
  return {error.code == ErrorCode::kRefused ? Outcome::kAway : Outcome::kUnknown, error.message};
}
// etcd has answered, but not what it could have.
Answer unreadable(const Error& error) { return {Outcome::kUnknown, error.message}; }

}  // namespace

Result<json> SharedLog::transact(const std::vector<Compared>& compare, json success, json failure) {
  json comparisons = json::array();
  for (const Compared& each : compare) {
    json one = {{"key", base64(key(each.key))}, {"result", "EQUAL"}};
    if (each.value.empty()) {
      one.update({{"target", "CREATE"}, {"create_revision", "0"}});
    } else {
      one.update({{"target", "VALUE"}, {"value", base64(each.value)}});
    }
    comparisons.push_back(std::move(one));
  }
  return client_.call("/v3/kv/txn", {{"compare", std::move(comparisons)},
                                     {"success", std::move(success)},
                                     {"failure", std::move(failure)}});
}

Result<SharedLog::View> SharedLog::look() {
  const auto answer = transact(
      {}, {range_of(key("leader")), range_of(key("newest")), range_of(key("beat"))}, json::array());
  if (!answer.ok()) return Error{ErrorCode::kIo, answer.error().message};
  View view;
  const auto leader = value_in(*answer, 0);
  if (!leader.ok()) return leader.error();
  if (!leader->empty()) {
    auto read = leader_from(*leader);
    if (!read.ok()) return read.error();
    view.leader = std::move(*read);
  }
  const auto newest = value_in(*answer, 1);
  if (!newest.ok()) return newest.error();
  if (!newest->empty()) {
    auto read = newest_from(*newest);
    if (!read.ok()) return read.error();
    view.newest = std::move(*read);
  }
  const auto beat = value_in(*answer, 2);
  if (!beat.ok()) return beat.error();
  view.beat = *beat;
  return view;
}

// --- Leading

SharedLog::Answer SharedLog::claim(const View& seen, LeaderKey& wish, const NewestKey& first) {
  const auto claim = random_uid();
  if (!claim.ok()) return {Outcome::kAway, claim.error().message};
  wish.claim = *claim;
  write_text(wish);
  json success = {put_of(key("leader"), wish.text)};
  if (!seen.newest) {
    NewestKey newest = first;
    write_text(newest);
    success.push_back(put_of(key("newest"), newest.text));
  }
  const auto answer = transact({{"leader", seen.leader ? seen.leader->text : ""},
                                {"newest", seen.newest ? seen.newest->text : ""},
                                {"beat", seen.beat}},
                               std::move(success), {range_of(key("leader"))});
  if (!answer.ok()) return unanswered(answer.error());
  if (succeeded(*answer)) return {Outcome::kDone};
  const auto leader = value_in(*answer, 0);
  if (!leader.ok()) return unreadable(leader.error());
  return *leader == wish.text ? Answer{Outcome::kDone} : lost();
}

SharedLog::Answer SharedLog::renew(const LeaderKey& was, LeaderKey& now, NewestKey& newest) {
  const auto claim = random_uid();
  if (!claim.ok()) return {Outcome::kAway, claim.error().message};
  now = was;
  now.claim = *claim;
  write_text(now);
  const auto answer =
      transact({{"leader", was.text}}, {put_of(key("leader"), now.text), range_of(key("newest"))},
               {range_of(key("leader")), range_of(key("newest"))});
  if (!answer.ok()) return unanswered(answer.error());
  if (!succeeded(*answer)) {
    const auto leader = value_in(*answer, 0);
    if (!leader.ok()) return unreadable(leader.error());
    if (*leader != now.text) return lost();
  }
  const auto text = value_in(*answer, 1);
  if (!text.ok()) return unreadable(text.error());
  auto read = newest_from(*text);
  if (!read.ok()) return unreadable(read.error());
  newest = std::move(*read);
  return {Outcome::kDone};
}

// The pieces are written before the commit that names them. They have the commit's id, so that a
// piece of an earlier try that arrives late is none of them.
SharedLog::Answer SharedLog::put_parts(const LeaderKey& leader, const NewestKey& newest,
                                       const std::string& place, const std::string& text,
                                       std::size_t& parts) {
  for (parts = 0; parts * kMostValue < text.size(); ++parts) {
    const auto answer = transact({{"leader", leader.text}, {"newest", newest.text}},
                                 {put_of(key(fmt::format("{}/{}", place, parts)),
                                         text.substr(parts * kMostValue, kMostValue))},
                                 json::array());
    // Without the commit, pieces mean nothing.
    if (!answer.ok()) return {Outcome::kAway, answer.error().message};
    if (!succeeded(*answer)) return lost();
  }
  return {Outcome::kDone};
}

SharedLog::Answer SharedLog::append(const LeaderKey& leader, NewestKey& newest,
                                    const Commit& commit, NewestKey& pending) {
  const auto id = random_uid();
  if (!id.ok()) return {Outcome::kAway, id.error().message};
  pending = newest;
  pending.commit = *id;
  pending.seq = commit.first + static_cast<std::int64_t>(commit.events.size()) - 1;
  write_text(pending);
  std::string text = fmt::format("[{}]", join(commit.events, ","));
  if (text.size() > kMostValue) {
    const std::string place = fmt::format("{}/{}", part_name(commit.first), *id);
    std::size_t parts = 0;
    Answer put = put_parts(leader, newest, place, text, parts);
    if (put.outcome != Outcome::kDone) return put;
    text = compact_json({{"place", place}, {"parts", parts}});
  }
  const auto answer =
      transact({{"leader", leader.text}, {"newest", newest.text}},
               {put_of(key("newest"), pending.text), put_of(key(log_name(commit.first)), text)},
               {range_of(key("leader")), range_of(key("newest"))});
  if (!answer.ok()) return unanswered(answer.error());
  if (!succeeded(*answer)) {
    const auto now = value_in(*answer, 1);
    if (!now.ok()) return unreadable(now.error());
    if (*now != pending.text) return lost();
  }
  newest = pending;
  return {Outcome::kDone};
}

SharedLog::Answer SharedLog::guarded(const LeaderKey& leader, json success) {
  const auto answer = transact({{"leader", leader.text}}, std::move(success), json::array());
  if (!answer.ok()) return unanswered(answer.error());
  return succeeded(*answer) ? Answer{Outcome::kDone} : lost();
}

SharedLog::Answer SharedLog::beat(const LeaderKey& leader, std::int64_t count) {
  return guarded(leader,
                 {put_of(key("beat"), compact_json({{"claim", leader.claim}, {"count", count}}))});
}

SharedLog::Answer SharedLog::trim(const LeaderKey& leader, std::int64_t first) {
  return guarded(leader, {delete_of(key("log/"), key(log_name(first))),
                          delete_of(key("part/"), key(part_name(first)))});
}

void SharedLog::resign(const LeaderKey& leader) {
  LeaderKey nobody = leader;
  nobody.id.clear();
  write_text(nobody);
  static_cast<void>(guarded(leader, {put_of(key("leader"), nobody.text)}));
}

// --- Following

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

// --- Other keys

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

SharedLog::Answer SharedLog::create(const LeaderKey& leader, const std::string& name,
                                    const std::string& value, bool& won) {
  const auto answer = transact({{"leader", leader.text}, {name, ""}}, {put_of(key(name), value)},
                               {range_of(key(name)), range_of(key("leader"))});
  if (!answer.ok()) return unanswered(answer.error());
  won = succeeded(*answer);
  if (won) return {Outcome::kDone};
  const auto now = value_in(*answer, 0);
  if (!now.ok()) return unreadable(now.error());
  won = *now == value;
  return now->empty() ? lost() : Answer{Outcome::kDone};
}

SharedLog::Answer SharedLog::remove(const LeaderKey& leader, const std::string& name) {
  const std::string begin = key(name);
  const std::string end = begin.back() == '/' ? end_of_prefix(begin) : begin + '\0';
  return guarded(leader, {delete_of(begin, end)});
}

// --- Events

std::string shared_event(const Event& event, const std::string& body) {
  json value = {{"seq", event.seq},   {"at", event.at},          {"type", event.type},
                {"job", event.job},   {"tenant", event.tenant},  {"by", event.by},
                {"from", event.from}, {"version", event.version}};
  std::string text = compact_json(value);
  text.pop_back();
  return text + ",\"body\":" + body + "}";
}

Result<std::string> shared_digest(Event event) {
  const auto body = stored_body(event);
  if (!body.ok()) return body.error();
  return sha256_hex(compact_json(parse_json(shared_event(event, *body))));
}

Result<Event> event_from_shared(const json& stored) {
  Event event{.seq = whole_in(stored, "seq"),
              .at = 0,
              .type = text_of(stored, "type"),
              .job = whole_in(stored, "job"),
              .tenant = text_of(stored, "tenant"),
              .by = text_of(stored, "by"),
              .from = text_of(stored, "from"),
              .version = static_cast<int>(whole_in(stored, "version"))};
  const json* at = field_of(stored, "at");
  const json* body = field_of(stored, "body");
  if (event.seq <= 0 || event.type.empty() || at == nullptr || !at->is_number() ||
      body == nullptr) {
    return not_ours("an event");
  }
  event.at = at->get<double>();
  event.body = *body;
  return event;
}

}  // namespace rubato::control
