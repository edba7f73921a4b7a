#include "api/reply.h"

#include "base/json_text.h"

namespace rubato::api {

using nlohmann::json;

std::string to_text(const json& value) { return compact_json(value); }

Reply json_reply(const json& value, int status) {
  return {.status = status, .body = to_text(value)};
}

std::string error_text(std::string_view code, std::string_view message, std::string_view path) {
  json error = {{"code", code}, {"message", message}};
  if (!path.empty()) error["path"] = path;
  return to_text({{"error", std::move(error)}});
}

Reply error_reply(int status, std::string_view code, std::string_view message,
                  std::string_view path) {
  return {.status = status, .body = error_text(code, message, path)};
}

Reply error_reply(const Error& error) {
  switch (error.code) {
    case ErrorCode::kNotFound:
      return error_reply(404, "not-found", error.message);
    case ErrorCode::kInvalidInput: {
      std::string_view path;
      const std::size_t colon = error.message.find(": ");
      if (error.message.starts_with('/') && colon != std::string::npos) {
        path = std::string_view(error.message).substr(0, colon);
      }
      return error_reply(400, "invalid", error.message, path);
    }
    case ErrorCode::kRefused:
      return error_reply(409, "conflict", error.message);
    case ErrorCode::kForbidden:
      return error_reply(403, "forbidden", error.message);
    case ErrorCode::kIo:
      return error_reply(503, "not-durable", error.message);
    case ErrorCode::kInvalidPlan:
      break;
  }
  return error_reply(500, "internal", error.message);
}

}  // namespace rubato::api
