#include "agent/agent_memory.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json_text.h"
#include "base/text.h"
#include "control/json_fields.h"
#include "control/tokens.h"

namespace rubato::agent {

Result<AgentMemory> AgentMemory::open(const std::string& folder) {
  AgentMemory memory(folder);
  const std::string token_file = folder + "/agent.token";
  if (is_file(token_file)) {
    const Result<std::string> text = read_file(token_file);
    if (!text.ok()) return text.error();
    memory.token_ = trim(*text);
  }
  if (memory.token_.empty()) {
    Result<std::string> token = control::random_token();
    if (!token.ok()) return token.error();
    memory.token_ = std::move(*token);
    const Status written = write_private_file(token_file, memory.token_ + "\n");
    if (!written.ok()) return written.error();
  }
  const std::string file = folder + "/agent.json";
  if (is_file(file)) {
    const Result<std::string> text = read_file(file);
    if (!text.ok()) return text.error();
    const nlohmann::json known = parse_json(*text);
    if (!known.is_object()) {
      return invalid_input(fmt::format(
          "{}: expected a JSON object; if it is damaged, end the jobs of this machine and remove "
          "{}: the node then joins anew, under another name",
          file, folder));
    }
    memory.start_ = control::whole_in(known, "start");
    memory.epoch_ = control::whole_in(known, "epoch");
    memory.store_ = control::text_of(known, "store");
    memory.life_ = control::whole_in(known, "life");
  }
  ++memory.start_;
  const Status written = memory.write();
  if (!written.ok()) return written.error();
  return memory;
}

Status AgentMemory::write() const {
  const nlohmann::json known = {
      {"start", start_}, {"epoch", epoch_}, {"store", store_}, {"life", life_}};
  return write_file(folder_ + "/agent.json", compact_json(known) + "\n");
}

Status AgentMemory::obey(std::int64_t epoch) {
  if (epoch <= epoch_) return ok_status();
  epoch_ = epoch;
  return write();
}

Status AgentMemory::begin_life(const std::string& store, std::int64_t life) {
  store_ = store;
  life_ = life;
  return write();
}

}  // namespace rubato::agent
