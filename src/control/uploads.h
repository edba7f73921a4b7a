// The files that came with `rubato submit --upload`, stored by their SHA-256, for each submitter
// alone:
//
//   FOLDER/<store>/files/<digest>       complete and checked
//   FOLDER/<store>/parts/<digest>.<id>  arriving
//
// A file appears among the complete ones at once, so whoever dies at any moment leaves nothing
// wrong: what is half there is not there, and removed after a day. What no active job needs and
// nobody asked for within `keep_s` is removed.
//
// Thread-safe. Calls take as long as the disk; the live loop makes none of them.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "control/upload_manifest.h"
#include "elastic/transport/descriptor.h"

namespace rubato::control {

struct UploadLimits {
  std::int64_t upload_bytes = 10'000'000'000;  // of one upload
  std::int64_t store_bytes = 20'000'000'000;   // of one submitter
  std::int64_t free_bytes = 1'000'000'000;     // that stay free on the disk, for the daemon's log
  double keep_s = 7 * 86'400.0;
  double part_s = 86'400.0;  // that a part of a file is kept
};

struct UploadPiece {
  std::string sha256;
  std::int64_t size = 0;
};

class Uploads {
 public:
  // An upload that a job needs: a store and the digest of its list.
  using Needed = std::set<std::pair<std::string, std::string>>;

  Uploads(std::string folder, UploadLimits limits) : folder_(std::move(folder)), limits_(limits) {}
  ~Uploads() { stop(); }
  Uploads(const Uploads&) = delete;
  Uploads& operator=(const Uploads&) = delete;

  // The store of a submitter. Administrators share one.
  static std::string store_of(const std::string& tenant, bool admin);

  // The digests that are not complete here. Refused if the store cannot take them. What is here is
  // kept as if it had just come.
  Result<std::vector<std::string>> missing(const std::string& store,
                                           const std::vector<UploadPiece>& pieces);
  // Bytes of a file from `offset` on; 0 begins anew. `id` tells apart who sends the same file at
  // the same time. True: the file is complete, and its digest is right. kRefused: `offset` is not
  // where the last part ended, so begin anew.
  Result<bool> put(const std::string& store, const UploadPiece& piece, const std::string& id,
                   std::int64_t offset, std::string_view bytes);
  // The list with this digest, if all its files are here. They are kept as if they had just come.
  Result<UploadManifest> check(const std::string& store, const std::string& digest);
  // The text of the list with this digest.
  Result<std::string> read_list(const std::string& store, const std::string& digest) const;
  // A complete file, for reading.
  Result<elastic::Descriptor> open(const std::string& store, const std::string& digest) const;
  // A complete file was found damaged.
  void discard(const std::string& store, const std::string& digest);

  // Removes what is too old and not needed.
  void collect(const Needed& needed, double now);
  // Does that once in a while, in a thread of its own.
  void collect_regularly(std::function<Needed()> needed, std::function<double()> now);
  // Ends that thread.
  void stop();

 private:
  std::string file_of(const std::string& store, const std::string& digest) const;
  Status make_store(const std::string& store) const;
  std::int64_t measure(const std::string& store) RUBATO_REQUIRES(mutex_);
  Status check_space(const std::string& store, std::int64_t bytes) RUBATO_REQUIRES(mutex_);
  std::set<std::string> kept_files(const std::string& store, const Needed& needed) const;

  const std::string folder_;
  const UploadLimits limits_;
  Mutex mutex_;
  std::map<std::string, std::int64_t> used_ RUBATO_GUARDED_BY(mutex_);  // bytes of a store
  CondVar ends_;
  bool stopping_ RUBATO_GUARDED_BY(mutex_) = false;
  std::thread collector_;
};

}  // namespace rubato::control
