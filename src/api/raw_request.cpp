#include "api/raw_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <map>

#include "base/text.h"

namespace rubato::api {

namespace {

// cpp-httplib refuses longer lines with its own error response, which does not have our form.
constexpr std::size_t kLongestLine = 8000;

Refusal malformed(std::string message) { return {400, "malformed-request", std::move(message)}; }

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

bool is_token(std::string_view text) {
  constexpr std::string_view kOthers = "!#$%&'*+-.^_`|~";
  return !text.empty() && std::all_of(text.begin(), text.end(), [&](unsigned char c) {
    return std::isalnum(c) != 0 || kOthers.find(static_cast<char>(c)) != std::string_view::npos;
  });
}

bool has_control_characters(std::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](unsigned char c) { return (c < 0x20 && c != '\t') || c == 0x7f; });
}

std::optional<Refusal> check_request_line(std::string_view line) {
  const std::vector<std::string_view> parts = split(line, ' ');
  if (parts.size() != 3 || !is_token(parts[0])) return malformed("not an HTTP request line");
  if (parts[2] != "HTTP/1.1" && parts[2] != "HTTP/1.0") {
    return malformed("unsupported protocol; use HTTP/1.1 or HTTP/1.0");
  }
  if (!parts[1].starts_with('/')) return malformed("the request target must be a path");
  constexpr std::array<std::string_view, 7> kMethods{"GET",    "HEAD",  "POST",   "PUT",
                                                     "DELETE", "PATCH", "OPTIONS"};
  if (std::find(kMethods.begin(), kMethods.end(), parts[0]) == kMethods.end()) {
    return Refusal{405, "method-not-allowed", "no route supports this method"};
  }
  return std::nullopt;
}

}  // namespace

std::variant<ParsedHead, Refusal> parse_head(std::string_view head, const RequestLimits& limits) {
  const Refusal too_large{
      431, "head-too-large",
      fmt::format("request line and headers are too long: at most {} bytes in total, {} per line",
                  limits.head_bytes, std::min(limits.head_bytes, kLongestLine))};
  if (head.size() > limits.head_bytes) return too_large;
  const std::vector<std::string_view> lines = split(head, '\n');
  std::map<std::string, std::string> known;
  ParsedHead parsed;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    std::string_view line = lines[i];
    if (line.size() > kLongestLine) return too_large;
    if (i + 1 < lines.size()) {
      if (!line.ends_with('\r')) return malformed("lines must end with CR LF");
      line.remove_suffix(1);
    }
    if (has_control_characters(line)) return malformed("control characters in the request");
    if (i == 0) {
      if (const auto refusal = check_request_line(line)) return *refusal;
      parsed.request.head = fmt::format("{}\r\n", line);
      parsed.request.keep_alive = line.ends_with("1.1");
      continue;
    }
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos || !is_token(line.substr(0, colon))) {
      return malformed("malformed header; expected NAME: VALUE");
    }
    const std::string name = lower(line.substr(0, colon));
    constexpr std::array<std::string_view, 15> kKnown{
        "host",     "authorization",  "accept",           "idempotency-key", "last-event-id",
        "if-range", "content-length", "content-encoding", "content-type",    "connection",
        "expect",   "range",          "cookie",           "origin",          "if-none-match"};
    if (name == "transfer-encoding") {
      return malformed("a body needs Content-Length; Transfer-Encoding is not accepted");
    }
    if (std::find(kKnown.begin(), kKnown.end(), name) == kKnown.end()) continue;
    const std::string value(trim(line.substr(colon + 1)));
    if (!known.emplace(name, value).second) return malformed("duplicate header: " + name);
    if (name.starts_with("content-") || name == "connection" || name == "expect" ||
        name == "range") {
      continue;
    }
    if (!value.empty()) parsed.request.head += fmt::format("{}: {}\r\n", name, value);
  }
  parsed.request.head += "\r\n";
  const std::string connection = lower(known["connection"]);
  if (connection.find("close") != std::string::npos) parsed.request.keep_alive = false;
  if (connection.find("keep-alive") != std::string::npos) parsed.request.keep_alive = true;
  if (!known["content-encoding"].empty() && lower(known["content-encoding"]) != "identity") {
    return malformed("compressed bodies are not accepted");
  }
  parsed.request.content_type = lower(known["content-type"]);
  parsed.request.range = known["range"];
  parsed.expects_continue = lower(known["expect"]) == "100-continue";
  if (const auto length = known.find("content-length"); length != known.end()) {
    const std::string& digits = length->second;
    if (digits.empty() || !std::all_of(digits.begin(), digits.end(),
                                       [](unsigned char c) { return std::isdigit(c) != 0; })) {
      return malformed("Content-Length is not a number");
    }
    const std::optional<std::int64_t> value = parse_int(digits);
    if (!value || *value > static_cast<std::int64_t>(limits.body_bytes)) {
      return Refusal{413, "body-too-large",
                     fmt::format("the body must have at most {} bytes", limits.body_bytes)};
    }
    parsed.content_length = static_cast<std::size_t>(*value);
  }
  return parsed;
}

std::variant<RawRequest, Refusal, Closed> read_request(Channel& channel, std::string& buffer,
                                                       const RequestLimits& limits) {
  const Refusal slow{408, "too-slow",
                     fmt::format("a request must arrive within {} s", limits.request_s)};
  std::array<char, 16 * 1024> block{};
  Clock::time_point deadline = after_seconds(limits.idle_s);
  bool begun = false;
  // False if nothing more arrived in time.
  const auto more = [&] {
    const std::size_t got = channel.read(block.data(), block.size(), deadline);
    buffer.append(block.data(), got);
    return got > 0;
  };

  std::size_t end = std::string::npos;
  for (;;) {
    buffer.erase(0, std::min(buffer.find_first_not_of("\r\n"), buffer.size()));
    if (!buffer.empty()) {
      if (!begun) deadline = after_seconds(limits.request_s);
      begun = true;
      if (std::isupper(static_cast<unsigned char>(buffer.front())) == 0) {
        return malformed("not an HTTP request");
      }
      end = buffer.find("\r\n\r\n");
      if (end != std::string::npos) break;
      if (buffer.find("\n\n") != std::string::npos) return malformed("lines must end with CR LF");
      if (buffer.size() > limits.head_bytes) break;
    }
    if (!more()) {
      if (begun && Clock::now() >= deadline) return slow;
      return Closed{};
    }
  }
  auto head = parse_head(std::string_view(buffer).substr(0, end), limits);
  if (const Refusal* refusal = std::get_if<Refusal>(&head)) return *refusal;
  ParsedHead& parsed = std::get<ParsedHead>(head);
  buffer.erase(0, end + 4);
  if (parsed.expects_continue && buffer.size() < parsed.content_length) {
    constexpr std::string_view kGoOn = "HTTP/1.1 100 Continue\r\n\r\n";
    if (!channel.write(kGoOn.data(), kGoOn.size(), limits.request_s)) return Closed{};
  }
  while (buffer.size() < parsed.content_length) {
    if (more()) continue;
    if (Clock::now() >= deadline) return slow;
    return Closed{};
  }
  parsed.request.body = buffer.substr(0, parsed.content_length);
  buffer.erase(0, parsed.content_length);
  return std::move(parsed.request);
}

}  // namespace rubato::api
