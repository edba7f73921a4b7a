// The log files of a job's workers as one text, from their ends or beginnings on, again and again.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace rubato::api {

class LogReader {
 public:
  // `worker` >= 0: only that worker's lines, as they are; otherwise all, each line with
  // "worker-N | " before it. `tail` >= 0: at first only the last so many lines of each file.
  LogReader(std::int64_t worker, std::int64_t tail) : worker_(worker), tail_(tail) {}

  // Appends what the files hold beyond what was read before, at most about 256 KiB. A file that
  // became shorter is read from its beginning. False: nothing new.
  bool read(const std::vector<std::string>& files, std::string& text);

 private:
  struct Position {
    std::int64_t offset = 0;
    bool in_line = false;  // the last byte read was not the end of a line
  };
  void append(const std::string& label, Position& position, const std::string& bytes,
              std::string& text) const;

  const std::int64_t worker_;
  const std::int64_t tail_;
  bool first_ = true;
  std::map<std::string, Position> positions_;  // by file
};

// N of ".../worker-N.log" (or of a rotated "worker-N.log.1"); -1 for other files.
std::int64_t worker_of_log(const std::string& path);

}  // namespace rubato::api
