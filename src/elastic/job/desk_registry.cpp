#include "elastic/job/desk_registry.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "base/json_text.h"
#include "elastic/transport/line_socket.h"

namespace rubato::elastic {

namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

// The agent answers within its own, shorter limit.
constexpr auto kAnswerWithin = std::chrono::seconds(15);
constexpr milliseconds kLook{500};
constexpr milliseconds kPauseBeforeAnother{300};

// Waits until the socket has something to read, or `stop` does (then: false), or the deadline.
Result<bool> wait_for(int socket, int stop, steady_clock::time_point deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now());
    if (left.count() <= 0) return Error{ErrorCode::kIo, "the agent does not answer"};
    pollfd entries[] = {{.fd = socket, .events = POLLIN, .revents = 0},
                        {.fd = stop, .events = POLLIN, .revents = 0}};
    const int ready = ::poll(entries, stop >= 0 ? 2 : 1, static_cast<int>(left.count()));
    if (ready > 0) return stop < 0 || entries[1].revents == 0;
  }
}

Result<std::string> read_line(int socket, LineReader& reader) {
  const auto deadline = steady_clock::now() + kAnswerWithin;
  for (;;) {
    if (std::optional<std::string> line = reader.next()) return std::move(*line);
    const Result<bool> waited = wait_for(socket, -1, deadline);
    if (!waited.ok()) return waited.error();
    const Status received = reader.receive(socket);
    if (!received.ok()) return received.error();
  }
}

Error error_in(const json& answer) {
  const std::string code = answer.value("code", "io");
  return {code == "invalid"   ? ErrorCode::kInvalidInput
          : code == "refused" ? ErrorCode::kRefused
                              : ErrorCode::kIo,
          answer.value("error", "")};
}

// Tells of changes as long as the agent is there. When it comes back, something may have changed.
class DeskWatch final : public RegistryWatch {
 public:
  DeskWatch(std::string socket, std::function<void()> changed)
      : socket_(std::move(socket)),
        changed_(std::move(changed)),
        stop_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        thread_([this] { run(); }) {}
  ~DeskWatch() override {
    eventfd_write(stop_.get(), 1);
    thread_.join();
  }
  DeskWatch(const DeskWatch&) = delete;
  DeskWatch& operator=(const DeskWatch&) = delete;

 private:
  void run() {
    do {
      follow();
    } while (pause());
  }
  bool pause() {
    pollfd entry{.fd = stop_.get(), .events = POLLIN, .revents = 0};
    return ::poll(&entry, 1, static_cast<int>(kPauseBeforeAnother.count())) == 0;
  }
  void follow() {
    const Result<Descriptor> connection = connect_to_file(socket_);
    if (!connection.ok()) return;
    const auto by = steady_clock::now() + kAnswerWithin;
    if (!send_all(connection->get(),
                  R"({"op":"watch"})"
                  "\n",
                  by)
             .ok())
      return;
    LineReader reader(kLongestDeskLine);
    for (;;) {
      while (reader.next()) changed_();
      const Result<bool> waited =
          wait_for(connection->get(), stop_.get(), steady_clock::now() + std::chrono::hours(1));
      if (waited.ok() && !*waited) return;
      if (waited.ok() && !reader.receive(connection->get()).ok()) return;
    }
  }

  const std::string socket_;
  const std::function<void()> changed_;
  const Descriptor stop_;
  std::thread thread_;
};

}  // namespace

milliseconds DeskRegistry::look_interval() const { return kLook; }

std::unique_ptr<RegistryWatch> DeskRegistry::watch(std::function<void()> changed) {
  return std::make_unique<DeskWatch>(socket_, std::move(changed));
}

Result<json> DeskRegistry::call(const json& request) {
  const MutexLock lock(mutex_);
  const auto try_once = [&]() -> Result<std::string> {
    if (!connection_.valid()) {
      Result<Descriptor> connected = connect_to_file(socket_);
      if (!connected.ok()) return connected.error();
      connection_ = std::move(*connected);
    }
    const Status sent = send_all(connection_.get(), compact_json(request) + "\n",
                                 steady_clock::now() + kAnswerWithin);
    if (!sent.ok()) return sent.error();
    LineReader reader(kLongestDeskLine);
    return read_line(connection_.get(), reader);
  };
  const bool idle_connection = connection_.valid();
  Result<std::string> line = try_once();
  // The agent may have been started again since the last call. A swap might have been made.
  if (!line.ok() && idle_connection && request["op"] != "swap") {
    connection_ = Descriptor();
    line = try_once();
  }
  if (!line.ok()) {
    connection_ = Descriptor();
    return line.error();
  }
  json answer = parse_json(*line);
  if (!answer.is_object()) {
    connection_ = Descriptor();
    return Error{ErrorCode::kIo, fmt::format("{}: an answer that is not JSON", socket_)};
  }
  if (answer.contains("error")) return error_in(answer);
  return answer;
}

Result<Record> DeskRegistry::get(const std::string& name) {
  const Result<json> answer = call({{"op", "get"}, {"name", name}});
  if (!answer.ok()) return answer.error();
  try {
    return Record{answer->at("version").get<std::int64_t>(),
                  answer->at("value").get<std::string>()};
  } catch (const json::exception& problem) {
    return Error{ErrorCode::kIo, fmt::format("{}: {}", socket_, problem.what())};
  }
}

Result<bool> DeskRegistry::compare_and_swap(const std::string& name, std::int64_t expected,
                                            const std::string& value) {
  const Result<json> answer =
      call({{"op", "swap"}, {"name", name}, {"expected", expected}, {"value", value}});
  if (!answer.ok()) return answer.error();
  const auto won = answer->find("won");
  if (won != answer->end() && won->is_boolean()) return won->get<bool>();
  return Error{ErrorCode::kIo, fmt::format("{}: an answer without `won`", socket_)};
}

Result<std::optional<std::string>> DeskRegistry::at(const std::string& name, std::int64_t version) {
  const Result<json> answer = call({{"op", "at"}, {"name", name}, {"version", version}});
  if (!answer.ok()) return answer.error();
  const auto value = answer->find("value");
  if (value == answer->end() || !value->is_string()) return std::optional<std::string>();
  return std::optional<std::string>(value->get<std::string>());
}

}  // namespace rubato::elastic
