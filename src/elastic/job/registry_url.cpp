#include "elastic/job/registry_url.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <string_view>
#include <utility>

#include "base/file.h"
#include "base/text.h"
#include "elastic/job/desk_registry.h"
#include "elastic/job/etcd_registry.h"

namespace rubato::elastic {

namespace {

constexpr std::string_view kFileScheme = "file:";
constexpr std::string_view kEtcdScheme = "etcd:";
constexpr std::string_view kHttp = "http://";
constexpr std::string_view kHttps = "https://";
constexpr std::int64_t kEtcdPort = 2379;
constexpr std::size_t kLongestUrl = 4096;

Error refused(const std::string& url, const std::string& why) {
  return invalid_input(fmt::format("registry '{}': {}", url, why));
}

std::string_view without_slashes_at_end(std::string_view path) {
  while (!path.empty() && path.back() == '/') path.remove_suffix(1);
  return path;
}

// HOST, HOST:PORT or [IPV6]:PORT. Returns why not, or "".
std::string parse_server(std::string_view text, ServerAddress& server) {
  std::string_view port;
  bool has_port = false;
  if (text.starts_with('[')) {
    const std::size_t end = text.find(']');
    if (end == std::string_view::npos) return "the address has no ']'";
    server.host = text.substr(1, end - 1);
    const std::string_view rest = text.substr(end + 1);
    has_port = !rest.empty();
    if (has_port && rest.front() != ':') return "expected ':PORT' after ']'";
    if (has_port) port = rest.substr(1);
  } else {
    const std::size_t colon = text.find(':');
    has_port = colon != std::string_view::npos;
    server.host = text.substr(0, colon);
    if (has_port) port = text.substr(colon + 1);
  }
  const auto of_a_host = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("-._:%").find(c) != std::string_view::npos;
  };
  if (server.host.find('@') != std::string::npos || text.find('@') != std::string_view::npos) {
    return "users and passwords are not supported; let the network keep others away from etcd";
  }
  if (server.host.empty() || !std::all_of(server.host.begin(), server.host.end(), of_a_host)) {
    return fmt::format("'{}' is not a host", server.host);
  }
  const std::optional<std::int64_t> number = has_port ? parse_int(port) : kEtcdPort;
  if (!number || *number < 1 || *number > 65535) {
    return fmt::format("'{}' is not a port; expected 1 to 65535", port);
  }
  server.port = static_cast<std::uint16_t>(*number);
  return "";
}

Result<RegistryUrl> parse_etcd(const std::string& url) {
  RegistryUrl parsed{.kind = RegistryUrl::Kind::kEtcd, .servers = {}, .path = {}};
  std::string_view rest = std::string_view(url).substr(kEtcdScheme.size());
  for (;;) {
    if (rest.starts_with(kHttps)) {
      return refused(url, "https is not supported; use http:// in a network that you trust");
    }
    if (!rest.starts_with(kHttp)) {
      return refused(url, "expected etcd:http://HOST:PORT,http://HOST:PORT,.../PREFIX");
    }
    rest.remove_prefix(kHttp.size());
    const std::size_t end = std::min(rest.find_first_of(",/"), rest.size());
    ServerAddress server;
    const std::string problem = parse_server(rest.substr(0, end), server);
    if (!problem.empty()) return refused(url, problem);
    parsed.servers.push_back(std::move(server));
    rest.remove_prefix(end);
    if (rest.empty() || rest.front() == '/') break;
    rest.remove_prefix(1);
  }
  parsed.path = without_slashes_at_end(rest);
  if (parsed.path.empty()) {
    return refused(url, "the prefix of the keys is missing, as in etcd:http://HOST:2379/rubato");
  }
  return parsed;
}

}  // namespace

std::string ServerAddress::text() const {
  const bool v6 = host.find(':') != std::string::npos;
  return v6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

Result<RegistryUrl> parse_registry_url(const std::string& url) {
  if (url.size() > kLongestUrl) return invalid_input("registry: the URL is too long");
  const auto printable = [](char c) { return c > ' ' && c < 0x7f; };
  if (url.starts_with(kEtcdScheme)) {
    if (!std::all_of(url.begin(), url.end(), printable)) {
      return invalid_input("registry: the URL has characters that are not plain text");
    }
    return parse_etcd(url);
  }
  if (!url.starts_with(kFileScheme)) {
    return refused(url, "expected file:/FOLDER or etcd:http://HOST:PORT/PREFIX");
  }
  std::string_view path = std::string_view(url).substr(kFileScheme.size());
  if (path.starts_with("///")) path.remove_prefix(2);  // file:///path
  if (!path.starts_with('/') || path.starts_with("//") || without_slashes_at_end(path).empty()) {
    return refused(url, "expected file: and the absolute path of a folder");
  }
  return RegistryUrl{.kind = RegistryUrl::Kind::kFile,
                     .servers = {},
                     .path = std::string(without_slashes_at_end(path))};
}

std::string registry_within(const std::string& place, const std::string& job_name,
                            const std::string& token) {
  std::string name = job_name.substr(0, 64);
  for (char& c : name) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_';
    if (!plain) c = '_';
  }
  return fmt::format("{}/{}.{}", without_slashes_at_end(place), name, token);
}

Result<std::unique_ptr<Registry>> open_registry(const std::string& url) {
  Result<RegistryUrl> parsed = parse_registry_url(url);
  if (!parsed.ok()) return parsed.error();
  if (parsed->kind == RegistryUrl::Kind::kEtcd) {
    return std::unique_ptr<Registry>(std::make_unique<EtcdRegistry>(*parsed, EtcdClient::Timing{}));
  }
  return std::unique_ptr<Registry>(std::make_unique<FileRegistry>(parsed->path));
}

Status create_registry(const std::string& url) {
  const Result<RegistryUrl> parsed = parse_registry_url(url);
  if (!parsed.ok()) return parsed.error();
  return parsed->kind == RegistryUrl::Kind::kFile ? make_directories(parsed->path) : ok_status();
}

Result<std::unique_ptr<Registry>> open_registry(const JobFolder& folder,
                                                const JobSettings& settings) {
  if (is_spread(settings)) {
    return std::unique_ptr<Registry>(std::make_unique<DeskRegistry>(folder.desk_socket()));
  }
  if (!settings.registry.empty()) return open_registry(settings.registry);
  Result<std::unique_ptr<FileRegistry>> files = FileRegistry::open(folder.registry_folder());
  if (!files.ok()) return files.error();
  return std::unique_ptr<Registry>(std::move(*files));
}

}  // namespace rubato::elastic
