// rubato submit --upload: sends a folder to the daemon, only what it does not have.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "client.h"
#include "control/upload_manifest.h"

namespace rubato::cli {

// The files of a folder, without those that .git and the like, or the patterns in
// FOLDER/.rubatoignore, leave out. Refuses links that lead out of it, and what is no file.
Result<control::UploadManifest> list_for_upload(const std::string& folder);

struct Uploaded {
  std::string digest;  // for the document's field `upload`
  std::int64_t files = 0;
  std::int64_t sent_files = 0;
  std::int64_t sent_bytes = 0;
};
Result<Uploaded> upload_folder(Client& client, const std::string& folder);

}  // namespace rubato::cli
