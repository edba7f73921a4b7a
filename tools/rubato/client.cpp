#include "client.h"

#include <fmt/format.h>
#include <httplib.h>
#include <openssl/x509.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <thread>

#include "base/file.h"
#include "base/json_text.h"
#include "base/text.h"

namespace rubato::cli {

namespace {

using nlohmann::json;

constexpr const char* kApi = "/api/v1";

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// The contents of a file that must contain exactly one word.
Result<std::string> read_word(const std::string& file) {
  const Result<std::string> text = read_file(file);
  if (!text.ok()) return text;
  const std::string_view word = trim(*text);
  const bool printable =
      std::all_of(word.begin(), word.end(), [](char c) { return c > ' ' && c < 127; });
  if (word.empty() || !printable)
    return invalid_input(file + ": expected one word, such as a token");
  return std::string(word);
}

// Explains why the certificate was refused and says what to do. `verified`: OpenSSL's result; if it
// has nothing against the certificate, it is the name that does not fit.
std::string certificate_problem(const std::string& url, long verified) {
  if (verified == X509_V_OK) {
    return fmt::format(
        "its certificate is for another name than the one in {}; give the name that the "
        "certificate is for with --server https://NAME:PORT or RUBATO_SERVER",
        url);
  }
  return fmt::format(
      "its certificate is not trusted ({}); give the file of the certificate or of its authority "
      "with --ca-file FILE or RUBATO_CA_FILE",
      X509_verify_cert_error_string(verified));
}

constexpr int kAnswerWithin = 60;  // seconds for an answer
// With several daemons: until one of them leads.
constexpr auto kFindLeaderWithin = std::chrono::seconds(20);
constexpr auto kBetweenRounds = std::chrono::milliseconds(300);

// Explains an error of httplib and says what to do.
std::string connection_problem(httplib::Error error) {
  switch (error) {
    case httplib::Error::Connection:
    case httplib::Error::ConnectionTimeout:
    case httplib::Error::BindIPAddress:
      return "no server answers there; is rubatod running? Start it with 'rubatod', or name "
             "another "
             "daemon with --server URL or RUBATO_SERVER";
    case httplib::Error::Read:
    case httplib::Error::Write:
      return fmt::format(
          "it did not answer within {} s, or the connection broke; try again, and "
          "see the daemon's log",
          kAnswerWithin);
    case httplib::Error::SSLConnection:
    case httplib::Error::SSLLoadingCerts:
      return "TLS failed; check --ca-file and whether the daemon serves https";
    default:
      return httplib::to_string(error);
  }
}

// Whether the call was not carried out, but may be by another daemon: this one was not reached, or
// stands by.
bool may_go_elsewhere(const httplib::Result& result, const std::string& body) {
  if (!result) {
    return result.error() == httplib::Error::Connection ||
           result.error() == httplib::Error::ConnectionTimeout;
  }
  if (result->status != 503) return false;
  const json answer = parse_json(body);
  return answer.is_object() && answer.contains("error") && answer["error"].is_object() &&
         answer["error"].value("code", json()) == "standby";
}

Error refused(int status, const std::string& body) {
  const json answer = parse_json(body);
  std::string message = fmt::format("the server answered {}", status);
  if (answer.is_object() && answer.contains("error") && answer["error"].is_object()) {
    message = answer["error"].value("message", message);
  }
  const ErrorCode code = status == 404   ? ErrorCode::kNotFound
                         : status == 409 ? ErrorCode::kRefused
                                         : ErrorCode::kInvalidInput;
  return {code, std::move(message)};
}

// Names the options of this program instead of the header that the server expects.
Error unauthorized(const std::string& url, const std::string& token_file) {
  return invalid_input(
      token_file.empty()
          ? fmt::format(
                "{} requires a token; give the file that holds yours with --token-file FILE or "
                "RUBATO_TOKEN_FILE",
                url)
          : fmt::format("the token in {} is not known to {}; give another file with --token-file "
                        "FILE or RUBATO_TOKEN_FILE",
                        token_file, url));
}

// Where local users reach the system's daemon without a token.
constexpr std::string_view kLocalScheme = "unix:";
constexpr const char* kSystemSocket = "/run/rubato/rubatod.sock";

bool is_local(const std::string& url) { return url.starts_with(kLocalScheme); }

// Without a token of one's own: neither a daemon in the user's state folder nor the right to read
// the system daemon's.
bool needs_local_socket(const std::string& folder) {
  return environment("RUBATO_STATE").empty() &&
         access((folder + "/admin.token").c_str(), R_OK) != 0 && access(kSystemSocket, W_OK) == 0;
}

}  // namespace

std::string find_state_folder() {
  if (const std::string given = environment("RUBATO_STATE"); !given.empty()) return given;
  std::string own = environment("XDG_STATE_HOME");
  if (own.empty()) own = environment("HOME") + "/.local/state";
  own += "/rubato";
  const std::string system = "/var/lib/rubato";
  return is_file(own + "/server.url") || !is_file(system + "/server.url") ? own : system;
}

std::string local_url() {
  const Result<std::string> url = read_word(find_state_folder() + "/server.url");
  return url.ok() ? *url : "";
}

Client::Client(std::vector<std::string> urls, std::string token, std::string token_file,
               std::string ca_file)
    : urls_(std::move(urls)),
      token_(std::move(token)),
      token_file_(std::move(token_file)),
      ca_file_(std::move(ca_file)) {
  connect();
}

void Client::connect() {
  url_ = urls_[current_];
  http_ =
      std::make_unique<httplib::Client>(is_local(url_) ? url_.substr(kLocalScheme.size()) : url_);
  if (is_local(url_)) {
    http_->set_address_family(AF_UNIX);
    http_->set_default_headers({{"Host", "localhost"}});
  }
  http_->set_connection_timeout(5);
  http_->set_read_timeout(kAnswerWithin);
  http_->set_tcp_nodelay(true);
  http_->set_keep_alive(true);
  if (!token_.empty()) http_->set_bearer_token_auth(token_);
  if (!ca_file_.empty()) http_->set_ca_cert_path(ca_file_);
}

std::string Client::urls() const { return join(urls_, ","); }

bool Client::try_next(std::chrono::steady_clock::time_point give_up) {
  if (urls_.size() == 1 || std::chrono::steady_clock::now() > give_up) return false;
  current_ = (current_ + 1) % urls_.size();
  if (current_ == 0) std::this_thread::sleep_for(kBetweenRounds);
  connect();
  return true;
}

Client::Client(Client&&) noexcept = default;
Client& Client::operator=(Client&&) noexcept = default;
Client::~Client() = default;

Result<Client> Client::make(const ServerChoice& choice) {
  const std::string folder = find_state_folder();
  std::string url = choice.url;
  if (url.empty() && choice.token_file.empty() && needs_local_socket(folder)) {
    url = fmt::format("{}{}", kLocalScheme, kSystemSocket);
  }
  if (is_local(url)) return Client({url}, "", "", "");
  if (url.empty()) {
    Result<std::string> local = read_word(folder + "/server.url");
    // The system's daemon publishes its address here for users who cannot read its state folder.
    if (!local.ok()) local = read_word("/run/rubato/server.url");
    if (!local.ok()) {
      return invalid_input(fmt::format(
          "no daemon runs on this machine ({}/server.url does not exist); start one with "
          "'rubatod', or give --server URL",
          folder));
    }
    url = *local;
  }
  std::vector<std::string> urls;
  for (std::string_view one : split(url, ',')) {
    if (!one.starts_with("http://") && !one.starts_with("https://")) {
      return invalid_input(fmt::format(
          "--server {}: expected http://HOST:PORT, https://HOST:PORT or unix:PATH", url));
    }
    while (one.ends_with('/')) one.remove_suffix(1);
    urls.emplace_back(one);
  }
  if (!choice.token_file.empty()) {
    const Result<std::string> token = read_word(choice.token_file);
    if (!token.ok()) return token.error();
    return Client(std::move(urls), *token, choice.token_file, choice.ca_file);
  }
  // The administrator's token belongs to the local daemon. Never send it to another server.
  if (choice.given()) return Client(std::move(urls), "", "", choice.ca_file);
  const std::string token_file = folder + "/admin.token";
  const Result<std::string> token = read_word(token_file);
  if (!token.ok()) {
    return invalid_input(fmt::format(
        "{} cannot be read; give your token with --token-file or RUBATO_TOKEN_FILE", token_file));
  }
  return Client(std::move(urls), *token, token_file, choice.ca_file);
}

Error Client::unreachable(const std::string& why) const {
  return {ErrorCode::kIo, fmt::format("cannot reach {}: {}", url_, why)};
}

Error Client::broken(httplib::Error error) const {
  if (error == httplib::Error::SSLServerVerification) {
    return unreachable(certificate_problem(url_, http_->get_openssl_verify_result()));
  }
  // It was reached, so "cannot reach" would mislead.
  if (error == httplib::Error::Read || error == httplib::Error::Write) {
    return {ErrorCode::kIo, fmt::format("{}: {}", url_, connection_problem(error))};
  }
  return unreachable(connection_problem(error));
}

Result<json> Client::get(const std::string& path) { return send("GET", path, nullptr); }

Result<json> Client::send(const std::string& method, const std::string& path, const json& body,
                          const Headers& headers) {
  return exchange(method, path, {body.is_null() ? "" : compact_json(body)}, headers);
}

Result<json> Client::put_bytes(const std::string& path, const std::string& bytes) {
  return exchange("PUT", path, {bytes, "application/octet-stream"}, {});
}

Result<json> Client::exchange(const std::string& method, const std::string& path, const Body& body,
                              const Headers& headers) {
  httplib::Request request;
  request.method = method;
  request.path = kApi + path;
  for (const auto& [name, value] : headers) request.set_header(name, value);
  request.body = body.bytes;
  // Bytes may be none.
  if (!body.bytes.empty() || method == "PUT") request.set_header("Content-Type", body.type);
  const auto give_up = std::chrono::steady_clock::now() + kFindLeaderWithin;
  httplib::Result result = http_->send(request);
  while (may_go_elsewhere(result, result ? result->body : "") && try_next(give_up)) {
    result = http_->send(request);
  }
  if (!result) return broken(result.error());
  if (result->status == 401) return unauthorized(url_, token_file_);
  if (result->status >= 400) return refused(result->status, result->body);
  if (result->body.empty()) return json(nullptr);
  json answer = parse_json(result->body);
  if (answer.is_discarded()) return unreachable("its answer is not JSON, so it is not rubatod");
  return answer;
}

Result<json> Client::all_jobs(bool active, const std::string& query) {
  json jobs = json::array();
  json next = 0;
  while (!next.is_null()) {
    Result<json> page = get(fmt::format("/jobs?limit=10000&active={}&after={}{}",
                                        active ? "true" : "false", compact_json(next), query));
    if (!page.ok()) return page;
    for (json& job : (*page)["jobs"]) jobs.push_back(std::move(job));
    next = page->value("next", json());
  }
  return jobs;
}

Status Client::receive(const std::string& path, const Headers& headers, const Begin& begin,
                       const Receiver& receiver) {
  int status = 0;
  std::string error_body;
  bool wanted = true;
  const auto ask = [&] {
    status = 0;
    error_body.clear();
    return http_->Get(
        kApi + path, httplib::Headers(headers.begin(), headers.end()),
        [&](const httplib::Response& response) {
          status = response.status;
          wanted = status >= 400 || begin(status, response.get_header_value("ETag"));
          return wanted;
        },
        [&](const char* data, std::size_t size) {
          if (status >= 400) {
            error_body.append(data, size);
            return true;
          }
          wanted = receiver(std::string_view(data, size));
          return wanted;
        });
  };
  const auto give_up = std::chrono::steady_clock::now() + kFindLeaderWithin;
  httplib::Result result = ask();
  while (may_go_elsewhere(result, error_body) && try_next(give_up)) result = ask();
  if (status == 401) return unauthorized(url_, token_file_);
  if (status >= 400) return refused(status, error_body);
  if (!wanted || result) return ok_status();
  return broken(result.error());
}

Status Client::stream(const std::string& path, const Headers& headers, const Receiver& receiver) {
  return receive(
      path, headers, [](int, const std::string&) { return true; }, receiver);
}

Status Client::receive_file(const std::string& path, const FilePart& from,
                            const std::function<bool(const FilePart&)>& begin,
                            const Receiver& receiver) {
  Headers headers;
  if (from.first > 0) {
    headers.emplace("Range", fmt::format("bytes={}-", from.first));
    headers.emplace("If-Range", from.etag);
  }
  return receive(
      path, headers,
      [&](int status, const std::string& etag) {
        return begin({.first = status == 206 ? from.first : 0, .etag = etag});
      },
      receiver);
}

Status Client::follow_events(const std::string& path, std::int64_t after,
                             const std::function<bool(const json& event)>& receiver) {
  bool connected = false;
  bool wanted = true;
  int failures = 0;
  while (wanted) {
    std::string buffer;
    Status ended =
        stream(path, {{"Accept", "text/event-stream"}, {"Last-Event-ID", std::to_string(after)}},
               [&](std::string_view bytes) {
                 connected = true;
                 failures = 0;
                 buffer += bytes;
                 for (std::size_t end = buffer.find("\n\n"); wanted && end != std::string::npos;
                      end = buffer.find("\n\n")) {
                   const std::size_t data = buffer.rfind("data: ", end);
                   if (data != std::string::npos) {
                     const json event = parse_json(buffer.substr(data + 6, end - data - 6));
                     if (event.is_object()) {
                       after = event.value("seq", after);
                       wanted = receiver(event);
                     }
                   }
                   buffer.erase(0, end + 2);
                 }
                 return wanted;
               });
    if (!wanted) break;
    // A restarted daemon is back within seconds, and its jobs keep running meanwhile.
    if (!ended.ok() && (!connected || ++failures > 30)) return ended;
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
  }
  return ok_status();
}

std::string url_quoted(std::string_view text) {
  std::string quoted;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0 || std::string_view("-._~").find(c) != std::string_view::npos) {
      quoted += c;
    } else {
      quoted += fmt::format("%{:02X}", byte);
    }
  }
  return quoted;
}

}  // namespace rubato::cli
