#include "elastic/job/ledger.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "base/check.h"
#include "base/json_text.h"

namespace rubato::elastic {

namespace {

Error io_error(const std::string& path, std::string_view doing, std::string_view advice) {
  return {errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
          fmt::format("{}: cannot {}: {}; {}", path, doing, std::strerror(errno), advice)};
}

Error line_error(const std::string& path, std::int64_t line, const std::string& problem) {
  return invalid_input(fmt::format("{}:{}: {}", path, line, problem));
}

bool skip(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

std::optional<std::int64_t> skip_number(std::string_view& text) {
  std::int64_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc{} || value < 0) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

// The step of a line that looks like one of ours.
std::optional<std::int64_t> step_of(std::string_view line) {
  if (!skip(line, "{\"step\":")) return std::nullopt;
  const auto step = skip_number(line);
  if (!step || !skip(line, ",\"epoch\":") || !skip_number(line)) return std::nullopt;
  if (!skip(line, ",\"samples\":[") || !line.ends_with("]}")) return std::nullopt;
  return step;
}

// Reads lines without their terminators.
class Lines {
 public:
  explicit Lines(int fd) : fd_(fd) {}

  enum class Kind { kLine, kTorn, kEnd, kFailed };  // kTorn: a last line without terminator
  // `line` is valid until the next call.
  Kind next(std::string_view& line) {
    while (true) {
      const std::size_t end = buffer_.find('\n', searched_);
      if (end != std::string::npos) {
        line = std::string_view(buffer_).substr(begin_, end - begin_);
        begin_ = searched_ = end + 1;
        return Kind::kLine;
      }
      buffer_.erase(0, begin_);
      begin_ = 0;
      searched_ = buffer_.size();
      constexpr std::size_t kRead = 1 << 18;
      buffer_.resize(searched_ + kRead);
      ssize_t count = 0;
      do {
        count = ::read(fd_, buffer_.data() + searched_, kRead);
      } while (count < 0 && errno == EINTR);
      buffer_.resize(searched_ + static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
      if (count < 0) return Kind::kFailed;
      if (count == 0) {
        line = buffer_;
        return buffer_.empty() ? Kind::kEnd : Kind::kTorn;
      }
    }
  }

 private:
  int fd_;
  std::string buffer_;
  std::size_t begin_ = 0;     // of the current line
  std::size_t searched_ = 0;  // no line ends before this position
};

}  // namespace

Result<Ledger> Ledger::open(const std::string& path, std::int64_t next_step) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) {
    return io_error(path, "open the ledger", "choose a file in a writable folder");
  }
  Ledger ledger(fd, path, 0, 0);  // closes the file on every return
  struct stat info {};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    return invalid_input(path + ": not a regular file; choose another file for the ledger");
  }
  Lines lines(fd);
  std::string_view line;
  while (ledger.next_step_ < next_step) {
    const Lines::Kind kind = lines.next(line);
    if (kind == Lines::Kind::kFailed) {
      return io_error(path, "read the ledger", "check the disk");
    }
    if (kind != Lines::Kind::kLine) break;
    if (ledger.next_step_ > 0 && line.starts_with('\0')) break;  // a hole, see the header
    const auto step = step_of(line);
    const std::int64_t number = ledger.next_step_ + 1;
    if (!step) {
      return line_error(path, number,
                        "not a ledger line; choose another file or move this one away");
    }
    if (*step != ledger.next_step_) {
      return line_error(
          path, number,
          fmt::format("step {}; expected step {}: lines are missing or duplicated; move "
                      "the file away to start a new one",
                      *step, ledger.next_step_));
    }
    ++ledger.next_step_;
    ledger.size_ += static_cast<std::int64_t>(line.size()) + 1;
  }
  if (next_step <= 0) {
    // Everything is cut off, but a file that was never a ledger belongs to somebody.
    const Lines::Kind kind = lines.next(line);
    if (kind == Lines::Kind::kLine && !step_of(line)) {
      return line_error(path, 1, "not a ledger line; choose another file or move this one away");
    }
  }
  if (::ftruncate(fd, ledger.size_) != 0) {
    return io_error(path, "cut off the lines of steps to be repeated", "check the disk");
  }
  return ledger;
}

Ledger::Ledger(Ledger&& other) noexcept
    : file_(std::exchange(other.file_, -1)),
      path_(std::move(other.path_)),
      next_step_(other.next_step_),
      size_(other.size_),
      last_line_(other.last_line_),
      line_(std::move(other.line_)) {}

Ledger& Ledger::operator=(Ledger&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(path_, other.path_);
  std::swap(next_step_, other.next_step_);
  std::swap(size_, other.size_);
  std::swap(last_line_, other.last_line_);
  std::swap(line_, other.line_);
  return *this;
}

Ledger::~Ledger() {
  if (file_ >= 0) ::close(file_);
}

Status Ledger::append(std::int64_t step, std::int64_t epoch,
                      std::span<const std::vector<std::int64_t>> samples_by_logical) {
  RUBATO_CHECK(step == next_step_, "ledger lines must be appended in step order");
  line_.clear();
  auto out = std::back_inserter(line_);
  fmt::format_to(out, "{{\"step\":{},\"epoch\":{},\"samples\":[", step, epoch);
  for (std::size_t i = 0; i < samples_by_logical.size(); ++i) {
    line_ += i == 0 ? "[" : ",[";
    for (std::size_t k = 0; k < samples_by_logical[i].size(); ++k) {
      if (k > 0) line_ += ',';
      line_ += fmt::format_int(samples_by_logical[i][k]).c_str();
    }
    line_ += ']';
  }
  line_ += "]}\n";
  // After a failure, the next attempt starts at the same position and overwrites the remains.
  std::string_view left = line_;
  while (!left.empty()) {
    const auto at = size_ + static_cast<std::int64_t>(line_.size() - left.size());
    const ssize_t count = ::pwrite(file_, left.data(), left.size(), at);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      return io_error(path_, fmt::format("append step {} to the ledger", step), "free some space");
    }
    left.remove_prefix(static_cast<std::size_t>(count));
  }
  last_line_ = size_;
  size_ += static_cast<std::int64_t>(line_.size());
  ++next_step_;
  return ok_status();
}

bool Ledger::intact() const {
  struct stat info {};
  if (::fstat(file_, &info) != 0 || info.st_size < size_) return false;
  char before = '\n';
  return last_line_ == 0 || (::pread(file_, &before, 1, last_line_ - 1) == 1 && before == '\n');
}

namespace {

// Checks lines one by one.
class LedgerChecker {
 public:
  explicit LedgerChecker(std::int64_t samples)
      : step_of_sample_(static_cast<std::size_t>(samples), kUnused) {}

  // What is wrong with the next line; empty if nothing is.
  std::string add(const std::string& line) {
    const nlohmann::json entry = parse_json(line);
    if (!entry.is_object() || !entry.contains("step") || !entry["step"].is_number_integer() ||
        !entry.contains("epoch") || !entry["epoch"].is_number_integer() ||
        !entry.contains("samples") || !entry["samples"].is_array()) {
      return "not a ledger line; expected {\"step\":..,\"epoch\":..,\"samples\":[[..],..]}";
    }
    const auto step = entry["step"].get<std::int64_t>();
    if (step != summary_.steps) return fmt::format("step {}; expected {}", step, summary_.steps);
    const auto epoch = entry["epoch"].get<std::int64_t>();
    if (used_ == samples() && epoch == epoch_ + 1) start_epoch();
    if (epoch != epoch_) {
      return fmt::format("epoch {}; expected {}{}", epoch, epoch_,
                         epoch == epoch_ + 1 ? ", which lacks sample " + first_unused() : "");
    }
    for (const auto& share : entry["samples"]) {
      if (!share.is_array()) return "the samples of a logical worker are not a list";
      for (const auto& sample : share) {
        std::string problem = use(sample, step);
        if (!problem.empty()) return problem;
      }
    }
    ++summary_.steps;
    return {};
  }

  LedgerSummary summary() const {
    LedgerSummary summary = summary_;
    summary.epochs_complete = epoch_ + (used_ == samples() ? 1 : 0);
    return summary;
  }

 private:
  static constexpr std::int64_t kUnused = -1;

  std::int64_t samples() const { return static_cast<std::int64_t>(step_of_sample_.size()); }

  void start_epoch() {
    std::fill(step_of_sample_.begin(), step_of_sample_.end(), kUnused);
    used_ = 0;
    ++epoch_;
  }

  std::string use(const nlohmann::json& value, std::int64_t step) {
    if (!value.is_number_integer()) return "a sample id is not a whole number";
    const auto sample = value.get<std::int64_t>();
    if (sample < 0 || sample >= samples()) {
      return fmt::format("epoch {} uses sample {}; there are only {}", epoch_, sample, samples());
    }
    std::int64_t& used_in = step_of_sample_[static_cast<std::size_t>(sample)];
    if (used_in != kUnused) {
      return fmt::format("epoch {} uses sample {} twice, in steps {} and {}", epoch_, sample,
                         used_in, step);
    }
    used_in = step;
    ++used_;
    return {};
  }

  std::string first_unused() const {
    const auto it = std::find(step_of_sample_.begin(), step_of_sample_.end(), kUnused);
    return std::to_string(it - step_of_sample_.begin());
  }

  std::vector<std::int64_t> step_of_sample_;
  std::int64_t used_ = 0;
  std::int64_t epoch_ = 0;
  LedgerSummary summary_;
};

}  // namespace

Result<LedgerSummary> check_ledger(const std::string& path, std::int64_t samples) {
  RUBATO_CHECK(samples >= 1, "a data set must have samples");
  std::ifstream file(path);
  if (!file) return io_error(path, "open the ledger", "pass the file given to --ledger");
  LedgerChecker checker(samples);
  std::string line;
  for (std::int64_t number = 1; std::getline(file, line); ++number) {
    if (file.eof()) {
      return line_error(path, number,
                        "the line is incomplete: the job stopped while writing it; restart the job "
                        "with this ledger to repair it");
    }
    const std::string problem = checker.add(line);
    if (!problem.empty()) return line_error(path, number, problem);
  }
  if (file.bad()) return io_error(path, "read the ledger", "check the disk");
  return checker.summary();
}

}  // namespace rubato::elastic
