// What a browser has in place of a token after a login: who it is and until when, signed by the
// daemon. Nothing is stored, so a session outlives a restart. It ends when its time is over, or
// when the token is replaced, expires or is deleted.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace rubato::control {

struct Session {
  std::string tenant;
  bool admin = false;
  double expires_at = 0;  // seconds since 1970
};

// `token_version` is Controller::token_version() of whom it is about; the key is the daemon's own.
std::string signed_session(const Session& session, std::string_view token_version,
                           std::string_view key);
// What the text says, whether or not it is true.
std::optional<Session> claimed_session(std::string_view text);
// Whether signed_session() gave this text for this version and key. Takes the same time wherever
// signatures differ. The caller checks the time.
bool is_signed(std::string_view text, std::string_view token_version, std::string_view key);

}  // namespace rubato::control
