#include "agent/registry_desk.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json_text.h"
#include "control/as_user.h"
#include "control/json_fields.h"
#include "elastic/job/desk_registry.h"
#include "elastic/job/job_folder.h"

namespace rubato::agent {

namespace {

using control::JobNumber;
using nlohmann::json;
using std::chrono::steady_clock;

constexpr std::size_t kMostClients = 1024;  // of a job
constexpr std::size_t kMostLine = 1 << 20;
// A daemon that did not answer is not asked again for so long: others would wait, too.
constexpr auto kAwayFor = std::chrono::milliseconds(500);
constexpr auto kTakeWithin = std::chrono::seconds(1);

std::string error_line(const std::string& message, const char* code) {
  return compact_json(json{{"error", message}, {"code", code}});
}

}  // namespace

RegistryDesk::RegistryDesk(const DaemonAddress& address, const std::string& node,
                           const std::string& token)
    : link_(address, node, token),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      thread_([this] { run(); }) {}

RegistryDesk::~RegistryDesk() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake();
  thread_.join();
}

void RegistryDesk::wake() const { eventfd_write(wake_.get(), 1); }

Status RegistryDesk::open(JobNumber number, const std::string& folder) {
  const control::AsUser rights = control::AsUser::owner_of(folder);
  Result<elastic::Descriptor> listener =
      elastic::listen_at_file(elastic::JobFolder(folder).desk_socket());
  if (!listener.ok()) return listener.error();
  {
    const MutexLock lock(mutex_);
    jobs_[number] = {.listener = std::move(*listener)};
  }
  wake();
  return ok_status();
}

void RegistryDesk::close(JobNumber number) {
  const MutexLock lock(mutex_);
  jobs_.erase(number);
}

bool RegistryDesk::is_open(JobNumber number) const {
  const MutexLock lock(mutex_);
  return jobs_.contains(number);
}

void RegistryDesk::note_changes(JobNumber number, std::int64_t changes) {
  {
    const MutexLock lock(mutex_);
    const auto job = jobs_.find(number);
    if (job == jobs_.end() || job->second.changes == changes) return;
    job->second.changes = changes;
    job->second.changed = true;
  }
  wake();
}

// Waits until somebody says something.
void RegistryDesk::wait() {
  std::vector<pollfd> entries{{.fd = wake_.get(), .events = POLLIN, .revents = 0}};
  {
    const MutexLock lock(mutex_);
    for (const auto& [number, job] : jobs_) {
      entries.push_back({.fd = job.listener.get(), .events = POLLIN, .revents = 0});
      for (const Client& client : job.clients) {
        entries.push_back({.fd = client.socket.get(), .events = POLLIN, .revents = 0});
      }
    }
  }
  ::poll(entries.data(), entries.size(), 1000);
  eventfd_t count = 0;
  eventfd_read(wake_.get(), &count);
}

void RegistryDesk::accept(Job& job) {
  for (;;) {
    elastic::Descriptor socket(
        ::accept4(job.listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.valid()) return;
    if (job.clients.size() >= kMostClients) continue;
    job.clients.push_back({.socket = std::move(socket), .reader = elastic::LineReader(kMostLine)});
  }
}

std::vector<RegistryDesk::Call> RegistryDesk::calls() {
  std::vector<Call> found;
  for (auto& [number, job] : jobs_) {
    accept(job);
    const bool changed = std::exchange(job.changed, false);
    for (Client& client : job.clients) {
      client.lost = client.lost || !client.reader.receive(client.socket.get()).ok();
      std::optional<std::string> line = client.reader.next();
      if (line && control::text_of(parse_json(*line), "op") == "watch") {
        client.watches = true;
        line.reset();
        found.push_back({.socket = client.socket.get(), .line = ""});
      } else if (changed && client.watches) {
        found.push_back({.socket = client.socket.get(), .line = ""});
      }
      if (line) found.push_back({number, client.socket.get(), std::move(*line)});
    }
    std::erase_if(job.clients, [&](const Client& client) {
      return client.lost && std::none_of(found.begin(), found.end(), [&](const Call& call) {
               return call.socket == client.socket.get();
             });
    });
  }
  return found;
}

std::string RegistryDesk::answer(const Call& call) {
  if (call.line.empty()) return "{}";
  if (steady_clock::now() < away_until_) return error_line(away_, "io");
  const Result<std::string> said = link_.ask_registry(call.job, call.line);
  if (said.ok())
    return said->find('\n') == std::string::npos ? *said : compact_json(parse_json(*said));
  const Error& error = said.error();
  if (error.code == ErrorCode::kIo) {
    away_until_ = steady_clock::now() + kAwayFor;
    away_ = error.message;
    return error_line(error.message, "io");
  }
  return error_line(error.message, error.code == ErrorCode::kInvalidInput ? "invalid" : "refused");
}

void RegistryDesk::run() {
  for (;;) {
    wait();
    std::vector<Call> found;
    {
      const MutexLock lock(mutex_);
      if (stopping_) return;
      found = calls();
    }
    for (const Call& call : found) {
      const std::string line = answer(call) + "\n";
      const MutexLock lock(mutex_);
      for (auto& [number, job] : jobs_) {
        for (Client& client : job.clients) {
          if (client.socket.get() != call.socket || client.lost) continue;
          client.lost =
              !elastic::send_all(call.socket, line, steady_clock::now() + kTakeWithin).ok();
        }
      }
    }
  }
}

}  // namespace rubato::agent
