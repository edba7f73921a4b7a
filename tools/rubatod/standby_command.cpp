#include "standby_command.h"

#include <fmt/format.h>
#include <httplib.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>

#include "api/listen_address.h"
#include "api/standby_server.h"
#include "base/file.h"
#include "base/sha256.h"
#include "control/standby/standby.h"
#include "control/state_folder.h"
#include "control/tokens.h"
#include "elastic/job/registry_url.h"
#include "rubato/parse_errors.h"

namespace rubato {

namespace {

using control::SharedLog;
using control::Standby;
using std::chrono::milliseconds;

constexpr auto kTurn = milliseconds(100);
constexpr int kSignsWithinPatience = 8;
// Seconds after which SIGALRM ends a process that should have begun anew and has not.
constexpr unsigned kBeginWithin = 10;
// An append waits for so long until the daemon says that it is read-only.
constexpr SharedLog::Timing kPatient{
    .patience = milliseconds(5000), .attempt = milliseconds(1000), .pause = milliseconds(50)};
// Those who look, and workers that ask for their registry, ask again soon.
constexpr SharedLog::Timing kImpatient{
    .patience = milliseconds(1500), .attempt = milliseconds(700), .pause = milliseconds(50)};

// Where other machines reach this daemon.
std::string own_url(const SharedLogArguments& arguments, const api::ServerOptions& serving,
                    const api::StandbyServer& server) {
  if (!arguments.advertise.empty()) return arguments.advertise;
  const auto address = api::parse_listen_address(serving.listen);
  std::array<char, 256> name{};
  const bool all = address.ok() && (address->host == "0.0.0.0" || address->host == "::");
  if (!all || gethostname(name.data(), name.size() - 1) != 0) return server.url();
  const char* scheme = serving.tls_certificate.empty() ? "http" : "https";
  return fmt::format("{}://{}:{}", scheme, name.data(), server.port());
}

// The store of the leader, into a new file.
Status fetch_store(const std::string& url, const std::string& token, const std::string& ca_file,
                   const std::string& file) {
  httplib::Client client(url);
  client.set_connection_timeout(3);
  client.set_read_timeout(60);
  client.set_bearer_token_auth(token);
  if (!ca_file.empty()) client.set_ca_cert_path(ca_file);
  if (Status made = control::make_private_file(file); !made.ok()) return made;
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  int status = 0;
  const httplib::Result result = client.Get(
      "/api/v1/store",
      [&](const httplib::Response& response) {
        status = response.status;
        return status == 200;
      },
      [&](const char* data, std::size_t size) {
        out.write(data, static_cast<std::streamsize>(size));
        return out.good();
      });
  out.close();
  if (status != 0 && status != 200) {
    return Error{ErrorCode::kIo, fmt::format("the leader at {} answered {}", url, status)};
  }
  if (!result || !out.good()) {
    return Error{ErrorCode::kIo,
                 fmt::format("cannot fetch the store of the leader at {}: {}", url,
                             result ? "cannot write " + file : httplib::to_string(result.error()))};
  }
  return ok_status();
}

// Whether one of these signals comes within a turn.
bool signalled(const sigset_t& set) {
  const timespec wait{.tv_sec = 0, .tv_nsec = std::chrono::nanoseconds(kTurn).count()};
  return sigtimedwait(&set, nullptr, &wait) > 0;
}

// Tells what has changed.
void report(const Standby::Now& now, std::string& told) {
  std::string text = !now.problem.empty() ? now.problem
                     : now.leader.empty() ? "standing by; nobody leads"
                                          : "standing by; the leader is " + now.leader;
  if (text == told || now.leads) return;
  told = std::move(text);
  fmt::print(stderr, "rubatod: {}\n", told);
}

}  // namespace

void add_shared_log(CLI::App& app, SharedLogArguments& arguments) {
  app.add_option("--shared-log", arguments.url,
                 "With --cluster: etcd:http://HOST:PORT,.../PREFIX, where daemons on several "
                 "machines share the event log. One of them leads; when its machine is lost, "
                 "another takes over");
  app.add_option("--advertise", arguments.advertise,
                 "With --shared-log: the URL at which other machines reach this daemon (default: "
                 "of the address to listen on, or of the host's name)");
  app.add_option("--leader-ca-file", arguments.ca_file,
                 "With --shared-log and https: certificates to trust (PEM) when the store of the "
                 "leader is fetched (default: that of --tls-cert)");
  app.add_option("--take-over-after", arguments.take_over_after_s,
                 "With --shared-log: seconds without a sign of life of the leader after which a "
                 "standby takes over")
      ->check(cli::between(1, 3600))
      ->capture_default_str();
}

Result<std::optional<Leading>> stand_by(const SharedLogArguments& arguments,
                                        const std::string& state, const api::ServerOptions& serving,
                                        const sigset_t& ending) {
  alarm(0);  // it has begun anew
  const auto place = elastic::parse_registry_url(arguments.url);
  if (!place.ok()) return invalid_input("--shared-log: " + place.error().message);
  if (place->kind != elastic::RegistryUrl::Kind::kEtcd) {
    return invalid_input("--shared-log: expected etcd:http://HOST:PORT,.../PREFIX");
  }
  {  // makes the folder private
    const auto lock = control::FolderLock::take(state);
    if (!lock.ok()) return lock.error();
  }
  // A standby that waits for its first store has not locked the folder yet.
  auto lock = control::FileLock::try_take(state + "/standby.lock",
                                          control::FileLock::Children::kDoNotInherit);
  if (!lock) {
    return Error{ErrorCode::kIo, state + ": another rubatod that stands by is using this folder"};
  }
  const auto admin = control::token_in_file(state + "/admin.token");
  if (!admin.ok()) return admin.error();
  const auto join = control::token_in_file(state + "/join.token");
  if (!join.ok()) return join.error();
  auto server = api::StandbyServer::start(serving);
  if (!server.ok()) return server.error();

  const auto patience = milliseconds(static_cast<int>(1000 * arguments.take_over_after_s));
  const std::string ca_file =
      arguments.ca_file.empty() ? serving.tls_certificate : arguments.ca_file;
  auto standby = Standby::make(std::make_shared<SharedLog>(*place, kImpatient),
                               {.folder = state,
                                .url = own_url(arguments, serving, **server),
                                .tokens = sha256_hex(*admin + "\n" + *join),
                                .patience = patience,
                                .fetch = [&](const std::string& url, const std::string& file) {
                                  return fetch_store(url, *admin, ca_file, file);
                                }});
  if (!standby.ok()) return standby.error();
  static_cast<void>(write_file(state + "/server.url", (*server)->url() + "\n"));
  fmt::print("rubatod: standing by, state in {}, listening on {}\n", state, (*server)->url());
  std::fflush(stdout);
  auto copies = std::make_unique<agent::CopyFollower>(state, *admin, ca_file);
  std::string told;
  Standby::Now now;
  while (!now.leads) {
    now = (*standby)->turn();
    (*server)->tell(now);
    copies->follow(now.leader, now.store);
    report(now, told);
    if (now.leads || !signalled(ending)) continue;
    std::error_code none;
    std::filesystem::remove(state + "/server.url", none);
    return std::optional<Leading>();
  }
  copies->stop();
  Leading leading{.copies = std::move(copies),
                  .lock = std::move(lock),
                  .silent_s = now.silent_s,
                  .since = std::chrono::steady_clock::now()};
  const auto ended = std::make_shared<std::atomic<bool>>(false);
  leading.ended = ended;
  leading.listen =
      fmt::format("{}:{}", serving.listen.substr(0, serving.listen.rfind(':')), (*server)->port());
  leading.leadership = (*standby)->lead(
      std::make_shared<SharedLog>(*place, kPatient),
      {.beat = std::clamp(patience / kSignsWithinPatience, milliseconds(50), milliseconds(1000)),
       .patience = patience,
       .ended = [ended](const std::string& why) {
         fmt::print(stderr, "rubatod: {}; beginning anew\n", why);
         alarm(kBeginWithin);
         *ended = true;
       }});
  leading.registries = std::make_shared<control::SharedRegistries>(
      std::make_shared<SharedLog>(*place, kImpatient), leading.leadership);
  return std::optional(std::move(leading));
}

void say_that_it_leads(const Leading& leading) {
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - leading.since;
  fmt::print(
      "rubatod: leads since {:.2f} s after it was claimed; the last sign of another leader "
      "was {:.1f} s before\n",
      took.count(), leading.silent_s);
}

bool wait_while_leading(const Leading& leading, const sigset_t& ending) {
  while (!signalled(ending)) {
    if (*leading.ended) return false;
  }
  return true;
}

Error begin_anew(char** argv) {
  std::fflush(stdout);
  execv("/proc/self/exe", argv);
  return {ErrorCode::kIo, fmt::format("cannot execute {} again", argv[0])};
}

}  // namespace rubato
