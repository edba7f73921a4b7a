// Keys and values of the shared log (shared_log.h), and what etcd's JSON says of them.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "control/standby/shared_log.h"

namespace rubato::control::shared_keys {

using nlohmann::json;
using Pair = SharedLog::Pair;

// Names of keys without the prefix.
std::string log_name(std::int64_t first);
std::string part_name(std::int64_t first);
// The first key after all that begin so.
std::string end_of_prefix(std::string prefix);

// Parts of a transaction.
json put_of(const std::string& key, const std::string& value);
json range_of(const std::string& key);
json delete_of(const std::string& key, const std::string& end);

// The keys and values of an answer to a range.
Result<std::vector<Pair>> pairs_of(const json& range);
// The value of the one key that the n-th part of a transaction asked for; "": it does not exist.
Result<std::string> value_in(const json& answer, std::size_t n);
bool succeeded(const json& answer);

Result<LeaderKey> leader_from(const std::string& text);
Result<NewestKey> newest_from(const std::string& text);
// Makes the text of what the others say.
void write_text(LeaderKey& key);
void write_text(NewestKey& key);

// Something else has written there.
Error not_ours(const std::string& what);

}  // namespace rubato::control::shared_keys
