#include "control/standby/shared_keys.h"

#include <fmt/format.h>

#include <utility>

#include "base/base64.h"
#include "base/json_text.h"
#include "base/sha256.h"
#include "control/json_fields.h"
#include "control/store_events.h"

namespace rubato::control {

namespace shared_keys {

namespace {

constexpr int kDigits = 16;  // so that keys are in the order of numbers

}  // namespace

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

}  // namespace shared_keys

std::string shared_event(const Event& event, const std::string& body) {
  nlohmann::json value = {{"seq", event.seq},   {"at", event.at},          {"type", event.type},
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

Result<Event> event_from_shared(const nlohmann::json& stored) {
  Event event{.seq = whole_in(stored, "seq"),
              .at = 0,
              .type = text_of(stored, "type"),
              .job = whole_in(stored, "job"),
              .tenant = text_of(stored, "tenant"),
              .by = text_of(stored, "by"),
              .from = text_of(stored, "from"),
              .version = static_cast<int>(whole_in(stored, "version"))};
  const nlohmann::json* at = field_of(stored, "at");
  const nlohmann::json* body = field_of(stored, "body");
  if (event.seq <= 0 || event.type.empty() || at == nullptr || !at->is_number() ||
      body == nullptr) {
    return shared_keys::not_ours("an event");
  }
  event.at = at->get<double>();
  event.body = *body;
  return event;
}

}  // namespace rubato::control
