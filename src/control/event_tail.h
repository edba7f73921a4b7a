// Follows a file to which JSON objects are appended, one per line. A caller that saves offset()
// together with the effect of the lines, and later resumes at that offset, gets every line exactly
// once.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace rubato::control {

class EventTail {
 public:
  // Starts at `offset`, or at the end of the file if the file is now shorter than that.
  explicit EventTail(std::string path, std::int64_t offset = 0);

  struct Line {
    nlohmann::json value;
    std::int64_t end = 0;  // offset after the line
  };
  // The objects whose lines were completed since the last call, at most a few hundred kilobytes of
  // them. An incomplete line is returned once it is complete. Lines that are not objects are
  // skipped. If the file became shorter (after a power failure), lines that were already read are
  // lost: reading continues at the new end, after an incomplete line if there is one. A missing
  // file has no lines.
  std::vector<Line> read();
  std::int64_t offset() const { return offset_; }

 private:
  std::string path_;
  std::int64_t offset_ = 0;  // after the last complete line
};

}  // namespace rubato::control
