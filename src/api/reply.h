// What a handler answers, and the one form of all errors.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace rubato::api {

// Called again and again until it returns false: waits a little for something to send, and appends
// it to the text (or nothing).
using StreamSource = std::function<bool(std::string& text)>;

struct Reply {
  int status = 200;
  std::string content_type = "application/json";
  std::string body{};
  std::map<std::string, std::string> headers{};
  StreamSource stream{};  // instead of `body`
};

// JSON as text; bytes that are not UTF-8 are replaced.
std::string to_text(const nlohmann::json& value);
Reply json_reply(const nlohmann::json& value, int status = 200);

// {"error": {"code", "message", "path"?}}
std::string error_text(std::string_view code, std::string_view message, std::string_view path = {});
Reply error_reply(int status, std::string_view code, std::string_view message,
                  std::string_view path = {});
// A refused command: 404 for what does not exist (or is another's), 400 for bad input, 409 for what
// the present state does not allow, 403 for what only administrators may, 503 when it could not be
// made durable. A message that begins with a JSON path ("/devices: ...") gives the field "path".
Reply error_reply(const Error& error);

}  // namespace rubato::api
