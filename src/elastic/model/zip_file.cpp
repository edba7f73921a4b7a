#include "elastic/model/zip_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/crc32c.h"

namespace rubato::elastic {

namespace {

constexpr std::uint64_t kAlign = 64;
constexpr std::uint16_t kVersion = 45;  // with 64-bit sizes
constexpr std::uint16_t kUtf8Names = 1U << 11;
constexpr std::uint32_t kSee64 = 0xffffffffU;
constexpr std::uint16_t kPadding = 0x4246;  // PyTorch's own field ("FB")
constexpr std::size_t kLocalHeader = 30;
constexpr std::size_t kField64 = 4 + 16;  // of a local header: both sizes

// Numbers of a header, little-endian.
class Numbers {
 public:
  Numbers& u16(std::uint64_t value) { return add(value, 2); }
  Numbers& u32(std::uint64_t value) { return add(value, 4); }
  Numbers& u64(std::uint64_t value) { return add(value, 8); }
  Numbers& text(std::string_view text) {
    bytes_ += text;
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  Numbers& add(std::uint64_t value, int count) {
    for (int i = 0; i < count; ++i) bytes_ += static_cast<char>((value >> (8 * i)) & 0xff);
    return *this;
  }
  std::string bytes_;
};

}  // namespace

Result<OutputFile> OutputFile::create(const std::string& path) {
  const std::string temporary = fmt::format("{}.{}.new", path, getpid());
  const int file =
      ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
  OutputFile output(path, temporary, file);
  if (file < 0) return output.failed("create").error();
  return output;
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::move(other.temporary_)),
      file_(std::exchange(other.file_, -1)),
      size_(other.size_) {}

OutputFile::~OutputFile() {
  if (file_ < 0) return;
  close(file_);
  std::remove(temporary_.c_str());
}

Status OutputFile::failed(const char* what) const {
  return Error{ErrorCode::kIo, fmt::format("{}: cannot {}: {}", path_, what, std::strerror(errno))};
}

Status OutputFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(file_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return failed("write");
    size_ += static_cast<std::uint64_t>(count);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return ok_status();
}

Status OutputFile::commit() {
  if (fsync(file_) != 0) return failed("write");
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) return failed("create");
  close(std::exchange(file_, -1));
  return ok_status();
}

void ZipFile::write(std::string_view bytes) {
  if (status_.ok()) status_ = file_.write(std::as_bytes(std::span(bytes.data(), bytes.size())));
}

void ZipFile::add(const std::string& name, std::span<const std::byte> content) {
  Entry entry{
      .name = name, .size = content.size(), .offset = file_.size(), .checksum = crc32(content)};
  const bool large = entry.size >= kSee64;
  const std::uint64_t before = entry.offset + kLocalHeader + name.size() + (large ? kField64 : 0);
  const std::uint64_t padding = (2 * kAlign - (before + 4) % kAlign) % kAlign;
  Numbers header;
  header.u32(0x04034b50).u16(kVersion).u16(kUtf8Names).u16(0).u16(0).u16(0x21);
  header.u32(entry.checksum);
  header.u32(large ? kSee64 : entry.size).u32(large ? kSee64 : entry.size);
  header.u16(name.size()).u16((large ? kField64 : 0) + 4 + padding).text(name);
  if (large) header.u16(1).u16(16).u64(entry.size).u64(entry.size);
  header.u16(kPadding).u16(padding).text(std::string(padding, 'Z'));
  write(header.bytes());
  if (status_.ok()) status_ = file_.write(content);
  entries_.push_back(std::move(entry));
}

Status ZipFile::finish() {
  const std::uint64_t begin = file_.size();
  for (const Entry& entry : entries_) {
    const bool large = entry.size >= kSee64;
    const bool far = entry.offset >= kSee64;
    const std::size_t extra = (large ? 16 : 0) + (far ? 8 : 0);
    Numbers header;
    header.u32(0x02014b50).u16(kVersion).u16(kVersion).u16(kUtf8Names).u16(0).u16(0).u16(0x21);
    header.u32(entry.checksum);
    header.u32(large ? kSee64 : entry.size).u32(large ? kSee64 : entry.size);
    header.u16(entry.name.size()).u16(extra > 0 ? extra + 4 : 0).u16(0).u16(0).u16(0).u32(0);
    header.u32(far ? kSee64 : entry.offset).text(entry.name);
    if (extra > 0) header.u16(1).u16(extra);
    if (large) header.u64(entry.size).u64(entry.size);
    if (far) header.u64(entry.offset);
    write(header.bytes());
  }
  const std::uint64_t end = file_.size();
  Numbers trailer;
  trailer.u32(0x06064b50).u64(44).u16(kVersion).u16(kVersion).u32(0).u32(0);
  trailer.u64(entries_.size()).u64(entries_.size()).u64(end - begin).u64(begin);
  trailer.u32(0x07064b50).u32(0).u64(end).u32(1);
  const std::uint64_t count = std::min<std::uint64_t>(entries_.size(), 0xffff);
  trailer.u32(0x06054b50).u16(0).u16(0).u16(count).u16(count);
  trailer.u32(std::min<std::uint64_t>(end - begin, kSee64));
  trailer.u32(std::min<std::uint64_t>(begin, kSee64)).u16(0);
  write(trailer.bytes());
  return status_;
}

}  // namespace rubato::elastic
