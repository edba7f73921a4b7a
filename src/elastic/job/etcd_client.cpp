#include "elastic/job/etcd_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>

#include "base/json_text.h"

namespace rubato::elastic {

namespace {

using nlohmann::json;
using std::chrono::steady_clock;

// A request of etcd has at most 1.5 MiB unless it is configured otherwise; as base64 it is longer,
// and an answer may hold a value twice.
constexpr std::size_t kMostAnswer = 8 << 20;
constexpr std::size_t kMostIdle = 4;

// What etcd's errors mean, by the code of gRPC. Those that are missing are final.
enum Code : std::int64_t {
  kCancelled = 1,
  kUnknownCode = 2,
  kDeadlineExceeded = 4,
  kResourceExhausted = 8,
  kAborted = 10,
  kInternal = 13,
  kUnavailable = 14,
};

std::string text_of(const json& object, const char* field) {
  const auto found = object.find(field);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

std::int64_t number_of(const json& object, const char* field) {
  const auto found = object.find(field);
  return found != object.end() && found->is_number_integer() ? found->get<std::int64_t>() : -1;
}

}  // namespace

struct EtcdClient::Attempt {
  enum class End {
    kAnswered,
    kFinal,    // etcd refuses it, and would again
    kNotSent,  // the member was not reached, or does not take requests: the next may
    kUnknown,  // no answer, or none that says what happened
  };
  End end = End::kNotSent;
  std::string problem;
  json answer;
};

EtcdClient::EtcdClient(std::vector<ServerAddress> members, Timing timing)
    : members_(std::move(members)), timing_(timing) {}

Result<json> EtcdClient::call(const std::string& path, const json& request, bool* doubtful) {
  const std::string text = compact_json(request);
  const auto give_up = steady_clock::now() + timing_.patience;
  bool unknown = false;
  std::string problem;
  auto patience = timing_.attempt;
  for (std::size_t tries = 1;; ++tries) {
    const std::size_t index = preferred_;
    const ServerAddress& member = this->member(index);
    const auto deadline = std::min(give_up, steady_clock::now() + patience);
    Attempt made = attempt(member, path, text, deadline);
    if (doubtful != nullptr) *doubtful = unknown;
    if (made.end == Attempt::End::kAnswered) return std::move(made.answer);
    unknown = unknown || made.end == Attempt::End::kUnknown;
    problem = fmt::format("etcd at {}: {}", member.text(), made.problem);
    if (made.end == Attempt::End::kFinal) break;
    // Of several threads, one moves on.
    std::size_t expected = index;
    preferred_.compare_exchange_strong(expected, (index + 1) % members_.size());
    const bool round_over = tries % members_.size() == 0;
    if (round_over) patience *= 2;
    if (steady_clock::now() + timing_.pause >= give_up) break;
    if (round_over) std::this_thread::sleep_for(timing_.pause);
  }
  if (doubtful != nullptr) *doubtful = unknown;
  return Error{unknown ? ErrorCode::kIo : ErrorCode::kRefused, std::move(problem)};
}

EtcdClient::Attempt EtcdClient::attempt(const ServerAddress& member, const std::string& path,
                                        const std::string& request, HttpConnection::Time deadline) {
  using End = Attempt::End;
  int status = 0;
  bool sent = false;
  const Result<std::string> text = exchange(member, path, request, deadline, status, sent);
  if (!text.ok()) {
    return {sent ? End::kUnknown : End::kNotSent, text.error().message, nullptr};
  }
  json answer = parse_json(*text);
  if (!answer.is_object()) {
    return {End::kUnknown,
            fmt::format("the answer (status {}) is no JSON object; expected etcd 3.4 or later, "
                        "with its JSON gateway",
                        status),
            nullptr};
  }
  if (status == 200 && !answer.contains("error")) {
    if (of_this_cluster(answer)) return {End::kAnswered, "", std::move(answer)};
    return {End::kUnknown, "it belongs to another cluster than the other members", nullptr};
  }
  std::string message = text_of(answer, "message");
  if (message.empty()) message = text_of(answer, "error");
  if (message.empty()) message = fmt::format("status {}", status);
  message.resize(std::min<std::size_t>(message.size(), 500));
  switch (number_of(answer, "code")) {
    case kResourceExhausted:
      // Either too many requests, or no space: that lasts until somebody makes room.
      return {message.find("too many") != std::string::npos ? End::kNotSent : End::kFinal, message,
              nullptr};
    case kCancelled:
    case kUnknownCode:
    case kDeadlineExceeded:
    case kAborted:
    case kInternal:
    case kUnavailable:
    case -1:
      return {End::kUnknown, message, nullptr};
    default:
      return {End::kFinal, message, nullptr};
  }
}

// The body of the answer. An error with `sent`: the member may have got the request.
Result<std::string> EtcdClient::exchange(const ServerAddress& member, const std::string& path,
                                         const std::string& request, HttpConnection::Time deadline,
                                         int& status, bool& sent) {
  std::optional<HttpConnection> connection;
  {
    const MutexLock lock(mutex_);
    const auto found = std::find_if(idle_.begin(), idle_.end(),
                                    [&](const Idle& idle) { return idle.member == member; });
    if (found != idle_.end()) {
      connection.emplace(std::move(found->connection));
      idle_.erase(found);
      if (!connection->alive()) connection.reset();
    }
  }
  if (!connection) {
    Result<HttpConnection> opened = HttpConnection::open(member.host, member.port, deadline);
    if (!opened.ok()) return opened.error();
    connection.emplace(std::move(*opened));
  }
  sent = true;
  const Status posted = connection->post(path, request, deadline);
  if (!posted.ok()) return posted.error();
  HttpReader reader(kMostAnswer);
  while (!reader.complete()) {
    const Result<HttpConnection::Read> read = connection->receive(reader, deadline);
    if (!read.ok()) return read.error();
    if (*read == HttpConnection::Read::kTimedOut) {
      return Error{ErrorCode::kIo, "no answer in time"};
    }
    if (steady_clock::now() > deadline) return Error{ErrorCode::kIo, "the answer takes too long"};
  }
  status = reader.status();
  if (reader.keeps_open()) {
    const MutexLock lock(mutex_);
    if (idle_.size() >= kMostIdle) idle_.erase(idle_.begin());
    idle_.push_back({member, std::move(*connection)});
  }
  return reader.take_body();
}

// Members of two clusters would decide apart from each other.
bool EtcdClient::of_this_cluster(const json& answer) {
  const auto header = answer.find("header");
  if (header == answer.end() || !header->is_object()) return false;
  const std::string cluster = text_of(*header, "cluster_id");
  if (cluster.empty()) return false;
  const MutexLock lock(mutex_);
  if (cluster_.empty()) cluster_ = cluster;
  return cluster_ == cluster;
}

}  // namespace rubato::elastic
