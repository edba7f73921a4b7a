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
  // "worker-N | " before it. `tail` >= 0: at first only the last so many lines of each worker.
  LogReader(std::int64_t worker, std::int64_t tail) : worker_(worker), tail_(tail) {}

  // Appends what the files hold beyond what was read before, at most about 256 KiB. `files` are in
  // order of workers, those of one worker oldest first. A file that became shorter was moved aside
  // and is read from its beginning. A line that is not complete when another worker's follows is
  // ended there, and its rest is a line of its own. False: nothing new.
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
