#include "control/event_tail.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "base/json_text.h"

namespace rubato::control {

namespace {

constexpr std::int64_t kPiece = 1 << 18;  // also the longest line

}  // namespace

EventTail::EventTail(std::string path, std::int64_t offset)
    : path_(std::move(path)), offset_(offset) {
  struct stat status {};
  if (offset > 0)
    offset_ = stat(path_.c_str(), &status) != 0 ? 0 : std::min(offset, status.st_size);
}

std::vector<EventTail::Line> EventTail::read() {
  std::vector<Line> lines;
  struct stat status {};
  if (stat(path_.c_str(), &status) != 0) return lines;
  offset_ = std::min(offset_, status.st_size);
  if (status.st_size == offset_) return lines;
  const int file = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return lines;
  std::string text(static_cast<std::size_t>(std::min(status.st_size - offset_, kPiece)), '\0');
  const ssize_t got = pread(file, text.data(), text.size(), offset_);
  close(file);
  if (got <= 0) return lines;
  text.resize(static_cast<std::size_t>(got));
  std::string_view rest = text;
  for (std::size_t end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
    offset_ += static_cast<std::int64_t>(end) + 1;
    nlohmann::json value = parse_json(rest.substr(0, end));
    if (value.is_object()) lines.push_back({std::move(value), offset_});
    rest.remove_prefix(end + 1);
  }
  // Our lines are shorter than a piece; skip this one.
  if (rest.size() == static_cast<std::size_t>(kPiece)) offset_ += kPiece;
  return lines;
}

}  // namespace rubato::control
