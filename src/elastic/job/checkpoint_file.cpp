#include "elastic/job/checkpoint_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "base/crc32c.h"
#include "elastic/job/job_description.h"

namespace rubato::elastic {

static_assert(std::endian::native == std::endian::little,
              "the format is the little-endian memory layout");

namespace {

constexpr std::array<char, 8> kCheckpointMagic{'R', 'U', 'B', 'A', 'T', 'O', 'C', 'K'};
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kBlock = 1 << 20;
constexpr std::size_t kCrc = sizeof(std::uint32_t);

struct Header {
  std::array<char, 8> magic = kCheckpointMagic;
  std::uint32_t version = kVersion;
  std::uint32_t unused = 0;
  std::int64_t step = 0;
  std::uint64_t payload = 0;
  std::uint32_t unused2 = 0;
  std::uint32_t crc = 0;  // of everything before it
};
static_assert(sizeof(Header) == 40 && std::has_unique_object_representations_v<Header>);

std::uint32_t crc_of(const Header& header) {
  return crc32c(std::as_bytes(std::span(&header, 1)).first(sizeof header - kCrc));
}

std::uint32_t block_crc(std::uint64_t number, std::span<const std::byte> bytes) {
  return crc32c(bytes, crc32c(std::as_bytes(std::span(&number, 1))));
}

class OpenFile {
 public:
  explicit OpenFile(int fd) : fd_(fd) {}
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  int fd() const { return fd_; }

 private:
  int fd_;
};

Error system_error(const std::string& doing) {
  return {errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
          fmt::format("cannot {}: {}", doing, std::strerror(errno))};
}

bool write_all(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(fd, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return true;
}

// Also returns false at a premature end of the file, with errno 0.
bool read_all(int fd, std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    errno = 0;
    const ssize_t count = ::read(fd, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return true;
}

class BlockWriter {
 public:
  explicit BlockWriter(int fd) : fd_(fd), block_(kBlock + kCrc) {}

  bool put(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const std::size_t taken = std::min(bytes.size(), kBlock - used_);
      std::copy_n(bytes.begin(), taken, block_.begin() + static_cast<std::ptrdiff_t>(used_));
      used_ += taken;
      bytes = bytes.subspan(taken);
      if (used_ == kBlock && !flush()) return false;
    }
    return true;
  }
  bool put_number(std::uint64_t number) { return put(std::as_bytes(std::span(&number, 1))); }
  bool flush() {
    if (used_ == 0) return true;
    const std::uint32_t crc = block_crc(number_, std::span(block_).first(used_));
    std::memcpy(block_.data() + used_, &crc, kCrc);
    if (!write_all(fd_, std::span(block_).first(used_ + kCrc))) return false;
    ++number_;
    used_ = 0;
    return true;
  }

 private:
  int fd_;
  std::vector<std::byte> block_;
  std::size_t used_ = 0;
  std::uint64_t number_ = 0;
};

// Returns only bytes of blocks whose checksum is correct.
class BlockReader {
 public:
  BlockReader(int fd, std::uint64_t payload) : fd_(fd), unread_(payload) {}

  // Bytes of the payload that were not returned yet.
  std::uint64_t remaining() const { return unread_ + block_.size() - used_; }

  Status get(std::span<std::byte> out) {
    if (out.size() > remaining()) return invalid_input("the lengths inside do not match the file");
    while (!out.empty()) {
      if (used_ == block_.size()) {
        Status next = next_block();
        if (!next) return next;
      }
      const std::size_t taken = std::min(out.size(), block_.size() - used_);
      std::copy_n(block_.begin() + static_cast<std::ptrdiff_t>(used_), taken, out.begin());
      used_ += taken;
      out = out.subspan(taken);
    }
    return ok_status();
  }

  Result<std::uint64_t> number() {
    std::uint64_t value = 0;
    Status status = get(std::as_writable_bytes(std::span(&value, 1)));
    if (!status) return status.error();
    return value;
  }

 private:
  Status next_block() {
    block_.resize(static_cast<std::size_t>(std::min<std::uint64_t>(kBlock, unread_)));
    std::uint32_t crc = 0;
    if (!read_all(fd_, block_) || !read_all(fd_, std::as_writable_bytes(std::span(&crc, 1)))) {
      if (errno != 0) return system_error("read");
      return invalid_input("it ended unexpectedly; is another process writing to it?");
    }
    if (crc != block_crc(number_, block_)) {
      return invalid_input(fmt::format(
          "damaged: the checksum of block {} ({} bytes) does not match", number_, block_.size()));
    }
    unread_ -= block_.size();
    used_ = 0;
    ++number_;
    return ok_status();
  }

  int fd_;
  std::uint64_t unread_;  // of the payload, after the current block
  std::vector<std::byte> block_;
  std::size_t used_ = 0;
  std::uint64_t number_ = 0;
};

std::string shortened(const std::string& text) {
  constexpr std::size_t kMost = 200;
  return text.size() <= kMost ? text : text.substr(0, kMost) + "...";
}

Result<std::uint64_t> read_header(int fd, std::int64_t step) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return system_error("examine");
  if (!S_ISREG(info.st_mode)) return invalid_input("not a regular file");
  const auto size = static_cast<std::uint64_t>(info.st_size);
  Header header;
  if (size < sizeof header) {
    return invalid_input(fmt::format("truncated: {} bytes, shorter than a header", size));
  }
  if (!read_all(fd, std::as_writable_bytes(std::span(&header, 1)))) return system_error("read");
  if (header.magic != kCheckpointMagic)
    return invalid_input("damaged, or not a checkpoint: wrong magic");
  if (header.crc != crc_of(header)) return invalid_input("damaged: wrong header checksum");
  if (header.version != kVersion) {
    return invalid_input(
        fmt::format("format version {}; this program reads version {}", header.version, kVersion));
  }
  if (header.step != step) {
    return invalid_input(fmt::format("holds step {}; was it renamed?", header.step));
  }
  // Compared without computing the size from the payload length, which may be nonsense.
  const std::uint64_t rest = size - sizeof header;
  const std::uint64_t blocks = rest / (kBlock + kCrc) + (rest % (kBlock + kCrc) != 0 ? 1 : 0);
  if (rest < blocks * kCrc || rest - blocks * kCrc != header.payload) {
    return invalid_input(
        fmt::format("truncated or extended: {} bytes do not match the {} payload "
                    "bytes given in the header",
                    size, header.payload));
  }
  return header.payload;
}

}  // namespace

Status write_checkpoint_file(const std::string& path, const CheckpointParts& checkpoint) {
  const OpenFile file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (file.fd() < 0) return system_error("create");
  Header header;
  header.step = checkpoint.step;
  header.payload = (2 + checkpoint.parts.size()) * sizeof(std::uint64_t);
  header.payload += checkpoint.description.size();
  for (const auto& part : checkpoint.parts) header.payload += part.size();
  header.crc = crc_of(header);

  BlockWriter out(file.fd());
  bool written = write_all(file.fd(), std::as_bytes(std::span(&header, 1)));
  written = written && out.put_number(checkpoint.description.size()) &&
            out.put(std::as_bytes(std::span(checkpoint.description))) &&
            out.put_number(checkpoint.parts.size());
  for (const auto& part : checkpoint.parts) written = written && out.put_number(part.size());
  for (const auto& part : checkpoint.parts) written = written && out.put(part);
  if (!written || !out.flush()) return system_error("write");
  if (::fsync(file.fd()) != 0) return system_error("sync");
  return ok_status();
}

Result<LoadedCheckpoint> read_checkpoint_file(const std::string& path, std::int64_t step,
                                              const std::string& description,
                                              bool* belongs_elsewhere) {
  // Non-blocking: something else with this name may be a pipe.
  const OpenFile file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (file.fd() < 0) return system_error("open");
  const auto payload = read_header(file.fd(), step);
  if (!payload) return payload.error();
  BlockReader in(file.fd(), *payload);
  const Error misfit = invalid_input("the lengths inside do not match the file");

  LoadedCheckpoint loaded;
  loaded.step = step;
  const auto description_length = in.number();
  if (!description_length) return description_length.error();
  if (*description_length > in.remaining()) return misfit;
  loaded.description.resize(static_cast<std::size_t>(*description_length));
  Status status = in.get(std::as_writable_bytes(std::span(loaded.description)));
  if (!status) return status.error();
  if (!same_training(loaded.description, description)) {
    if (belongs_elsewhere != nullptr) *belongs_elsewhere = true;
    return invalid_input(fmt::format(
        "it belongs to another job or shape: {}; this job is {}; give each job its own folder",
        shortened(loaded.description), shortened(description)));
  }

  const auto parts = in.number();
  if (!parts) return parts.error();
  if (*parts > in.remaining() / sizeof(std::uint64_t)) return misfit;
  std::vector<std::uint64_t> lengths(static_cast<std::size_t>(*parts));
  status = in.get(std::as_writable_bytes(std::span(lengths)));
  if (!status) return status.error();
  for (const std::uint64_t length : lengths) {
    if (length > in.remaining()) return misfit;
    loaded.parts.emplace_back(static_cast<std::size_t>(length));
    status = in.get(loaded.parts.back());
    if (!status) return status.error();
  }
  if (in.remaining() != 0) return misfit;
  return loaded;
}

}  // namespace rubato::elastic
