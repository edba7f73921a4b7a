// Durable checkpoints: one file per checkpoint in a folder, written beside its final name, fsynced
// (file and folder) and renamed, so a file with the final name is complete. Every block carries a
// checksum, so a torn or bit-flipped file is recognised and the one before it is used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace rubato::elastic {

// What is stored; the parts are opaque here.
struct CheckpointParts {
  std::int64_t step = 0;    // the next step to do
  std::string description;  // JSON about the job: refuses a checkpoint of another job or shape
  std::vector<std::span<const std::byte>> parts;
};
struct LoadedCheckpoint {
  std::int64_t step = 0;
  std::string description;
  std::vector<std::vector<std::byte>> parts;
};

class CheckpointFolder {
 public:
  // Makes the folder when it is missing; removes leftovers of interrupted writes.
  static Result<CheckpointFolder> open(std::string path, int keep);

  // Returns after the checkpoint is durable; then deletes the oldest ones beyond `keep` (>= 1).
  // Files of later steps, which load_newest refused, do not count and stay until training gets
  // there: they never push out a good one. An error leaves the older checkpoints as they are.
  Status write(const CheckpointParts& checkpoint) const;

  struct Found {
    std::optional<LoadedCheckpoint> newest;  // the newest valid one with this description
    std::vector<std::string> refused;        // a line for each newer file: which, why
  };
  Result<Found> load_newest(const std::string& description) const;

  // Steps of the files that are there, ascending; unchecked.
  Result<std::vector<std::int64_t>> steps() const;

 private:
  CheckpointFolder(std::string path, int keep) : path_(std::move(path)), keep_(keep) {}
  std::string path_;
  int keep_;
};

}  // namespace rubato::elastic
