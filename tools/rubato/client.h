// The command line's side of the API (docs/api.md).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace httplib {
class Client;
}

namespace rubato::cli {

// Which daemon, as given by options and environment; empty parts: the local daemon's.
struct ServerChoice {
  std::string url;         // --server, RUBATO_SERVER
  std::string token_file;  // --token-file, RUBATO_TOKEN_FILE
  std::string ca_file;     // --ca-file, RUBATO_CA_FILE: certificates to trust, for https
  bool given() const { return !url.empty(); }
};

// Where a daemon of this machine keeps its state: RUBATO_STATE, else the user's folder, else the
// system's; the first that has a running daemon.
std::string find_state_folder();
// The address of the daemon whose state is there; empty: none runs.
std::string local_url();

class Client {
 public:
  using Headers = std::map<std::string, std::string>;
  // False: no more, please.
  using Receiver = std::function<bool(std::string_view bytes)>;

  // Finds the daemon; does not talk to it yet.
  static Result<Client> make(const ServerChoice& choice);
  Client(Client&&) noexcept;
  Client& operator=(Client&&) noexcept;
  ~Client();

  // The answer's JSON. An error has the server's message.
  Result<nlohmann::json> get(const std::string& path);
  Result<nlohmann::json> send(const std::string& method, const std::string& path,
                              const nlohmann::json& body, const Headers& headers = {});
  // All pages of the list of jobs; `active`: only those that have not ended.
  Result<nlohmann::json> all_jobs(bool active);
  // An answer that is taken as it comes. Broken off by the receiver is no error.
  Status stream(const std::string& path, const Headers& headers, const Receiver& receiver);
  // Events of `path` (".../events") after number `after`, until the receiver says no. When the
  // connection breaks it connects again and goes on where it was; the first connection must work.
  Status follow_events(const std::string& path, std::int64_t after,
                       const std::function<bool(const nlohmann::json& event)>& receiver);

  const std::string& url() const { return url_; }

 private:
  Client(std::string url, std::string token, std::string token_file, const std::string& ca_file);
  Error unreachable(const std::string& why) const;

  std::string url_;
  std::string token_file_;  // where the token came from; empty: there is none
  std::unique_ptr<httplib::Client> http_;
};

// A text as a part of a path or a query.
std::string url_quoted(std::string_view text);

}  // namespace rubato::cli
