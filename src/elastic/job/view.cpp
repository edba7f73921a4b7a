#include "elastic/job/view.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "elastic/job/node_names.h"

namespace rubato::elastic {

const Member* View::find(int worker) const {
  const int at = position(worker);
  return at < 0 ? nullptr : &members[static_cast<std::size_t>(at)];
}

int View::position(int worker) const {
  const auto found = std::find_if(members.begin(), members.end(),
                                  [&](const Member& m) { return m.address.id == worker; });
  return found == members.end() ? -1 : static_cast<int>(found - members.begin());
}

std::vector<std::vector<std::size_t>> View::positions_by_node() const {
  std::vector<std::vector<std::size_t>> nodes;
  for (std::size_t position = 0; position < members.size(); ++position) {
    const std::string& node = members[position].address.node;
    const auto found = std::find_if(nodes.begin(), nodes.end(), [&](const auto& positions) {
      return members[positions.front()].address.node == node;
    });
    if (found == nodes.end()) {
      nodes.push_back({position});
    } else {
      found->push_back(position);
    }
  }
  return nodes;
}

std::vector<int> View::ids() const {
  std::vector<int> result;
  for (const Member& member : members) result.push_back(member.address.id);
  return result;
}

nlohmann::json to_json(const WorkerAddress& address) {
  return {{"id", address.id},      {"node", address.node}, {"host", address.host},
          {"port", address.port},  {"pid", address.pid},   {"segment", address.segment},
          {"board", address.board}};
}

nlohmann::json to_json(const View& view) {
  nlohmann::json members = nlohmann::json::array();
  for (const Member& member : view.members) {
    nlohmann::json entry = to_json(member.address);
    entry["hosts"] = {member.hosts.begin, member.hosts.end};
    members.push_back(std::move(entry));
  }
  return {{"view", view.number},   {"first_step", view.first_step}, {"cause", view.cause},
          {"leader", view.leader}, {"board", view.board},           {"members", members},
          {"batch", view.batch},   {"prepare_s", view.prepare_s},   {"audits", view.audits},
          {"audit", view.audit}};
}

namespace {

// Reads fields of one object and remembers the first problem.
class Fields {
 public:
  Fields(const nlohmann::json& json, std::string what) : json_(json), what_(std::move(what)) {
    if (!json.is_object()) problem_ = fmt::format("{} is not an object", what_);
  }
  std::int64_t integer(const char* name) {
    const nlohmann::json* field = get(name, &nlohmann::json::is_number_integer, "an integer");
    return field == nullptr ? 0 : field->get<std::int64_t>();
  }
  bool truth(const char* name) {
    const nlohmann::json* field = get(name, &nlohmann::json::is_boolean, "true or false");
    return field != nullptr && field->get<bool>();
  }
  double number(const char* name) {
    const nlohmann::json* field = get(name, &nlohmann::json::is_number, "a number");
    return field == nullptr ? 0 : field->get<double>();
  }
  std::string text(const char* name) {
    const nlohmann::json* field = get(name, &nlohmann::json::is_string, "a string");
    return field == nullptr ? "" : field->get<std::string>();
  }
  const nlohmann::json* list(const char* name) {
    return get(name, &nlohmann::json::is_array, "an array");
  }
  const std::string& problem() const { return problem_; }

 private:
  const nlohmann::json* get(const char* name, bool (nlohmann::json::*is)() const noexcept,
                            const char* expected) {
    if (!problem_.empty()) return nullptr;
    const auto found = json_.find(name);
    if (found == json_.end() || !((*found).*is)()) {
      problem_ = fmt::format("{}: field '{}' must be {}", what_, name, expected);
      return nullptr;
    }
    return &*found;
  }
  const nlohmann::json& json_;
  std::string what_;
  std::string problem_;
};

}  // namespace

Result<WorkerAddress> parse_address(const nlohmann::json& json) {
  Fields fields(json, "worker address");
  WorkerAddress address;
  const std::int64_t id = fields.integer("id");
  address.node = fields.text("node");
  address.host = fields.text("host");
  const std::int64_t port = fields.integer("port");
  address.pid = fields.integer("pid");
  address.segment = fields.text("segment");
  address.board = fields.text("board");
  if (!fields.problem().empty()) return invalid_input(fields.problem());
  if (id < 0 || id > 1'000'000'000) return invalid_input("worker address: id out of range");
  if (port < 1 || port > 65535) return invalid_input("worker address: port out of range");
  if (address.pid < 1) return invalid_input("worker address: pid out of range");
  if (!is_node_name(address.node)) return invalid_input("worker address: invalid node name");
  if (address.segment.find('/') != std::string::npos ||
      address.board.find('/') != std::string::npos) {
    return invalid_input("worker address: a segment name must not contain a slash");
  }
  address.id = static_cast<int>(id);
  address.port = static_cast<int>(port);
  return address;
}

Result<View> parse_view(const nlohmann::json& json) {
  Fields fields(json, "view");
  View view;
  view.number = fields.integer("view");
  view.first_step = fields.integer("first_step");
  view.cause = fields.text("cause");
  view.leader = static_cast<int>(fields.integer("leader"));
  view.board = fields.text("board");
  view.batch = fields.integer("batch");
  view.prepare_s = fields.number("prepare_s");
  // Workers of an older version do not write these.
  if (json.is_object() && json.contains("audits")) {
    view.audits = fields.integer("audits");
    view.audit = fields.truth("audit");
  }
  const nlohmann::json* members = fields.list("members");
  if (!fields.problem().empty()) return invalid_input(fields.problem());
  if (view.batch < (members->empty() ? 0 : 1))
    return invalid_input("view: the batch must be positive");
  std::set<int> ids;
  int next = 0;
  for (const nlohmann::json& entry : *members) {
    Result<WorkerAddress> address = parse_address(entry);
    if (!address.ok()) return address.error();
    const auto hosts = entry.find("hosts");
    if (hosts == entry.end() || !hosts->is_array() || hosts->size() != 2 ||
        !(*hosts)[0].is_number_integer() || !(*hosts)[1].is_number_integer()) {
      return invalid_input("view: 'hosts' of a member must be [begin, end]");
    }
    const LogicalRange range{(*hosts)[0].get<int>(), (*hosts)[1].get<int>()};
    if (range.begin != next || range.size() < 1) {
      return invalid_input("view: the members' logical workers must be consecutive");
    }
    next = range.end;
    if (!ids.insert(address->id).second) return invalid_input("view: a worker is listed twice");
    view.members.push_back({std::move(*address), range});
  }
  if (!view.members.empty() && view.find(view.leader) == nullptr) {
    return invalid_input("view: the leader is not a member");
  }
  return view;
}

}  // namespace rubato::elastic
