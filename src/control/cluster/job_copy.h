// The daemon's copy of the folder of a job that runs on another machine. The job's node sends what
// changes there; people fetch logs and results from the copy, and the next node of the job begins
// with it. Only the daemon writes in the folder, so it has no links.
//
// A file that grows (a log) is sent as it grows. Any other file appears at once when its last part
// has come, so whoever dies at any moment leaves the old file or the new one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "elastic/transport/descriptor.h"

namespace rubato::control {

struct CopiedFile {
  std::string path;  // relative to the folder
  std::int64_t size = 0;
  std::int64_t modified_us = 0;  // when its content changed last, since 1970
};

class JobCopy {
 public:
  explicit JobCopy(std::string folder) : folder_(std::move(folder)) {}

  // All complete files, in order of their paths.
  Result<std::vector<CopiedFile>> list() const;
  Result<elastic::Descriptor> open(const std::string& path) const;
  // A part of a file that has `total` bytes. Parts come in order, and offset 0 begins anew;
  // kRefused: the part before has not come.
  Status put(const std::string& path, std::int64_t total, std::int64_t offset,
             std::string_view bytes);
  // The same, with `count` bytes that another complete file of the copy has at the same offset:
  // what has not changed between two checkpoints need not be sent. kRefused also if it does not
  // have them.
  Status put_same(const std::string& path, std::int64_t total, std::int64_t offset,
                  std::int64_t count, const std::string& as);
  // A part of a file that grows. What the copy has from `offset` on is replaced; what it lacks
  // before is filled with empty lines, since it was lost with a node.
  Status append(const std::string& path, std::int64_t offset, std::string_view bytes);
  // It is no error if the file does not exist.
  Status remove(const std::string& path);

 private:
  // The full path, after its folders were made.
  Result<std::string> place_for(const std::string& path) const;
  Result<std::string> place_of(const std::string& path) const;

  std::string folder_;
};

// The most bytes of one part.
inline constexpr std::int64_t kMostPartBytes = 1 << 20;
// Bytes that stay free on the disk of the copies, for the daemon's log.
inline constexpr std::int64_t kCopiesLeaveFree = 500'000'000;

}  // namespace rubato::control
