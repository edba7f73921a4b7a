#include "api/log_reader.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <span>

#include "base/text.h"
#include "control/job_files.h"

namespace rubato::api {

namespace {

constexpr std::int64_t kBlock = 64 * 1024;
constexpr std::size_t kAtOnce = 256 * 1024;
constexpr std::int64_t kMostSearched = 16 << 20;

// A job can put anything in place of its logs. What is no file has no text.
Result<control::OpenFile> open_log(const std::string& path) {
  const std::filesystem::path file(path);
  const std::filesystem::path logs = file.parent_path();
  return control::open_job_file(logs.parent_path().string(),
                                (logs.filename() / file.filename()).string());
}

std::int64_t size_of(const std::string& path) {
  const Result<control::OpenFile> file = open_log(path);
  return file.ok() ? file->size() : 0;
}

std::string read_part(const std::string& path, std::int64_t from, std::int64_t most) {
  const Result<control::OpenFile> file = open_log(path);
  return file.ok() ? file->read(from, most) : std::string();
}

// Offsets in each file at which the last `lines` lines of the log begin. Searches backwards from
// the end, through kMostSearched bytes. `parts` are the files of one log, oldest first; a line may
// span two files.
std::vector<std::int64_t> starts_of_tail(std::span<const std::string> parts, std::int64_t lines) {
  std::vector<std::int64_t> starts;
  for (const std::string& part : parts) starts.push_back(size_of(part));
  if (lines == 0) return starts;
  std::int64_t seen = 0;
  std::int64_t searched = 0;
  bool last_byte = true;  // a line feed there ends the last line
  for (std::size_t part = parts.size(); part > 0; --part) {
    std::int64_t& start = starts[part - 1];
    while (start > 0) {
      if (searched >= kMostSearched) return starts;
      const std::int64_t begin = std::max<std::int64_t>(0, start - kBlock);
      const std::string bytes = read_part(parts[part - 1], begin, start - begin);
      searched += kBlock;
      for (std::size_t i = bytes.size(); i > 0; --i) {
        const bool line_end = bytes[i - 1] == '\n' && !last_byte;
        last_byte = false;
        if (line_end && ++seen == lines) {
          start = begin + static_cast<std::int64_t>(i);
          return starts;
        }
      }
      start = begin;
    }
  }
  return starts;
}

// "worker-7.log" for "worker-7.log.2"; a file that was not rotated is its own log.
std::string log_of(const std::string& file) {
  const std::size_t dot = file.rfind('.');
  const bool has_age = dot != std::string::npos && parse_int(file.substr(dot + 1)).has_value();
  return has_age ? file.substr(0, dot) : file;
}

}  // namespace

std::int64_t worker_of_log(const std::string& path) {
  const std::string name = std::filesystem::path(path).filename().string();
  constexpr std::string_view kPrefix = "worker-";
  if (!name.starts_with(kPrefix)) return -1;
  const std::string_view rest = std::string_view(name).substr(kPrefix.size());
  return parse_int(rest.substr(0, rest.find('.'))).value_or(-1);
}

void LogReader::skip_to_tail(const std::vector<std::string>& files) {
  for (std::size_t begin = 0, end = 0; begin < files.size(); begin = end) {
    const std::string log = log_of(files[begin]);
    while (end < files.size() && log_of(files[end]) == log) ++end;
    const std::span<const std::string> parts(&files[begin], end - begin);
    const std::vector<std::int64_t> starts = starts_of_tail(parts, tail_);
    for (std::size_t i = 0; i < parts.size(); ++i) offsets_[parts[i]] = starts[i];
  }
}

void LogReader::follow_rotation(const std::string& log) {
  const auto at = offsets_.find(log);
  if (at == offsets_.end() || size_of(log) >= at->second) return;
  std::int64_t moved = at->second;
  at->second = 0;
  for (int age = 1;; ++age) {
    const std::string older = fmt::format("{}.{}", log, age);
    const auto known = offsets_.find(older);
    const bool last = known == offsets_.end();
    const std::int64_t next = last ? 0 : known->second;
    offsets_[older] = std::min(moved, size_of(older));
    if (last) return;
    moved = next;
  }
}

void LogReader::append(const std::string& log, const std::string& bytes, std::string& text) {
  if (worker_ >= 0) {
    text += bytes;
    return;
  }
  if (in_line_ && log != writing_) {
    text += '\n';
    in_line_ = false;
  }
  writing_ = log;
  const std::int64_t worker = worker_of_log(log);
  const std::string label =
      worker >= 0 ? fmt::format("worker-{} | ", worker)
                  : fmt::format("{} | ", std::filesystem::path(log).filename().string());
  for (const char c : bytes) {
    if (!in_line_) text += label;
    in_line_ = c != '\n';
    text += c;
  }
}

bool LogReader::read(const std::vector<std::string>& all, std::string& text) {
  std::vector<std::string> files;
  std::copy_if(all.begin(), all.end(), std::back_inserter(files), [&](const std::string& file) {
    return worker_ < 0 || worker_of_log(file) == worker_;
  });
  if (first_ && tail_ >= 0) skip_to_tail(files);
  first_ = false;
  for (const std::string& file : files) {
    if (log_of(file) == file) follow_rotation(file);
  }
  const std::size_t before = text.size();
  for (const std::string& file : files) {
    std::int64_t& offset = offsets_[file];
    while (text.size() - before < kAtOnce) {
      const std::string bytes = read_part(file, offset, kBlock);
      if (bytes.empty()) break;
      offset += static_cast<std::int64_t>(bytes.size());
      append(log_of(file), bytes, text);
    }
    // Finish this file in the next call before starting another one.
    if (text.size() - before >= kAtOnce) return true;
  }
  return text.size() > before;
}

}  // namespace rubato::api
