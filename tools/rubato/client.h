// The client of the daemon's API (docs/api.md).
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace httplib {
class Client;
enum class Error;
}  // namespace httplib

namespace rubato::cli {

// The daemon chosen by options and environment. Empty fields stand for the local daemon.
struct ServerChoice {
  // --server, RUBATO_SERVER. Several with commas between them, if there are daemons that stand by:
  // the one that leads is found by asking.
  std::string url;
  std::string token_file;  // --token-file, RUBATO_TOKEN_FILE
  std::string ca_file;     // --ca-file, RUBATO_CA_FILE: certificates to trust, for https
  bool given() const { return !url.empty(); }
};

// The state folder of the daemon on this machine: RUBATO_STATE if set, else the first of the user's
// and the system's folder that has a running daemon, else the user's.
std::string find_state_folder();
// The address of the daemon with that state folder; empty if none runs.
std::string local_url();

class Client {
 public:
  using Headers = std::map<std::string, std::string>;
  // Returns false to stop receiving.
  using Receiver = std::function<bool(std::string_view bytes)>;

  // Finds the daemon but does not connect to it yet.
  static Result<Client> make(const ServerChoice& choice);
  Client(Client&&) noexcept;
  Client& operator=(Client&&) noexcept;
  ~Client();

  // Returns the JSON of the response. An error has the server's message.
  Result<nlohmann::json> get(const std::string& path);
  Result<nlohmann::json> send(const std::string& method, const std::string& path,
                              const nlohmann::json& body, const Headers& headers = {});
  Result<nlohmann::json> put_bytes(const std::string& path, const std::string& bytes);
  // Reads all pages of the list of jobs. `active`: only jobs that have not ended. `query`: further
  // parameters of the route, such as "&name=a*".
  Result<nlohmann::json> all_jobs(bool active, const std::string& query = "");
  // Passes a response to the receiver as it arrives. It is not an error if the receiver stops it.
  Status stream(const std::string& path, const Headers& headers, const Receiver& receiver);
  // Receives a file from byte `from` on, if it still has this ETag, and from its beginning if not.
  // `begin` gets what comes. An answer that ends early is a kIo error.
  struct FilePart {
    std::int64_t first = 0;
    std::string etag{};
  };
  Status receive_file(const std::string& path, const FilePart& from,
                      const std::function<bool(const FilePart&)>& begin, const Receiver& receiver);
  // Receives the events of `path` (".../events") after number `after` until the receiver returns
  // false. If the connection breaks, it reconnects and resumes after the last event. The first
  // connection must succeed.
  Status follow_events(const std::string& path, std::int64_t after,
                       const std::function<bool(const nlohmann::json& event)>& receiver);

  // That of the daemon that was asked last; and all, with commas between them.
  const std::string& url() const { return url_; }
  std::string urls() const;

 private:
  Client(std::vector<std::string> urls, std::string token, std::string token_file,
         std::string ca_file);
  void connect();
  // A call was not carried out, but may be by another daemon. True: `http_` is the next one to ask.
  bool try_next(std::chrono::steady_clock::time_point give_up);
  // Gets the status and the ETag of an answer that was not refused. Returns false to stop.
  using Begin = std::function<bool(int status, const std::string& etag)>;
  Status receive(const std::string& path, const Headers& headers, const Begin& begin,
                 const Receiver& receiver);
  struct Body {
    std::string bytes{};
    const char* type = "application/json";
  };
  Result<nlohmann::json> exchange(const std::string& method, const std::string& path,
                                  const Body& body, const Headers& headers);
  rubato::Error unreachable(const std::string& why) const;
  rubato::Error broken(httplib::Error error) const;

  std::vector<std::string> urls_;
  std::size_t current_ = 0;
  std::string url_;  // whom to ask
  std::string token_;
  std::string token_file_;  // the file of the token; empty if there is none
  std::string ca_file_;
  std::unique_ptr<httplib::Client> http_;
};

// Percent-encodes a text for a path or a query.
std::string url_quoted(std::string_view text);

}  // namespace rubato::cli
