// Durable checkpoints: one file per checkpoint in a folder. Each is written beside its final name,
// fsynced (file and folder) and renamed, so a file with the final name is complete. Every block
// carries a checksum, so a torn or bit-flipped file is detected and the previous one is used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace rubato::elastic {

// The content of a checkpoint. The parts are opaque here.
struct CheckpointParts {
  std::int64_t step = 0;    // the next step to run
  std::string description;  // of the training (job_description.h)
  std::vector<std::span<const std::byte>> parts;
};
struct LoadedCheckpoint {
  std::int64_t step = 0;
  std::string description;
  std::vector<std::vector<std::byte>> parts;
};

class CheckpointFolder {
 public:
  // Creates the folder if it is missing. Removes leftovers of interrupted writes.
  static Result<CheckpointFolder> open(std::string path, int keep);
  // For somebody who only reads, perhaps while the job writes: changes nothing.
  static CheckpointFolder for_reading(std::string path) { return {std::move(path), 1}; }

  // Returns when the checkpoint is durable and the oldest checkpoints beyond `keep` (>= 1) are
  // deleted. Files of later steps, which load_newest refused, do not count and stay until training
  // reaches them, so they never displace a good one. An error leaves the older checkpoints as they
  // are.
  Status write(const CheckpointParts& checkpoint) const;

  struct Found {
    std::optional<LoadedCheckpoint> newest;  // the newest valid one of the same training
    std::vector<std::string> refused;        // one line for each newer file: which one and why
    std::string of_another;                  // such a line about one of another training, or ""
  };
  Result<Found> load_newest(const std::string& description) const;

  // Steps of the existing files, ascending; the files are not checked.
  Result<std::vector<std::int64_t>> steps() const;

 private:
  CheckpointFolder(std::string path, int keep) : path_(std::move(path)), keep_(keep) {}
  std::string path_;
  int keep_;
};

}  // namespace rubato::elastic
