// The response of a handler, and the common form of all errors.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace rubato::api {

// Called repeatedly until it returns false. Each call waits briefly for something to send and
// appends it to the text, if anything.
using StreamSource = std::function<bool(std::string& text)>;

struct Reply {
  int status = 200;
  std::string content_type = "application/json";
  std::string body{};
  std::map<std::string, std::string> headers{};
  StreamSource stream{};     // instead of `body`
  std::int64_t length = -1;  // bytes of the whole stream; -1: unknown
};

// JSON as text. Bytes that are not UTF-8 are replaced.
std::string to_text(const nlohmann::json& value);
Reply json_reply(const nlohmann::json& value, int status = 200);

// {"error": {"code", "message", "path"?}}
std::string error_text(std::string_view code, std::string_view message, std::string_view path = {});
Reply error_reply(int status, std::string_view code, std::string_view message,
                  std::string_view path = {});
// The response to a refused command: 404 if the object does not exist or belongs to another tenant,
// 400 for bad input, 409 if the current state does not allow the command, 403 if only
// administrators may do it, 503 if it could not be made durable. If the message begins with a JSON
// path ("/devices: ..."), that becomes the field "path".
Reply error_reply(const Error& error);

}  // namespace rubato::api
