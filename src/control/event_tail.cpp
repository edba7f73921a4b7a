#include "control/event_tail.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "control/job_files.h"

namespace rubato::control {

EventTail::EventTail(std::string folder, std::string name, std::int64_t offset,
                     std::int64_t longest)
    : folder_(std::move(folder)), name_(std::move(name)), longest_(std::min(longest, kLongest)) {
  if (offset <= 0) return;
  const Result<OpenFile> file = open_job_file(folder_, name_);
  offset_ = file.ok() ? std::min(offset, file->size()) : 0;
}

void EventTail::skip(Piece& piece, std::string why) const {
  if (piece.skipped++ > 0) return;
  piece.skipped_at = offset_;
  piece.why = std::move(why);
}

EventTail::Piece EventTail::read() {
  Piece piece;
  const Result<OpenFile> file = open_job_file(folder_, name_);
  if (!file.ok()) {
    if (file.error().code == ErrorCode::kInvalidInput) piece.readable = file.error();
    return piece;
  }
  if (file->size() < offset_) {
    offset_ = file->size();
    in_long_line_ = false;
  }
  const std::string text = file->read(offset_, 4 * longest_);
  piece.bytes = static_cast<std::int64_t>(text.size());
  piece.more = offset_ + piece.bytes < file->size();
  std::string_view rest = text;
  for (std::size_t end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
    const bool tail_of_long_line = std::exchange(in_long_line_, false);
    if (!tail_of_long_line && static_cast<std::int64_t>(end) > longest_) {
      skip(piece, fmt::format("a line of {} bytes; expected at most {}", end, longest_));
    } else if (!tail_of_long_line) {
      nlohmann::json value = parse_untrusted(rest.substr(0, end));
      if (value.is_object()) {
        piece.lines.push_back({std::move(value), offset_ + static_cast<std::int64_t>(end) + 1});
      } else {
        skip(piece, fmt::format("a line that is no JSON object of at most {} levels", kMostDepth));
      }
    }
    offset_ += static_cast<std::int64_t>(end) + 1;
    rest.remove_prefix(end + 1);
  }
  const auto left = static_cast<std::int64_t>(rest.size());
  if (in_long_line_ || left > longest_) {
    if (!in_long_line_) {
      skip(piece, fmt::format("a line of more than {} bytes; expected at most {}", left, longest_));
    }
    in_long_line_ = true;
    offset_ += left;
  }
  return piece;
}

std::int64_t EventTail::skip_all() {
  const Result<OpenFile> file = open_job_file(folder_, name_);
  const std::int64_t end = file.ok() ? file->size() : offset_;
  return std::max<std::int64_t>(0, end - std::exchange(offset_, end));
}

}  // namespace rubato::control
