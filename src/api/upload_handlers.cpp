// Receives the files of jobs that are about to be submitted (control/uploads.h), in parts that fit
// into a request. They are kept for each tenant alone: that a file is here tells nobody else.
#include "api/handlers.h"
#include "control/uploads.h"

namespace rubato::api {

namespace {

using control::Uploads;
using nlohmann::json;

std::string store_of(const Call& call) {
  return Uploads::store_of(call.caller.tenant, call.caller.admin);
}

}  // namespace

Reply missing_uploads(const Call& call) {
  std::vector<control::UploadPiece> pieces;
  for (const json& file : call.body.at("files")) {
    pieces.push_back({file.at("sha256").get<std::string>(), file.at("size").get<std::int64_t>()});
  }
  const Result<std::vector<std::string>> missing =
      call.controller.uploads().missing(store_of(call), pieces);
  if (!missing.ok()) return error_reply(missing.error());
  return json_reply({{"missing", *missing}});
}

Reply put_upload(const Call& call) {
  const control::UploadPiece piece{call.text("sha256"), call.number("size")};
  if (!control::is_digest(piece.sha256)) return error_reply(404, "not-found", "no such sha256");
  const Result<bool> complete = call.controller.uploads().put(
      store_of(call), piece, call.text("id"), call.number("offset"), call.bytes);
  if (!complete.ok()) return error_reply(complete.error());
  return json_reply({{"complete", *complete}});
}

}  // namespace rubato::api
