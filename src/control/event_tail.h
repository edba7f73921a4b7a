// Reads the lines that are appended to a file of JSON objects, a piece at a time. Whoever keeps
// offset() together with what it did with the lines, and begins there again, gets every line once.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace rubato::control {

class EventTail {
 public:
  // Begins behind `offset`; at the file's end if it has lost what was before that.
  explicit EventTail(std::string path, std::int64_t offset = 0);

  struct Line {
    nlohmann::json value;
    std::int64_t end = 0;  // offset behind it
  };
  // Objects whose lines were completed since the last call, at most a few hundred kilobytes of
  // them; half a line waits. Lines that are no objects are passed over. A file that has become
  // shorter (after a power failure) has lost lines that were read: it goes on at its end, behind
  // half a line that may be there. A file that is not there has no lines.
  std::vector<Line> read();
  std::int64_t offset() const { return offset_; }

 private:
  std::string path_;
  std::int64_t offset_ = 0;  // behind the last complete line
};

}  // namespace rubato::control
