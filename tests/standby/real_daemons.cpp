#include "standby/real_daemons.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <httplib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <thread>

#include "base/file.h"
#include "base/json_text.h"
#include "control/store.h"
#include "test_paths.h"

namespace rubato::standby {

namespace {

using nlohmann::json;

int free_port() {
  const elastic::Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  bind(socket.get(), reinterpret_cast<sockaddr*>(&address), size);
  getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.sin_port);
}

}  // namespace

bool wait_until(const std::function<bool()>& condition, double seconds) {
  const auto by = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > by) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

RealDaemons::RealDaemons(const elastic::EtcdCluster& etcd, Options options)
    : etcd_(etcd), options_(std::move(options)) {
  for (int i = 0; i < options_.daemons; ++i) {
    ports_.push_back(free_port());
    std::filesystem::create_directories(state(i));
    ::chmod(state(i).c_str(), 0700);
    // As an administrator copies them.
    for (const char* token : {"admin", "join"}) {
      static_cast<void>(write_private_file(fmt::format("{}/{}.token", state(i), token),
                                           fmt::format("rbt_{}0123456789abcdef\n", token)));
    }
  }
}

RealDaemons::~RealDaemons() {
  for (const auto& [daemon, pid] : std::map<int, pid_t>(pids_)) end(daemon, SIGKILL);
  for (const auto& [agent, pid] : agents_) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
}

std::string RealDaemons::state(int daemon) const {
  return fmt::format("{}/d{}", options_.folder, daemon);
}
std::string RealDaemons::url(int daemon) const {
  return fmt::format("http://127.0.0.1:{}", ports_[static_cast<std::size_t>(daemon)]);
}

pid_t RealDaemons::launch(const std::vector<std::string>& words, const std::string& log) const {
  std::vector<char*> raw;
  for (const std::string& word : words) raw.push_back(const_cast<char*>(word.c_str()));
  raw.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid != 0) return pid;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);
  const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  dup2(out, STDOUT_FILENO);
  dup2(out, STDERR_FILENO);
  execv(raw[0], raw.data());
  _exit(127);
}

void RealDaemons::start(int daemon) {
  if (runs(daemon)) return;
  pids_[daemon] = launch({test_paths::program("rubatod"), "--cluster", "--isolation", "none",
                          "--state", state(daemon), "--listen", url(daemon).substr(7),
                          "--lost-after", "20", "--shared-log", etcd_.url(options_.prefix),
                          "--take-over-after", fmt::format("{}", options_.take_over_after_s)},
                         fmt::format("{}/d{}.log", options_.folder, daemon));
}

void RealDaemons::start_agent(int agent) {
  std::string urls;
  for (int i = 0; i < count(); ++i) urls += (i == 0 ? "" : ",") + url(i);
  const std::string name = node(agent);
  agents_[agent] = launch({test_paths::program("rubatod"), "agent", "--join", urls, "--token-file",
                           state(0) + "/join.token", "--state", options_.folder + "/" + name,
                           "--node", name, "--cpu-slots", std::to_string(options_.devices),
                           "--isolation", "none", "--leave", "--address", "127.0.0.1"},
                          fmt::format("{}/{}.log", options_.folder, name));
}

void RealDaemons::end(int daemon, int signal) {
  const auto found = pids_.find(daemon);
  if (found == pids_.end()) return;
  kill(found->second, signal);
  kill(found->second, SIGCONT);
  waitpid(found->second, nullptr, 0);
  pids_.erase(found);
}

std::string RealDaemons::death_of(int daemon) {
  const auto found = pids_.find(daemon);
  int status = 0;
  if (found == pids_.end() || waitpid(found->second, &status, WNOHANG) != found->second) return "";
  pids_.erase(found);
  return fmt::format("d{} has ended by itself: {} {}", daemon,
                     WIFSIGNALED(status) ? "signal" : "exit code",
                     WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

void RealDaemons::signal(int daemon, int number) const {
  if (runs(daemon)) kill(pids_.at(daemon), number);
}

RealDaemons::Answer RealDaemons::ask(int daemon, const std::string& method, const std::string& path,
                                     const json& body, const std::string& key) const {
  httplib::Client client(url(daemon));
  client.set_connection_timeout(1);
  client.set_read_timeout(12);
  httplib::Request request;
  request.method = method;
  request.path = path;
  request.headers = {{"Authorization", "Bearer rbt_admin0123456789abcdef"}};
  if (!key.empty()) request.headers.emplace("Idempotency-Key", key);
  if (!body.is_null()) {
    request.body = compact_json(body);
    request.set_header("Content-Type", "application/json");
  }
  const httplib::Result result = client.send(request);
  if (!result) return {};
  Answer answer{.status = result->status};
  if (json read = parse_json(result->body); read.is_object()) answer.body = std::move(read);
  return answer;
}

RealDaemons::Answer RealDaemons::ask_leader(const std::string& method, const std::string& path,
                                            const json& body, const std::string& key,
                                            double patience_s) const {
  Answer answer;
  const bool asked = wait_until(
      [&] {
        for (int i = 0; i < count(); ++i) {
          if (!runs(i)) continue;
          answer = ask(i, method, path, body, key);
          if (answer.status != 0 && answer.status != 503) return true;
        }
        return false;
      },
      patience_s);
  static_cast<void>(asked);
  return answer;
}

int RealDaemons::leader() const {
  for (int i = 0; i < count(); ++i) {
    if (runs(i) && ask(i, "GET", "/api/v1/cluster").ok()) return i;
  }
  return -1;
}

std::vector<json> RealDaemons::events() const {
  std::vector<json> all;
  for (;;) {
    const std::int64_t after = all.empty() ? 0 : all.back().value("seq", std::int64_t{0});
    const Answer page = ask_leader("GET", fmt::format("/api/v1/events?after={}&limit=1000", after));
    if (!page.ok() || page.body["events"].empty()) return all;
    for (const json& event : page.body["events"]) all.push_back(event);
  }
}

std::string RealDaemons::logs() const {
  std::string all;
  for (const auto& entry : std::filesystem::directory_iterator(options_.folder)) {
    if (entry.path().extension() != ".log") continue;
    const Result<std::string> text = read_file(entry.path().string());
    if (text.ok()) all += "--- " + entry.path().filename().string() + "\n" + *text;
  }
  return all;
}

std::string lacks(const std::string& former, const std::string& next) {
  const auto one = control::Store::open(former);
  if (!one.ok()) return one.error().message;
  const auto other = control::Store::open(next);
  if (!other.ok()) return other.error().message;
  for (std::int64_t after = 0;;) {
    const auto some = (*one)->read_events(after, 500, 0, "");
    const auto same = (*other)->read_events(after, 500, 0, "");
    if (!some.ok() || !same.ok()) return "a store cannot be read";
    if (some->empty()) break;
    if (same->size() < some->size()) return "an event of the leader is lost";
    for (std::size_t i = 0; i < some->size(); ++i) {
      if (control::to_json((*some)[i]) == control::to_json((*same)[i])) continue;
      return fmt::format("event {} is not the same", (*some)[i].seq);
    }
    after = some->back().seq;
  }
  return "";
}

}  // namespace rubato::standby
