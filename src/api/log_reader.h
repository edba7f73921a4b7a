// Reads the log files of a job's workers as one text, incrementally. Starts at the beginning of
// each file or at its last lines.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace rubato::api {

class LogReader {
 public:
  // With `worker` >= 0, reads only that worker's lines, unchanged. Otherwise reads all workers and
  // prefixes each line with "worker-N | ". With `tail` >= 0, starts at the last `tail` lines of
  // each file.
  LogReader(std::int64_t worker, std::int64_t tail) : worker_(worker), tail_(tail) {}

  // Appends new content of the files, at most about 256 KiB. A file that became shorter is read
  // again from its beginning. Returns false if there was nothing new.
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
