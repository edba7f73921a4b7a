#include "elastic/job/etcd_registry.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/base64.h"
#include "base/text.h"
#include "elastic/job/etcd_watch.h"

namespace rubato::elastic {

namespace {

using nlohmann::json;

// A watch says when to look; this is for the case that it is broken and nobody has noticed.
constexpr std::chrono::milliseconds kLookBesidesWatch{500};
// The first word of a stored value, so that another meaning can have another one.
constexpr std::string_view kFormat = "rubato1";

Error broken(const std::string& key, const std::string& what) {
  return invalid_input(fmt::format("etcd, key {}: {}", key, what));
}

// The gateway writes 64-bit numbers as text and leaves out what is zero.
std::optional<std::int64_t> int64_of(const json& object, const char* field) {
  const auto found = object.find(field);
  if (found == object.end()) return 0;
  if (found->is_number_integer()) return found->get<std::int64_t>();
  return found->is_string() ? parse_int(found->get_ref<const std::string&>()) : std::nullopt;
}

std::optional<std::string> bytes_of(const json& object, const char* field) {
  const auto found = object.find(field);
  if (found == object.end()) return "";
  return found->is_string() ? parse_base64(found->get_ref<const std::string&>()) : std::nullopt;
}

}  // namespace

std::string EtcdRegistry::version_key(const std::string& name, std::int64_t version) const {
  return fmt::format("{}/{}/{}", prefix_, name, version);
}

// `range`: the answer to a range request for one key.
Result<std::optional<EtcdRegistry::Stored>> EtcdRegistry::stored_in(const json& range,
                                                                    const std::string& key) {
  const auto found = range.find("kvs");
  if (found == range.end()) return std::optional<Stored>();
  if (!found->is_array() || found->size() != 1 || !found->front().is_object()) {
    return broken(key, "the answer is not that of one key");
  }
  const json& entry = found->front();
  const std::optional<std::string> answered = bytes_of(entry, "key");
  const std::optional<std::string> bytes = bytes_of(entry, "value");
  const std::optional<std::int64_t> written = int64_of(entry, "version");
  if (answered != key || !bytes || !written) return broken(key, "the answer cannot be read");
  const std::string_view text = *bytes;
  const std::size_t end = text.find('\n');
  const std::vector<std::string_view> words = split(text.substr(0, end), ' ');
  const std::optional<std::int64_t> version =
      words.size() == 3 ? parse_int(words[1]) : std::optional<std::int64_t>();
  if (end == std::string_view::npos || words.front() != kFormat || !version) {
    return broken(key, "its value was not written by rubato; choose another prefix");
  }
  return std::optional<Stored>(
      Stored{*written, *version, std::string(words[2]), std::string(text.substr(end + 1))});
}

Result<std::optional<EtcdRegistry::Stored>> EtcdRegistry::read(const std::string& key) {
  Result<json> answer = client_.call("/v3/kv/range", {{"key", base64(key)}});
  if (!answer.ok()) return Error{ErrorCode::kIo, answer.error().message};
  return stored_in(*answer, key);
}

Result<Record> EtcdRegistry::get(const std::string& name) {
  const std::string key = newest_key(name);
  Result<std::optional<Stored>> stored = read(key);
  if (!stored.ok()) return stored.error();
  if (!stored->has_value()) return Record{};
  if ((*stored)->version != (*stored)->written) {
    return broken(key, fmt::format("version {} was written {} times; something else has written or "
                                   "removed it",
                                   (*stored)->version, (*stored)->written));
  }
  return Record{(*stored)->version, std::move((*stored)->value)};
}

Result<std::optional<std::string>> EtcdRegistry::at(const std::string& name, std::int64_t version) {
  const std::string key = version_key(name, version);
  Result<std::optional<Stored>> stored = read(key);
  if (!stored.ok()) return stored.error();
  if (!stored->has_value()) return std::optional<std::string>();
  if ((*stored)->version != version) return broken(key, "it holds another version");
  return std::optional<std::string>(std::move((*stored)->value));
}

Result<bool> EtcdRegistry::compare_and_swap(const std::string& name, std::int64_t expected,
                                            const std::string& value) {
  const std::string writer = registry_draft_name();
  const std::string newest = base64(newest_key(name));
  const std::string key = version_key(name, expected + 1);
  const std::string text =
      base64(fmt::format("{} {} {}\n{}", kFormat, expected + 1, writer, value));
  const json transaction = {
      {"compare",
       {{{"key", newest},
         {"target", "VERSION"},
         {"result", "EQUAL"},
         {"version", std::to_string(expected)}},
        {{"key", base64(key)},
         {"target", "CREATE"},
         {"result", "EQUAL"},
         {"create_revision", "0"}}}},
      {"success",
       {{{"request_put", {{"key", newest}, {"value", text}}}},
        {{"request_put", {{"key", base64(key)}, {"value", text}}}}}},
      {"failure", json::array({{{"request_range", {{"key", base64(key)}}}}})}};
  bool doubtful = false;
  Result<json> answer = client_.call("/v3/kv/txn", transaction, &doubtful);
  if (!answer.ok()) return answer.error();
  const auto succeeded = answer->find("succeeded");
  if (succeeded != answer->end() && *succeeded == true) return true;
  const auto responses = answer->find("responses");
  const bool readable = responses != answer->end() && responses->is_array() &&
                        responses->size() == 1 && responses->front().is_object() &&
                        responses->front().contains("response_range") &&
                        responses->front()["response_range"].is_object();
  if (!readable) return Error{ErrorCode::kIo, broken(key, "the answer cannot be read").message};
  Result<std::optional<Stored>> winner = stored_in(responses->front()["response_range"], key);
  if (!winner.ok()) return winner.error();
  if (winner->has_value()) return (*winner)->writer == writer;
  if (!doubtful) return false;
  // An attempt that got no answer may still arrive, and then win after all.
  return Error{ErrorCode::kIo,
               broken(key, "an earlier attempt got no answer and may still be made").message};
}

std::chrono::milliseconds EtcdRegistry::look_interval() const { return kLookBesidesWatch; }

std::unique_ptr<RegistryWatch> EtcdRegistry::watch(std::function<void()> changed) {
  return std::make_unique<EtcdWatch>(client_, prefix_ + "/newest/", std::move(changed));
}

}  // namespace rubato::elastic
