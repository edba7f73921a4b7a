#include "api/stream_place.h"

#include <fmt/format.h>

#include "api/streams.h"

namespace rubato::api {

namespace {

// Of the caller's tenant; 0: the limit of every tenant.
int own_limit(const Call& call) {
  if (call.caller.admin) return call.streams.most();
  const std::vector<control::Tenant> own = call.controller.tenants(call.caller);
  return own.empty() ? 0 : own.front().max_streams;
}

}  // namespace

std::shared_ptr<void> enter_stream(const Call& call) {
  return call.streams.enter(call.caller.admin ? "" : call.caller.tenant, own_limit(call));
}

Reply no_stream_place(const Call& call) {
  const Streams& streams = call.streams;
  const bool all_taken = streams.open() >= streams.most();
  Reply reply = error_reply(
      503, "too-many-streams",
      all_taken ? fmt::format("{} streams are open, which is the limit; close one, or request a "
                              "list instead of a stream",
                              streams.most())
                : fmt::format("you have {} streams open, which is the limit for a tenant; close "
                              "one, or request a list instead of a stream",
                              streams.most_of_one(own_limit(call))));
  reply.headers["Retry-After"] = "5";
  return reply;
}

}  // namespace rubato::api
