#include "api/session_cookie.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/text.h"

namespace rubato::api {

std::string session_cookie_name(const httplib::Request& request) {
  const std::string host = request.get_header_value("Host");
  const std::size_t colon = host.rfind(':');
  const std::string port = colon == std::string::npos ? "" : host.substr(colon + 1);
  const bool is_port = !port.empty() && std::all_of(port.begin(), port.end(), [](unsigned char c) {
    return std::isdigit(c) != 0;
  });
  return is_port ? "rubato_session_" + port : "rubato_session";
}

std::optional<std::string> session_cookie(const httplib::Request& request) {
  const std::string name = session_cookie_name(request) + "=";
  const std::string cookies = request.get_header_value("Cookie");
  for (const std::string_view part : split(cookies, ';')) {
    const std::string_view cookie = trim(part);
    if (cookie.starts_with(name)) return std::string(cookie.substr(name.size()));
  }
  return std::nullopt;
}

std::string set_session_cookie(const std::string& name, const std::string& session, bool https) {
  return fmt::format("{}={}; Path=/; HttpOnly; SameSite=Strict; Max-Age={}{}", name, session,
                     session.empty() ? 0 : static_cast<int>(kSessionLasts),
                     https ? "; Secure" : "");
}

Origin origin_of(const httplib::Request& request) {
  const std::string origin = request.get_header_value("Origin");
  if (origin.empty()) return Origin::kNone;
  const std::string host = request.get_header_value("Host");
  const bool own = !host.empty() && (origin == "http://" + host || origin == "https://" + host);
  return own ? Origin::kOwn : Origin::kForeign;
}

}  // namespace rubato::api
