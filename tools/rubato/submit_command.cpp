// rubato submit, plan, schema.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>

#include "api/route.h"
#include "base/file.h"
#include "base/sha256.h"
#include "base/text.h"
#include "commands.h"
#include "control/dependencies.h"
#include "control/job_document.h"
#include "control/labels.h"
#include "elastic/transport/secret.h"
#include "file_fetch.h"
#include "output.h"
#include "plan_text.h"
#include "upload.h"

namespace rubato::cli {

namespace {

using control::JobDocument;
using nlohmann::json;

// A field of the document that has its own flag.
struct FieldFlag {
  const char* flag;
  const char* path;  // in the document, as JSON pointer
  const char* help;
};
constexpr FieldFlag kFieldFlags[] = {
    {"--name", "/name", "Name of the job (default: the program's)"},
    {"--dir", "/dir", "Working directory (default: the current one)"},
    {"--outputs", "/outputs", "Folder of results below the job's folder (default: outputs)"},
    {"--devices", "/devices", "Devices the job can use: N or LOW..HIGH"},
    {"--mode", "/mode", "consistent, adaptive, rigid or opaque (any program)"},
    {"--sizes", "/sizes", "any or power_of_two"},
    {"--priority", "/priority", "Larger is more urgent"},
    {"--logical-workers", "/logical_workers", "Logical workers, which determine the result"},
    {"--batch", "/batch", "Total batch of an adaptive job: N or LOW..HIGH"},
    {"--lr-rule", "/lr_rule", "Learning rate of an adaptive job: linear, sqrt or none"},
    {"--epochs", "/epochs", "Expected number of epochs, for estimates"},
    {"--min-runtime", "/min_runtime", "Keep devices at least this long (15m, 2h)"},
    {"--time-limit", "/time_limit", "How long the job may hold devices (15m, 2h)"},
    {"--retries", "/retries", "Further tries of an opaque job whose program failed"},
    {"--grace", "/grace", "Time of an opaque job's program between SIGTERM and SIGKILL"},
    {"--checkpoint-every", "/checkpoint/every", "Time between checkpoints"},
    {"--checkpoints", "/checkpoint/to",
     "Where checkpoints are: file:/FOLDER, the same on every node"},
    {"--device-type", "/device_type", "Only on devices of this type"},
    {"--memory", "/memory", "Most memory of all its processes together (512MB, 16GB)"},
    {"--cpus", "/cpus", "Most processors' worth of time of all its processes together"},
    {"--array", "/array", "One job for every index: LOW-HIGH, or LOW-HIGH%N for N at a time"},
    {"--tenant", "/tenant", "Submit for this tenant (administrators only)"},
};

struct DocumentArguments {
  std::string file;
  std::vector<std::string> values = std::vector<std::string>(std::size(kFieldFlags));
  bool encrypt = false;
  std::vector<std::string> env;
  std::vector<std::string> labels;
  std::vector<std::string> after;
  std::vector<std::string> command;
};

void add_document_options(CLI::App& sub, DocumentArguments& a) {
  sub.add_option(
      "-f,--file", a.file,
      "Job document (YAML, docs/jobs.md, at most 1 MiB is read); - reads standard input");
  for (std::size_t i = 0; i < std::size(kFieldFlags); ++i) {
    sub.add_option(kFieldFlags[i].flag, a.values[i], kFieldFlags[i].help);
  }
  sub.add_flag("--encrypt", a.encrypt, "Encrypt what its workers send each other between nodes");
  sub.add_option("--env", a.env, "NAME=VALUE (repeatable)")->allow_extra_args(false);
  sub.add_option("--label", a.labels, "NAME=VALUE, to find the job by (repeatable)")
      ->allow_extra_args(false);
  sub.add_option("--after", a.after,
                 "Start after this job has finished: JOB, or JOB:failed or JOB:ended for another "
                 "end (repeatable)")
      ->allow_extra_args(false);
  sub.add_option("command", a.command, "Program and arguments, after --");
  sub.positionals_at_end();
}

constexpr std::size_t kMostBytes = 1 << 20;

// Reads the file, or standard input for "-". Stops after 1 MiB, because a stream may never end.
Result<std::string> read_document(const std::string& file) {
  const bool standard = file == "-";
  std::ifstream opened;
  if (!standard) {
    if (is_directory(file))
      return invalid_input(file + ": is a directory; expected a job document");
    opened.open(file, std::ios::binary);
    if (!opened) return Error{ErrorCode::kIo, fmt::format("{}: {}", file, std::strerror(errno))};
  }
  std::istream& stream = standard ? std::cin : opened;
  std::string text(kMostBytes + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(stream.gcount()));
  if (text.size() <= kMostBytes) return text;
  return invalid_input(fmt::format("{}: more than 1 MiB; this is not a job document",
                                   standard ? "standard input" : file));
}

// Whether the field can be a number. Values of other fields are text even if they look like one.
bool takes_number(const json& schema) {
  const json alternatives = schema.value("anyOf", json::array({schema}));
  return std::any_of(alternatives.begin(), alternatives.end(), [](const json& one) {
    const std::string type = one.value("type", "");
    return type == "integer" || type == "number";
  });
}

json flag_value(const FieldFlag& flag, const std::string& text) {
  static const json kSchema = control::job_schema();
  std::string pointer;
  for (const std::string_view part : split(std::string_view(flag.path).substr(1), '/')) {
    pointer += fmt::format("/properties/{}", part);
  }
  const auto number = parse_int(text);
  if (number && takes_number(kSchema.at(json::json_pointer(pointer)))) return *number;
  return text;
}

// Rewrites an error about "/field" to name the option or the file that set the field.
Error in_terms_of_arguments(const Error& error, const DocumentArguments& a) {
  const std::size_t colon = error.message.find(": ");
  if (!error.message.starts_with('/') || colon == std::string::npos) return error;
  const std::string path = error.message.substr(0, colon);
  const std::string rest = error.message.substr(colon);
  for (std::size_t i = 0; i < std::size(kFieldFlags); ++i) {
    if (path == kFieldFlags[i].path && !a.values[i].empty()) {
      return {error.code, kFieldFlags[i].flag + rest};
    }
  }
  if (path.starts_with("/env/")) return {error.code, "--env " + path.substr(5) + rest};
  std::string field = path.substr(1);
  std::replace(field.begin(), field.end(), '/', '.');
  return {error.code, (a.file.empty() ? "" : a.file + ": ") + field + rest};
}

// Merges the flags into the fields of a document.
Result<json> flags_as_fields(const DocumentArguments& a, json document) {
  for (std::size_t i = 0; i < std::size(kFieldFlags); ++i) {
    if (a.values[i].empty()) continue;
    document[json::json_pointer(kFieldFlags[i].path)] = flag_value(kFieldFlags[i], a.values[i]);
  }
  if (a.encrypt) document["encrypt"] = true;
  for (const std::string& variable : a.env) {
    const std::size_t equals = variable.find('=');
    if (equals == std::string::npos || equals == 0) {
      return invalid_input(fmt::format("--env {}: expected NAME=VALUE", variable));
    }
    document["env"][variable.substr(0, equals)] = variable.substr(equals + 1);
  }
  for (const std::string& text : a.labels) {
    const auto label = control::parse_label(text);
    if (!label.ok()) return invalid_input("--label " + label.error().message);
    document["labels"][label->first] = label->second;
  }
  for (const std::string& text : a.after) {
    const auto after = control::parse_after(text);
    if (!after.ok()) return invalid_input("--after " + after.error().message);
    document["after"].push_back(
        {{"job", after->job}, {"when", std::string(control::to_string(after->when))}});
  }
  if (!a.command.empty()) document["run"] = a.command;
  return document;
}

Result<JobDocument> make_document(const DocumentArguments& a) {
  json fields = json::object();
  if (!a.file.empty()) {
    const Result<std::string> text = read_document(a.file);
    if (!text.ok()) return text.error();
    const Result<JobDocument> parsed =
        control::parse_job_yaml(*text, a.file == "-" ? "standard input" : a.file);
    if (!parsed.ok()) return parsed.error();
    fields = control::to_json(*parsed);
  } else if (a.command.empty()) {
    return invalid_input(
        "nothing to run: give a job document with -f, or the program after '--', as in 'rubato "
        "submit --devices 1..4 -- ./train'");
  }
  Result<json> all = flags_as_fields(a, std::move(fields));
  if (!all.ok()) return all.error();
  Result<JobDocument> document = control::parse_job_json(*all);
  if (!document.ok()) return in_terms_of_arguments(document.error(), a);
  document->dir = (std::filesystem::current_path() / document->dir).lexically_normal().string();
  while (document->dir.size() > 1 && document->dir.ends_with('/')) document->dir.pop_back();
  return document;
}

// A line about a change that matters to someone who waits for the job; empty for other events.
std::string waiting_line(const json& event) {
  std::string type = event.value("type", "");
  const json body = event.value("body", json::object());
  if (type == "granted") {
    return fmt::format("{}: {}", counted(body.value("devices", 0), "device"),
                       body.value("reason", ""));
  }
  if (type == "finished" || type == "cancelled" || type == "paused" || type == "resumed") {
    return type;
  }
  if (type == "failed") return "failed: " + body.value("message", "");
  return "";
}

// Waits until the job has ended. Returns 0 if it finished, 1 if it failed or was cancelled.
int wait_for(Client& client, const json& job, bool as_json) {
  const std::string path = fmt::format("/jobs/{}", job.value("number", std::int64_t{0}));
  std::string end;
  const Status followed = client.follow_events(path + "/events", 0, [&](const json& event) {
    const std::string line = waiting_line(event);
    if (!line.empty()) {
      fmt::print(stderr, "{} {}: {}\n", time_text(event.value("at", 0.0)), job.value("id", ""),
                 line);
    }
    const std::string type = event.value("type", "");
    if (type == "finished" || type == "failed" || type == "cancelled") end = type;
    return end.empty();
  });
  if (!followed.ok()) return fail(followed.error());
  const Result<json> after = client.get(path);
  if (!after.ok()) return fail(after.error());
  if (as_json) {
    print_json(*after);
  } else if (end == "finished") {
    print_json(after->value("result", json::object()));
  }
  if (end == "finished") return 0;
  print_next({fmt::format("rubato logs {}", job.value("id", "")),
              fmt::format("rubato events {}", job.value("id", ""))});
  return 1;
}

struct SubmitArguments {
  DocumentArguments document;
  std::string key;
  CLI::Option* upload = nullptr;
  std::string upload_folder;
  bool wait = false;
  bool as_json = false;
};

// What is said after an array was submitted, of which `first` is the first job.
int say_array(const SubmitArguments& a, const ServerChoice& server, const json& first,
              const json& array) {
  const std::string id = array.value("first", "") + "[]";
  if (a.wait) {
    fmt::print(stderr, "{} {} submitted, {} jobs\n", id, array.value("name", ""),
               array.value("size", 0));
    return wait_for_jobs(server, {id}, a.as_json);
  }
  if (a.as_json) {
    print_json(first);
  } else {
    fmt::print("{}\n", id);
  }
  print_next({fmt::format("rubato queue --name '{}[*'", array.value("name", "")),
              fmt::format("rubato wait '{}'", id), fmt::format("rubato cancel '{}'", id)});
  return 0;
}

// The job runs in a copy of the folder that goes with it.
Status send_folder(const SubmitArguments& a, Client& client, JobDocument& document) {
  const std::string folder = a.upload_folder.empty() ? document.dir : a.upload_folder;
  const Result<Uploaded> sent = upload_folder(client, folder);
  if (!sent.ok()) return sent.error();
  fmt::print(stderr, "{}: {}, {} sent ({})\n", folder, counted(sent->files, "file"),
             sent->sent_files, bytes_text(sent->sent_bytes));
  document.dir.clear();
  document.upload = sent->digest;
  return ok_status();
}

int submit(const SubmitArguments& a, const ServerChoice& server) {
  Result<JobDocument> document = make_document(a.document);
  if (!document.ok()) return fail(document.error());
  Result<Client> client = Client::make(server);
  if (!client.ok()) return fail(client.error());
  if (a.upload->count() > 0) {
    const Status sent = send_folder(a, *client, *document);
    if (!sent.ok()) return fail(sent.error());
  }
  std::string key = a.key;
  if (key.empty()) {
    const auto random = elastic::random_nonce();
    if (!random.ok()) return fail(random.error());
    key = to_hex(*random);
  }
  const json body = control::to_json(*document);
  Result<json> job = client->send("POST", "/jobs", body, {{"Idempotency-Key", key}});
  // It is unknown whether the request arrived. With the same key the job cannot be submitted twice.
  if (!job.ok() && job.error().code == ErrorCode::kIo) {
    job = client->send("POST", "/jobs", body, {{"Idempotency-Key", key}});
  }
  if (!job.ok()) return fail(job.error());
  const json array = job->value("array", json());
  if (array.is_object()) return say_array(a, server, *job, array);
  const std::string id = job->value("id", "");
  if (a.wait) {
    fmt::print(stderr, "{} {} submitted\n", id, job->value("name", ""));
    return wait_for(*client, *job, a.as_json);
  }
  if (a.as_json) {
    print_json(*job);
  } else {
    fmt::print("{}\n", id);
  }
  print_next({"rubato status " + id, "rubato why " + id, "rubato logs -f " + id, "rubato top"});
  return 0;
}

struct PlanArguments {
  DocumentArguments document;
  bool as_json = false;
};

int plan(const PlanArguments& a, const ServerChoice& server) {
  const Result<JobDocument> document = make_document(a.document);
  if (!document.ok()) return fail(document.error());
  Result<Client> client = Client::make(server);
  if (!client.ok()) return fail(client.error());
  const Result<json> planned = client->send("POST", "/plan", control::to_json(*document));
  if (!planned.ok()) return fail(planned.error());
  const bool placed = planned->value("placed", false);
  if (a.as_json) {
    print_json(*planned);
    return placed ? 0 : 2;
  }
  fmt::print("{}", plan_text(*planned));
  return placed ? 0 : 2;
}

}  // namespace

void add_submit_commands(CLI::App& app, const Context& context, Command& chosen) {
  auto s = std::make_shared<SubmitArguments>();
  CLI::App* submitting = app.add_subcommand("submit", "Submit a job to the daemon");
  add_document_options(*submitting, s->document);
  submitting->add_option(
      "--key", s->key, "Submitting again with the same key returns the same job (default: random)");
  s->upload = submitting->add_option(
      "--upload", s->upload_folder,
      "Send this folder (default: --dir) with the job, which runs in a copy of it; only what the "
      "daemon does not have is sent");
  s->upload->expected(0, 1);
  submitting->add_flag("--wait", s->wait,
                       "Wait until the job has ended; exit code 0 only if it finished");
  submitting->add_flag("--json", s->as_json, "The job as JSON");
  submitting->callback(
      [s, &context, &chosen] { chosen = [s, &context] { return submit(*s, context.server); }; });

  auto p = std::make_shared<PlanArguments>();
  CLI::App* planning = app.add_subcommand(
      "plan", "Predict what would happen to a job submitted now; exit code 2: it would wait");
  add_document_options(*planning, p->document);
  planning->add_flag("--json", p->as_json, "The plan as JSON");
  planning->callback(
      [p, &context, &chosen] { chosen = [p, &context] { return plan(*p, context.server); }; });

  CLI::App* schema = app.add_subcommand("schema", "Print the JSON Schema of job documents");
  struct SchemaArguments {
    bool openapi = false;
    bool as_json = true;
  };
  auto c = std::make_shared<SchemaArguments>();
  schema->add_flag("--openapi", c->openapi, "Print the daemon's OpenAPI document instead");
  schema->add_flag("--json", c->as_json, "As JSON (the only form)");
  schema->callback([c, &chosen] {
    chosen = [c] {
      print_json(c->openapi ? api::openapi() : control::job_schema());
      return 0;
    };
  });
}

}  // namespace rubato::cli
