#include "elastic/job/etcd_watch.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/base64.h"
#include "base/json_text.h"

namespace rubato::elastic {

namespace {

using nlohmann::json;
using std::chrono::steady_clock;

constexpr auto kConnectTime = std::chrono::seconds(1);
// How soon it follows the client to another member.
constexpr auto kLookAtClient = std::chrono::milliseconds(200);
constexpr auto kPauseBeforeAnother = std::chrono::milliseconds(200);
// One message: several large versions may be written at a time.
constexpr std::size_t kMostMessage = 32 << 20;

// What begins with `prefix` ends before this.
std::string end_of(std::string prefix) {
  ++prefix.back();  // a slash
  return prefix;
}

}  // namespace

EtcdWatch::EtcdWatch(const EtcdClient& client, std::string prefix, std::function<void()> changed)
    : client_(client),
      prefix_(std::move(prefix)),
      changed_(std::move(changed)),
      stop_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  thread_ = std::thread([this] { run(); });
}

EtcdWatch::~EtcdWatch() {
  eventfd_write(stop_.get(), 1);
  thread_.join();
}

void EtcdWatch::run() {
  do {
    follow(client_.preferred());
  } while (pause());
}

// False: this object ends.
bool EtcdWatch::pause() {
  pollfd entry{.fd = stop_.get(), .events = POLLIN, .revents = 0};
  return ::poll(&entry, 1, static_cast<int>(kPauseBeforeAnother.count())) == 0;
}

// Returns when the connection is of no use any more, or this object ends.
void EtcdWatch::follow(std::size_t member) {
  const ServerAddress& server = client_.member(member);
  const auto connected_by = steady_clock::now() + kConnectTime;
  const Result<HttpConnection> connection =
      HttpConnection::open(server.host, server.port, connected_by);
  if (!connection.ok()) return;
  const json request = {
      {"create_request", {{"key", base64(prefix_)}, {"range_end", base64(end_of(prefix_))}}}};
  if (!connection->post("/v3/watch", compact_json(request), connected_by).ok()) return;
  HttpReader reader(kMostMessage);
  std::string text;
  while (!reader.complete() && client_.preferred() == member) {
    const Result<HttpConnection::Read> read =
        connection->receive(reader, steady_clock::now() + kLookAtClient, stop_.get());
    if (!read.ok() || *read == HttpConnection::Read::kInterrupted) return;
    text += reader.take_body();
    if (text.size() > kMostMessage || !take_lines(text)) return;
  }
}

// Each line is a message: that the watch exists (what was written before that was perhaps missed),
// that something was written, or that the watch has ended.
bool EtcdWatch::take_lines(std::string& text) {
  bool news = false;
  for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n')) {
    const json message = parse_json(std::string_view(text).substr(0, end));
    text.erase(0, end + 1);
    if (!message.is_object() || !message.contains("result")) return false;
    const json& result = message["result"];
    if (!result.is_object() || result.contains("canceled")) return false;
    news = true;
  }
  if (news) changed_();
  return true;
}

}  // namespace rubato::elastic
