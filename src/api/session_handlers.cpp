#include "api/handlers.h"
#include "api/session_cookie.h"

namespace rubato::api {

using control::Caller;
using nlohmann::json;

namespace {

json shown(const Caller& caller) {
  return {{"admin", caller.admin},
          {"tenant", caller.tenant},
          {"name", caller.admin ? "administrator" : caller.tenant}};
}

}  // namespace

Reply log_in(const Call& call) {
  const auto caller = call.controller.authenticate(call.body.at("token").get<std::string>());
  if (!caller) return error_reply(401, "unauthorized", "unknown token");
  if (caller->is_agent()) {
    return error_reply(403, "forbidden", "this token is for the agent of a node");
  }
  Reply reply = json_reply(shown(*caller));
  reply.headers["Set-Cookie"] = set_session_cookie(
      call.cookie_name, call.controller.make_session(*caller, kSessionLasts), call.https);
  reply.headers["Cache-Control"] = "no-store";
  return reply;
}

Reply log_out(const Call& call) {
  Reply reply{.status = 204, .content_type = ""};
  reply.headers["Set-Cookie"] = set_session_cookie(call.cookie_name, "", call.https);
  return reply;
}

Reply get_session(const Call& call) { return json_reply(shown(call.caller)); }

}  // namespace rubato::api
