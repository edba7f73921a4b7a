// Makes the working folder of a job from its upload, beside the live loop.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "control/uploads.h"

namespace rubato::control {

// JobDocument::upload: "STORE/DIGEST" of an accepted job.
struct UploadName {
  std::string store;
  std::string digest;
};
std::optional<UploadName> parse_upload(std::string_view text);

// Unpacks an upload as FOLDER/work, with the rights of the folder's owner. Every file is checked
// against its digest. It appears at once: while FOLDER/work does not exist, nothing was unpacked,
// whoever died. Ends early with kIo once `stop` is set.
Status unpack_upload(Uploads& uploads, const UploadName& upload, const std::string& folder,
                     const std::atomic<bool>& stop);

// Does that in a thread. Nobody waits for it: if the object is destroyed, it ends soon by itself.
class UploadUnpack {
 public:
  UploadUnpack() = default;
  UploadUnpack(const UploadUnpack&) = delete;
  UploadUnpack& operator=(const UploadUnpack&) = delete;
  ~UploadUnpack();

  // Begins, or looks how far it is. Nothing: it is not done yet. After an error, the next call
  // begins anew. Call it with the rights of the folder's owner.
  std::optional<Status> look(const std::shared_ptr<Uploads>& uploads, const std::string& upload,
                             const std::string& folder);

 private:
  struct Work {
    std::atomic<bool> stop = false;
    std::atomic<bool> done = false;
    Status result = ok_status();  // once it is done
  };
  std::shared_ptr<Work> work_{};
};

}  // namespace rubato::control
