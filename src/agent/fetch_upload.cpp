#include "agent/fetch_upload.h"

#include <fmt/format.h>

#include <set>

#include "control/upload_unpack.h"

namespace rubato::agent {

namespace {

using control::JobNumber;
using control::UploadEntry;
using control::UploadName;
using control::UploadPiece;

// The list of the upload's files, as it is in the daemon's store.
Status fetch_list(DaemonLink& link, JobNumber job, control::Uploads& uploads,
                  const UploadName& name) {
  std::string text;
  for (;;) {
    const auto bytes = link.get_uploaded(job, name.digest, static_cast<std::int64_t>(text.size()));
    if (!bytes.ok()) return bytes.error();
    text += *bytes;
    if (static_cast<std::int64_t>(bytes->size()) < control::kMostPartBytes) break;
    if (static_cast<std::int64_t>(text.size()) > control::kMostManifestBytes) {
      return invalid_input("its upload has too long a list of files");
    }
  }
  const UploadPiece list{.sha256 = name.digest, .size = static_cast<std::int64_t>(text.size())};
  const auto put = uploads.put(name.store, list, fmt::format("{:x}", job), 0, text);
  return put.ok() ? ok_status() : Status(put.error());
}

Status fetch_file(DaemonLink& link, JobNumber job, control::Uploads& uploads,
                  const std::string& store, const UploadPiece& piece) {
  for (std::int64_t at = 0;;) {
    const auto bytes = link.get_uploaded(job, piece.sha256, at);
    if (!bytes.ok()) return bytes.error();
    const auto whole = uploads.put(store, piece, fmt::format("{:x}", job), at, *bytes);
    if (!whole.ok()) return whole.error();
    if (*whole) return ok_status();
    if (bytes->empty()) return Error{ErrorCode::kIo, "a file of its upload has become shorter"};
    at += static_cast<std::int64_t>(bytes->size());
  }
}

}  // namespace

Status fetch_upload(DaemonLink& link, JobNumber job, control::Uploads& uploads,
                    const std::string& upload) {
  const auto name = control::parse_upload(upload);
  if (!name) return invalid_input("its upload has no name: " + upload);
  if (uploads.check(name->store, name->digest).ok()) return ok_status();
  Status listed = fetch_list(link, job, uploads, *name);
  if (!listed.ok()) return listed;
  const auto text = uploads.read_list(name->store, name->digest);
  if (!text.ok()) return text.error();
  const auto manifest = control::parse_manifest(*text);
  if (!manifest.ok()) return manifest.error();
  std::vector<UploadPiece> pieces;
  for (const UploadEntry& entry : *manifest) {
    if (entry.link.empty()) pieces.push_back({.sha256 = entry.sha256, .size = entry.size});
  }
  const auto missing = uploads.missing(name->store, pieces);
  if (!missing.ok()) return missing.error();
  std::set<std::string> left(missing->begin(), missing->end());
  for (const UploadPiece& piece : pieces) {
    if (left.erase(piece.sha256) == 0) continue;
    Status fetched = fetch_file(link, job, uploads, name->store, piece);
    if (!fetched.ok()) return fetched;
  }
  return ok_status();
}

}  // namespace rubato::agent
