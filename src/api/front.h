// Accepts connections and passes each complete request to one handler. cpp-httplib parses the
// request line and writes the responses. We read requests ourselves (raw_request.h), because
// cpp-httplib does not limit lines, headers and time.
//
// Each connection has its own thread. There are at most `connections` of them. A further connection
// pushes out the one that has kept the server waiting longest, so slow or idle clients cannot lock
// others out.
#pragma once

#include <httplib.h>

#include <atomic>
#include <functional>
#include <list>
#include <string>
#include <thread>

#include "api/channel.h"
#include "api/raw_request.h"
#include "base/mutex.h"

namespace rubato::api {

struct FrontLimits {
  RequestLimits request;
  double write_s = 10;  // give up a response after this long without a byte sent
  int connections = 256;
  int requests_per_connection = 100'000;
};

struct FrontCounts {
  std::int64_t accepted = 0;     // connections since startup
  std::int64_t pushed_out = 0;   // to make room for others
  std::int64_t turned_away = 0;  // no connection could be pushed out
  std::int64_t refused = 0;      // malformed requests
  int open = 0;
};

class Front final : private httplib::Server {
 public:
  // True if the client has closed the connection. Quick; valid until the handler returns.
  using Gone = std::function<bool()>;
  // Called concurrently by many threads. The request's header "content-type" has the type of the
  // body. Must not throw.
  using Handler =
      std::function<void(const httplib::Request&, httplib::Response&, const Gone& gone)>;

  Front(const FrontLimits& limits, TlsContext tls, Handler handler);
  ~Front() override;  // calls stop_all()
  Front(const Front&) = delete;
  Front& operator=(const Front&) = delete;

  // Port 0 picks a free port; see port().
  Status listen_on(const std::string& host, int port);
  // At a unix socket that every local user may connect to. Its peers are "unix:UID".
  Status listen_at(const std::string& path);
  int port() const { return port_; }
  // Closes all connections and returns when their threads have ended.
  void stop_all();
  FrontCounts counts() const;

 private:
  struct Connection {
    int socket = -1;
    std::thread thread;
    // When it began to wait for its client, as a count of Clock ticks; 0: it is not waiting.
    std::atomic<Clock::rep> waits_since{0};
    bool pushed_out = false;  // guarded by mutex_, like `done`
    bool done = false;
  };
  class ByteStream;

  void begin_accepting();
  void accept_connections();
  void admit(int socket);
  void push_out_slowest();
  void join_ended();
  void serve(Connection& connection);
  bool answer(Channel& channel, Connection& connection, RawRequest request, bool last);
  void refuse(Channel& channel, const Refusal& refusal);

  const FrontLimits limits_;
  const TlsContext tls_;
  std::thread acceptor_;
  int listener_ = -1;
  int wake_ = -1;  // eventfd: ends the acceptor
  int port_ = 0;
  mutable Mutex mutex_;
  std::list<Connection> connections_ RUBATO_GUARDED_BY(mutex_);
  FrontCounts counts_ RUBATO_GUARDED_BY(mutex_);
};

}  // namespace rubato::api
