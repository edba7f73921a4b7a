// rubato doctor: what this machine offers for training, what is missing, and the remedies.
#include <fmt/format.h>
#include <httplib.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "api/listen_address.h"
#include "base/file.h"
#include "base/text.h"
#include "commands.h"
#include "control/doctor/checks.h"
#include "control/doctor/real_machine.h"
#include "control/state_folder.h"
#include "output.h"

namespace rubato::cli {

namespace {

using control::doctor::Answer;
using control::doctor::Finding;
using control::doctor::Level;
using control::doctor::RealMachine;
using control::doctor::Subject;

constexpr std::size_t kColumns = 100;

struct DoctorArguments {
  std::string state;
  std::string listen = control::kDefaultListen;
  std::string program;
  bool as_json = false;
};

// No token is sent, so the server's certificate need not be trusted.
Answer get(const std::string& url) {
  const std::size_t scheme = url.find("://");
  const std::size_t slash = scheme == std::string::npos ? scheme : url.find('/', scheme + 3);
  if (slash == std::string::npos) return {.problem = "not a URL"};
  httplib::Client http(url.substr(0, slash));
  if (!http.is_valid()) return {.problem = "not a URL"};
  http.enable_server_certificate_verification(false);
  http.set_connection_timeout(3);
  http.set_read_timeout(5);
  const httplib::Result result = http.Get(url.substr(slash));
  if (!result) return {.problem = httplib::to_string(result.error())};
  return {.status = result->status, .body = result->body};
}

// Training programs of this installation: beside the program in a build tree, in libexec after
// installation.
std::vector<std::string> example_programs() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return {};
  const auto folder = self.parent_path();
  return {(folder / "examples/train_mlp").string(),
          (folder.parent_path() / "libexec/rubato/examples/train_mlp").string()};
}

std::vector<std::string> server_urls(const ServerChoice& server, const std::string& state) {
  if (server.given()) return {server.url};
  std::vector<std::string> urls;
  for (const std::string& file : {state + "/server.url", std::string("/run/rubato/server.url")}) {
    const Result<std::string> text = read_file(file);
    if (text.ok()) urls.emplace_back(trim(*text));
  }
  return urls;
}

// 0 where it shares GPUs, or does not tell this user.
int cpu_slots_of_daemon(ServerChoice server, const Subject& subject) {
  if (!server.given() && server.token_file.empty()) {
    server.token_file = subject.state_folder + "/admin.token";
  }
  server.url = subject.server_urls.front();
  Result<Client> client = Client::make(server);
  if (!client.ok()) return 0;
  const Result<nlohmann::json> cluster = client->get("/cluster");
  if (!cluster.ok() || !cluster->is_object()) return 0;
  const auto type = cluster->find("device_type");
  const auto devices = cluster->find("devices");
  const bool cpus = type != cluster->end() && *type == "cpu";
  return cpus && devices != cluster->end() && devices->is_number_integer() ? devices->get<int>()
                                                                           : 0;
}

Result<Subject> subject_of(const DoctorArguments& a, const ServerChoice& server) {
  const Result<api::ListenAddress> address = api::parse_listen_address(a.listen);
  if (!address.ok()) return address.error();
  Subject subject;
  subject.state_folder = a.state.empty() ? control::default_state_folder() : a.state;
  subject.host = address->host;
  subject.port = address->port;
  subject.server_urls = server_urls(server, subject.state_folder);
  if (a.program.empty()) {
    subject.programs = example_programs();
  } else if (is_file(a.program)) {
    subject.programs = {std::filesystem::absolute(a.program).string()};
  } else {
    return invalid_input(fmt::format("--program {}: there is no such file", a.program));
  }
  if (!subject.server_urls.empty()) subject.daemon_cpu_slots = cpu_slots_of_daemon(server, subject);
  return subject;
}

// Lines of at most `width` characters, broken at blanks; a longer word is left whole.
std::vector<std::string> wrapped(const std::string& text, std::size_t width) {
  std::vector<std::string> lines(1);
  for (const std::string_view word : split(text, ' ')) {
    std::string& line = lines.back();
    if (line.empty()) {
      line = word;
    } else if (line.size() + 1 + word.size() <= width) {
      line += ' ';
      line += word;
    } else {
      lines.emplace_back(word);
    }
  }
  return lines;
}

const char* color_of(Level level) {
  switch (level) {
    case Level::kOk:
      return "\x1b[32m";
    case Level::kNote:
      return "\x1b[36m";
    case Level::kWarn:
      return "\x1b[33m";
    case Level::kFail:
      return "\x1b[31m";
  }
  return "";
}

void print_findings(const std::vector<Finding>& findings) {
  const bool color = wants_color(stdout);
  constexpr std::size_t kIndent = 22;
  for (const Finding& one : findings) {
    const std::string level = fmt::format("{:<5}", to_string(one.level));
    fmt::print("{}{}{} {:<15} ", color ? color_of(one.level) : "", level, color ? "\x1b[0m" : "",
               one.check);
    std::vector<std::string> lines = wrapped(one.found, kColumns - kIndent);
    if (!one.remedy.empty()) {
      std::vector<std::string> remedy = wrapped(one.remedy, kColumns - kIndent - 3);
      for (std::size_t i = 0; i < remedy.size(); ++i) {
        lines.push_back((i == 0 ? "-> " : "   ") + remedy[i]);
      }
    }
    for (std::size_t i = 0; i < lines.size(); ++i) {
      fmt::print("{:{}}{}\n", "", i == 0 ? 0 : kIndent, lines[i]);
    }
  }
  const bool ready = count(findings, Level::kFail) == 0;
  fmt::print("{}: {}\n", ready ? "ready" : "not ready", summary(findings));
}

int run_doctor(const DoctorArguments& a, const ServerChoice& server) {
  const Result<Subject> subject = subject_of(a, server);
  if (!subject.ok()) return fail(subject.error());
  const std::vector<Finding> findings = examine(RealMachine(get), *subject);
  if (a.as_json) {
    fmt::print("{}\n", to_json(findings).dump(2));
  } else {
    print_findings(findings);
  }
  return count(findings, Level::kFail) == 0 ? 0 : 1;
}

}  // namespace

void add_doctor(CLI::App& app, const Context& context, Command& chosen) {
  CLI::App* command = app.add_subcommand(
      "doctor", "Check what this machine offers for training, and say how to fix what is missing");
  auto a = std::make_shared<DoctorArguments>();
  command->add_option(
      "--program", a->program,
      "Training program whose LibTorch and BLAS are looked at (default: an example); "
      "it is not run");
  command->add_option("--state", a->state, "State folder of the daemon, as rubatod --state");
  command->add_option("--listen", a->listen, "HOST:PORT of the daemon, as rubatod --listen")
      ->capture_default_str();
  command->add_flag("--json", a->as_json, "As JSON");
  command->callback([a, &context, &chosen] {
    chosen = [a, &context] { return run_doctor(*a, context.server); };
  });
}

}  // namespace rubato::cli
