// Follows a file of a job's folder to which JSON objects are appended, one per line. A caller that
// saves offset() together with the effect of the lines, and later resumes at that offset, gets
// every line exactly once. The file is a stranger's (job_files.h): whatever it contains, a call
// reads a bounded number of bytes, returns bounded data and does not throw.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace rubato::control {

class EventTail {
 public:
  static constexpr std::int64_t kLongest = 1 << 18;

  // Starts at `offset`, or at the end of the file if the file is now shorter than that. Lines
  // longer than `longest` bytes are skipped; one call reads at most four times as much.
  explicit EventTail(std::string folder, std::string name, std::int64_t offset = 0,
                     std::int64_t longest = kLongest);

  struct Line {
    nlohmann::json value;
    std::int64_t end = 0;  // offset after the line
  };
  struct Piece {
    std::vector<Line> lines;
    std::int64_t bytes = 0;         // read by this call
    bool more = false;              // the file has more that can be read now
    std::int64_t skipped = 0;       // lines that are too long or are not objects
    std::int64_t skipped_at{};      // where the first of them begins
    std::string why{};              // it was skipped
    Status readable = ok_status();  // kInvalidInput: the file is no file that can be read
  };
  // The objects whose lines were completed since the last call. An incomplete line is returned once
  // it is complete. If the file became shorter (after a power failure), lines that were already
  // read are lost: reading continues at the new end, after an incomplete line if there is one. A
  // missing file has no lines.
  Piece read();
  // Skips everything that the file contains now; returns the number of bytes.
  std::int64_t skip_all();
  std::int64_t offset() const { return offset_; }

 private:
  void skip(Piece& piece, std::string why) const;

  std::string folder_;
  std::string name_;
  std::int64_t longest_ = kLongest;
  std::int64_t offset_ = 0;  // after the last complete line, or within one that is skipped
  bool in_long_line_ = false;
};

}  // namespace rubato::control
