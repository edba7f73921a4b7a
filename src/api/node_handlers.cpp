// Nodes: for people, and for the agents that run jobs there (control/cluster/).
#include <fmt/format.h>
#include <unistd.h>

#include "api/handlers.h"
#include "control/cluster/job_copy.h"
#include "control/cluster/node_sync.h"

namespace rubato::api {

namespace {

using control::JobCopy;
using control::NodeChange;
using nlohmann::json;

Reply change(const Call& call, NodeChange what, double within_s = 0) {
  const Status done = call.controller.change_node(call.caller, call.text("node"), what, within_s);
  return done.ok() ? Reply{.status = 204, .content_type = ""} : error_reply(done.error());
}

// The copy of a job's folder, for the node that has the job. The agent of one node must not name
// another. A daemon that stands by, as an administrator, may have all.
Result<JobCopy> copy_of(const Call& call) {
  if (!call.caller.admin && call.caller.node != call.text("node")) {
    return Error{ErrorCode::kForbidden, fmt::format("this token is for node {}", call.caller.node)};
  }
  const Result<std::string> folder = call.controller.job_copy(call.caller, call.number("job"));
  if (!folder.ok()) return folder.error();
  return JobCopy(*folder);
}

Reply other_node(const Call& call) {
  return error_reply(403, "forbidden", fmt::format("this token is for node {}", call.caller.node));
}

Reply part_of(int file, std::int64_t offset) {
  std::string bytes(static_cast<std::size_t>(control::kMostPartBytes), '\0');
  const ssize_t count = pread(file, bytes.data(), bytes.size(), offset);
  if (count < 0) return error_reply(503, "io", "the file cannot be read now; retry");
  bytes.resize(static_cast<std::size_t>(count));
  return {.content_type = "application/octet-stream", .body = std::move(bytes)};
}

Reply done_reply(const Status& done) {
  return done.ok() ? json_reply(json::object()) : error_reply(done.error());
}

}  // namespace

Reply list_nodes(const Call& call) {
  return json_reply({{"nodes", call.controller.nodes(call.caller)}});
}

Reply drain_node(const Call& call) {
  return change(call, NodeChange::kDrain, static_cast<double>(call.number("deadline_s")));
}
Reply undrain_node(const Call& call) { return change(call, NodeChange::kUndrain); }
Reply remove_node(const Call& call) { return change(call, NodeChange::kRemove); }

Reply sync_node(const Call& call) {
  const auto report = control::node_report_from(call.body);
  if (!report.ok()) return error_reply(report.error());
  if (report->node.name != call.text("node")) {
    return error_reply(400, "invalid", "the report is of another node than the path");
  }
  const auto orders = call.controller.sync_node(call.caller, *report);
  return orders.ok() ? json_reply(control::to_json(*orders)) : error_reply(orders.error());
}

Reply ask_registry(const Call& call) {
  if (call.caller.node != call.text("node")) return other_node(call);
  return json_reply(call.controller.ask_registry(call.caller, call.number("job"), call.body));
}

Reply list_copy(const Call& call) {
  const Result<JobCopy> copy = copy_of(call);
  if (!copy.ok()) return error_reply(copy.error());
  const auto files = copy->list();
  if (!files.ok()) return error_reply(files.error());
  json list = json::array();
  for (const control::CopiedFile& file : *files) {
    list.push_back({{"path", file.path}, {"size", file.size}, {"modified_us", file.modified_us}});
  }
  return json_reply({{"files", std::move(list)}});
}

Reply get_copied(const Call& call) {
  const Result<JobCopy> copy = copy_of(call);
  if (!copy.ok()) return error_reply(copy.error());
  const auto file = copy->open(call.text("path"));
  if (!file.ok()) return error_reply(file.error());
  return part_of(file->get(), call.number("offset"));
}

Reply get_job_upload(const Call& call) {
  if (!call.caller.admin && call.caller.node != call.text("node")) return other_node(call);
  const auto file =
      call.controller.job_upload(call.caller, call.number("job"), call.text("sha256"));
  if (!file.ok()) return error_reply(file.error());
  return part_of(file->get(), call.number("offset"));
}

Reply put_copied(const Call& call) {
  Result<JobCopy> copy = copy_of(call);
  if (!copy.ok()) return error_reply(copy.error());
  const std::string path = call.text("path");
  if (const std::string as = call.text("same_as"); !as.empty()) {
    return done_reply(
        copy->put_same(path, call.number("size"), call.number("offset"), call.number("count"), as));
  }
  return done_reply(call.flag("grows")
                        ? copy->append(path, call.number("offset"), call.bytes)
                        : copy->put(path, call.number("size"), call.number("offset"), call.bytes));
}

Reply remove_copied(const Call& call) {
  Result<JobCopy> copy = copy_of(call);
  if (!copy.ok()) return error_reply(copy.error());
  return done_reply(copy->remove(call.text("path")));
}

}  // namespace rubato::api
