// Sessions of browsers. After a login (POST /api/v1/session), a browser sends a cookie in place of
// a token. Pages cannot read the cookie, and it is not sent with requests that other sites cause.
// Whoever sends it to change something must also say that the request comes from our own page
// (Origin).
#pragma once

#include <httplib.h>

#include <optional>
#include <string>

namespace rubato::api {

inline constexpr double kSessionLasts = 12 * 3600;  // seconds

// Browsers do not tell ports of a host apart, so the name has the port: two daemons on one machine
// have two cookies.
std::string session_cookie_name(const httplib::Request& request);
// What the request has as its session, if anything.
std::optional<std::string> session_cookie(const httplib::Request& request);
// The header Set-Cookie. With an empty `session`, the browser forgets it.
std::string set_session_cookie(const std::string& name, const std::string& session, bool https);

enum class Origin { kNone, kOwn, kForeign };
// Where the request says that it comes from.
Origin origin_of(const httplib::Request& request);

}  // namespace rubato::api
