#include "control/cluster/node_sync.h"

#include <fmt/format.h>

#include <array>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "control/cluster/node_record.h"
#include "control/job_fields.h"
#include "control/json_fields.h"

namespace rubato::control {

namespace {

using nlohmann::json;

constexpr std::size_t kMostJobs = 100'000;
constexpr std::size_t kLongestId = 100;

constexpr std::array<std::pair<Notice::Kind, std::string_view>, 8> kKinds{{
    {Notice::Kind::kHeld, "held"},
    {Notice::Kind::kEvent, "event"},
    {Notice::Kind::kProgress, "progress"},
    {Notice::Kind::kStopped, "stopped"},
    {Notice::Kind::kFinished, "finished"},
    {Notice::Kind::kFailed, "failed"},
    {Notice::Kind::kError, "error"},
    {Notice::Kind::kRestarted, "restarted"},
}};

std::string_view to_string(Notice::Kind kind) {
  for (const auto& [each, name] : kKinds) {
    if (each == kind) return name;
  }
  return "?";
}

// Reads fields of an object. The first one that is not as it should be is the problem.
class Fields {
 public:
  Fields(const json& object, std::string where) : object_(object), where_(std::move(where)) {
    if (!object_.is_object()) fail("", "an object");
  }

  std::int64_t whole(const char* name, std::int64_t low, std::int64_t high) {
    const json* value = find(name);
    if (value == nullptr) return low;
    const bool fits = value->is_number_integer() &&
                      !(value->is_number_unsigned() &&
                        value->get<std::uint64_t>() > static_cast<std::uint64_t>(high)) &&
                      value->get<std::int64_t>() >= low && value->get<std::int64_t>() <= high;
    if (fits) return value->get<std::int64_t>();
    fail(name, fmt::format("a whole number from {} to {}", low, high));
    return low;
  }
  std::int64_t counter(const char* name) { return whole(name, 0, std::int64_t{1} << 53); }
  double seconds(const char* name) {
    const json* value = find(name);
    if (value == nullptr) return 0;
    if (value->is_number() && value->get<double>() >= 0 && value->get<double>() <= 1e9) {
      return value->get<double>();
    }
    fail(name, "seconds");
    return 0;
  }
  std::string text(const char* name) {
    const json* value = find(name);
    if (value == nullptr) return "";
    if (value->is_string() && value->get_ref<const std::string&>().size() <= kLongestId) {
      return value->get<std::string>();
    }
    fail(name, fmt::format("text of at most {} bytes", kLongestId));
    return "";
  }
  bool flag(const char* name) {
    const json* value = find(name);
    if (value != nullptr && value->is_boolean()) return value->get<bool>();
    if (value != nullptr) fail(name, "true or false");
    return false;
  }
  const json& object(const char* name) {
    static const json kNothing = json::object();
    const json* value = find(name);
    if (value != nullptr && value->is_object()) return *value;
    if (value != nullptr) fail(name, "an object");
    return kNothing;
  }
  const json& list(const char* name, std::size_t most) {
    static const json kNothing = json::array();
    const json* value = find(name);
    if (value != nullptr && value->is_array() && value->size() <= most) return *value;
    if (value != nullptr) fail(name, fmt::format("a list of at most {} entries", most));
    return kNothing;
  }
  void take_problem(const Error& error) {
    if (problem_.empty()) problem_ = error.message;
  }

  bool ok() const { return problem_.empty(); }
  Error error() const { return invalid_input(problem_); }

 private:
  const json* find(const char* name) {
    if (!ok()) return nullptr;
    const auto found = object_.find(name);
    if (found != object_.end()) return &*found;
    problem_ = fmt::format("{}: `{}` is missing", where_, name);
    return nullptr;
  }
  void fail(const char* name, const std::string& expected) {
    if (ok()) problem_ = fmt::format("{}: {}: expected {}", where_, name, expected);
  }

  const json& object_;
  const std::string where_;
  std::string problem_{};
};

json to_json(const NumberedNotice& numbered) {
  const Notice& notice = numbered.notice;
  json object = {{"number", numbered.number},
                 {"job", notice.job},
                 {"kind", to_string(notice.kind)},
                 {"body", notice.body}};
  if (notice.kind == Notice::Kind::kHeld) object["devices"] = notice.devices;
  return object;
}

Result<NumberedNotice> notice_from(const json& object, const LiveNode& node) {
  Fields fields(object, "a notice");
  NumberedNotice numbered{.number = fields.counter("number")};
  Notice& notice = numbered.notice;
  notice.job = fields.counter("job");
  const std::string kind = fields.text("kind");
  notice.body = fields.object("body");
  bool known = false;
  for (const auto& [each, name] : kKinds) {
    if (name != kind) continue;
    known = true;
    notice.kind = each;
  }
  if (fields.ok() && !known) fields.take_problem(invalid_input("a notice: unknown kind " + kind));
  if (notice.kind == Notice::Kind::kHeld) {
    notice.devices = static_cast<int>(fields.whole("devices", 0, node.devices));
    if (notice.devices > 0) notice.nodes = {{node.name, node.device_type, notice.devices}};
  }
  if (!fields.ok()) return fields.error();
  return numbered;
}

Result<NodeOrders::Job> order_from(const json& object) {
  Fields fields(object, "orders for a job");
  NodeOrders::Job job{.job = fields.counter("job"),
                      .uid = fields.text("uid"),
                      .devices = static_cast<int>(fields.whole("devices", 0, 1 << 20)),
                      .batch = fields.counter("batch"),
                      .cancelled = fields.flag("cancelled"),
                      .at_once = fields.flag("at_once"),
                      .guest = fields.flag("guest"),
                      .events_offset = fields.counter("events_offset"),
                      .changes = fields.counter("changes")};
  const json& document = fields.object("document");
  if (!fields.ok()) return fields.error();
  auto read = stored_document(document);
  if (!read.ok()) return read.error();
  job.document = std::move(*read);
  return job;
}

}  // namespace

json to_json(const NodeReport& report) {
  json jobs = json::array();
  for (const NodeReport::Job& job : report.jobs) {
    jobs.push_back({{"job", job.job},
                    {"held", job.held},
                    {"called_runtime", job.called_runtime},
                    {"view", job.view},
                    {"members", job.members}});
  }
  json notices = json::array();
  for (const NumberedNotice& notice : report.notices) notices.push_back(to_json(notice));
  json use = json::array();
  for (const DeviceUse& device : report.use) use.push_back(to_json(device));
  return {{"node", to_json(report.node)},  {"token_sha256", report.token_sha256},
          {"leaving", report.leaving},     {"start", report.start},
          {"session", report.session},     {"epoch", report.epoch},
          {"obeyed", report.obeyed},       {"jobs", std::move(jobs)},
          {"notices", std::move(notices)}, {"use", std::move(use)}};
}

Result<NodeReport> node_report_from(const json& object) {
  Fields fields(object, "the report of a node");
  NodeReport report{.node = {},
                    .token_sha256 = fields.text("token_sha256"),
                    .leaving = fields.flag("leaving"),
                    .start = fields.counter("start"),
                    .session = fields.text("session"),
                    .epoch = fields.counter("epoch"),
                    .obeyed = fields.counter("obeyed")};
  const json& node = fields.object("node");
  const json& jobs = fields.list("jobs", kMostJobs);
  const json& notices = fields.list("notices", kMostNotices);
  if (!fields.ok()) return fields.error();
  auto described = live_node_from(node);
  if (!described.ok()) return described.error();
  report.node = std::move(*described);
  for (const json& entry : jobs) {
    Fields job(entry, "a job of a node");
    report.jobs.push_back({.job = job.counter("job"),
                           .held = static_cast<int>(job.whole("held", 0, report.node.devices)),
                           .called_runtime = job.flag("called_runtime"),
                           .view = job.counter("view"),
                           .members = static_cast<int>(job.whole("members", 0, 1 << 20))});
    if (!job.ok()) return job.error();
  }
  for (const json& entry : notices) {
    auto notice = notice_from(entry, report.node);
    if (!notice.ok()) return notice.error();
    report.notices.push_back(std::move(*notice));
  }
  // Agents of earlier versions do not tell it.
  const json* use = field_of(object, "use");
  if (use == nullptr) return report;
  if (!use->is_array() || std::ssize(*use) > report.node.devices) {
    return invalid_input(fmt::format(
        "the report of a node: use: expected a list of at most {} entries", report.node.devices));
  }
  for (const json& entry : *use) {
    auto device = device_use_from(entry, report.node.name, report.node.devices);
    if (!device.ok()) return device.error();
    report.use.push_back(std::move(*device));
  }
  return report;
}

json to_json(const NodeOrders& orders) {
  json adopt = json::array();
  for (const JobRecord& record : orders.adopt) adopt.push_back(to_json(record));
  json jobs = json::array();
  for (const NodeOrders::Job& job : orders.jobs) {
    jobs.push_back({{"job", job.job},
                    {"uid", job.uid},
                    {"document", to_json(job.document)},
                    {"devices", job.devices},
                    {"batch", job.batch},
                    {"cancelled", job.cancelled},
                    {"at_once", job.at_once},
                    {"guest", job.guest},
                    {"events_offset", job.events_offset},
                    {"changes", job.changes}});
  }
  return {
      {"store", orders.store},     {"epoch", orders.epoch},   {"session", orders.session},
      {"number", orders.number},   {"life", orders.life},     {"acknowledged", orders.acknowledged},
      {"adopt", std::move(adopt)}, {"jobs", std::move(jobs)}, {"next_s", orders.next_s}};
}

Result<NodeOrders> node_orders_from(const json& object) {
  Fields fields(object, "orders for a node");
  NodeOrders orders{.store = fields.text("store"),
                    .epoch = fields.counter("epoch"),
                    .session = fields.text("session"),
                    .number = fields.counter("number"),
                    .acknowledged = fields.counter("acknowledged"),
                    .life = fields.counter("life"),
                    .next_s = fields.seconds("next_s")};
  const json& adopt = fields.list("adopt", kMostJobs);
  const json& jobs = fields.list("jobs", kMostJobs);
  if (!fields.ok()) return fields.error();
  for (const json& entry : adopt) {
    auto record = job_from_json(entry);
    if (!record.ok()) return record.error();
    orders.adopt.push_back(std::move(*record));
  }
  for (const json& entry : jobs) {
    auto job = order_from(entry);
    if (!job.ok()) return job.error();
    orders.jobs.push_back(std::move(*job));
  }
  return orders;
}

}  // namespace rubato::control
