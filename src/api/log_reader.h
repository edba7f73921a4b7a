// Reads the log files of a job's workers as one text, incrementally. Starts at the beginning of
// each file or at its last lines. Reads the files as those of a stranger (control/job_files.h).
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
  // each worker, but not more than 16 MiB before the end.
  LogReader(std::int64_t worker, std::int64_t tail) : worker_(worker), tail_(tail) {}

  // Appends new content of the files, at most about 256 KiB. `files` are ordered by worker, and
  // those of one worker from oldest to newest. A file that became shorter was rotated and is read
  // from its beginning. An incomplete line that is followed by another worker's line ends there;
  // its rest becomes a line of its own. Returns false if there was nothing new.
  bool read(const std::vector<std::string>& files, std::string& text);

 private:
  void skip_to_tail(const std::vector<std::string>& files);
  // If the log was moved aside since the last look: what was read of it is in LOG.1 now.
  void follow_rotation(const std::string& log);
  void append(const std::string& log, const std::string& bytes, std::string& text);

  const std::int64_t worker_;
  const std::int64_t tail_;
  bool first_ = true;
  std::map<std::string, std::int64_t> offsets_;  // by file: how far it was read
  std::string writing_;                          // the log of the last line
  bool in_line_ = false;                         // whose end has not come yet
};

// N of ".../worker-N.log" (or of a rotated "worker-N.log.1"); -1 for other files.
std::int64_t worker_of_log(const std::string& path);

}  // namespace rubato::api
