#include "control/standby/shared_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/base64.h"
#include "base/json_text.h"
#include "base/text.h"
#include "control/json_fields.h"
#include "control/standby/shared_keys.h"
#include "control/tokens.h"

namespace rubato::control {

namespace {

using nlohmann::json;
using shared_keys::delete_of;
using shared_keys::end_of_prefix;
using shared_keys::leader_from;
using shared_keys::log_name;
using shared_keys::newest_from;
using shared_keys::part_name;
using shared_keys::put_of;
using shared_keys::range_of;
using shared_keys::succeeded;
using shared_keys::value_in;
using shared_keys::write_text;
using Outcome = SharedLog::Outcome;
using Answer = SharedLog::Answer;

// etcd takes 1.5 MiB in a request.
constexpr std::size_t kMostValue = 1 << 20;

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

// --- Other keys

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

}  // namespace rubato::control
