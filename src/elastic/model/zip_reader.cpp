#include "elastic/model/zip_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "base/crc32c.h"

namespace rubato::elastic {

namespace {

constexpr std::uint32_t kEnd = 0x06054b50;
constexpr std::uint32_t kEnd64 = 0x06064b50;
constexpr std::uint32_t kLocator64 = 0x07064b50;
constexpr std::uint32_t kEntry = 0x02014b50;
constexpr std::uint32_t kLocal = 0x04034b50;
constexpr std::uint32_t kLarge = 0xffffffffU;
constexpr std::size_t kEndBytes = 22;
constexpr std::size_t kLongestComment = 0xffff;
constexpr std::size_t kEntryBytes = 46;
constexpr std::size_t kLocalBytes = 30;

// Numbers of the file; 0 beyond its end.
class Bytes {
 public:
  explicit Bytes(std::string_view bytes) : bytes_(bytes) {}
  std::uint64_t number(std::uint64_t at, int size) const {
    if (at > bytes_.size() || bytes_.size() - at < static_cast<std::uint64_t>(size)) return 0;
    std::uint64_t value = 0;
    for (int i = size; i-- > 0;) {
      value = value << 8 | static_cast<unsigned char>(bytes_[at + static_cast<std::uint64_t>(i)]);
    }
    return value;
  }
  std::uint64_t u16(std::uint64_t at) const { return number(at, 2); }
  std::uint64_t u32(std::uint64_t at) const { return number(at, 4); }
  std::uint64_t u64(std::uint64_t at) const { return number(at, 8); }
  bool has(std::uint64_t at, std::uint64_t size) const {
    return at <= bytes_.size() && size <= bytes_.size() - at;
  }
  std::string_view part(std::uint64_t at, std::uint64_t size) const {
    return bytes_.substr(at, size);
  }
  std::size_t size() const { return bytes_.size(); }

 private:
  std::string_view bytes_;
};

struct Entry {
  std::string name;
  std::uint64_t size = 0;
  std::uint64_t offset = 0;
  std::uint64_t checksum = 0;
  std::uint64_t next = 0;  // where the next entry begins
};

// Sizes and offsets that do not fit into 32 bits are in an extra field, in a fixed order.
void read_large(const Bytes& bytes, std::uint64_t at, std::uint64_t end, Entry& entry) {
  while (at + 4 <= end) {
    const std::uint64_t kind = bytes.u16(at);
    const std::uint64_t length = bytes.u16(at + 2);
    at += 4;
    if (kind == 1) {
      if (entry.size == kLarge) {
        entry.size = bytes.u64(at);
        at += 16;  // and the compressed size
      }
      if (entry.offset == kLarge) entry.offset = bytes.u64(at);
      return;
    }
    at += length;
  }
}

Result<Entry> read_entry(const Bytes& bytes, std::uint64_t at) {
  if (!bytes.has(at, kEntryBytes) || bytes.u32(at) != kEntry) {
    return invalid_input("its directory is damaged");
  }
  const std::uint64_t name = bytes.u16(at + 28);
  const std::uint64_t extra = bytes.u16(at + 30);
  const std::uint64_t comment = bytes.u16(at + 32);
  if (!bytes.has(at + kEntryBytes, name + extra + comment)) {
    return invalid_input("its directory is damaged");
  }
  Entry entry{.name = std::string(bytes.part(at + kEntryBytes, name)),
              .size = bytes.u32(at + 24),
              .offset = bytes.u32(at + 42),
              .checksum = bytes.u32(at + 16),
              .next = at + kEntryBytes + name + extra + comment};
  if (bytes.u16(at + 10) != 0) {
    return invalid_input(fmt::format("its entry '{}' is compressed", entry.name));
  }
  read_large(bytes, at + kEntryBytes + name, at + kEntryBytes + name + extra, entry);
  return entry;
}

Result<std::string_view> content_of(const Bytes& bytes, const Entry& entry) {
  const Error damaged = invalid_input(fmt::format("its entry '{}' is damaged", entry.name));
  if (!bytes.has(entry.offset, kLocalBytes) || bytes.u32(entry.offset) != kLocal) return damaged;
  const std::uint64_t begin =
      entry.offset + kLocalBytes + bytes.u16(entry.offset + 26) + bytes.u16(entry.offset + 28);
  if (!bytes.has(begin, entry.size)) return damaged;
  const std::string_view content = bytes.part(begin, entry.size);
  if (crc32(std::as_bytes(std::span(content.data(), content.size()))) != entry.checksum) {
    return damaged;
  }
  return content;
}

}  // namespace

Result<std::map<std::string, std::string_view>> zip_entries(std::string_view text) {
  const Bytes bytes(text);
  std::uint64_t end = bytes.size();
  const std::uint64_t first =
      bytes.size() > kEndBytes + kLongestComment ? bytes.size() - kEndBytes - kLongestComment : 0;
  for (std::uint64_t at = bytes.size() < kEndBytes ? 0 : bytes.size() - kEndBytes + 1;
       at-- > first;) {
    if (bytes.u32(at) == kEnd) {
      end = at;
      break;
    }
  }
  if (end == bytes.size()) return invalid_input("not a zip archive");
  std::uint64_t count = bytes.u16(end + 10);
  std::uint64_t at = bytes.u32(end + 16);
  if (end >= 20 && bytes.u32(end - 20) == kLocator64) {
    const std::uint64_t end64 = bytes.u64(end - 12);
    if (bytes.has(end64, 56) && bytes.u32(end64) == kEnd64) {
      count = bytes.u64(end64 + 32);
      at = bytes.u64(end64 + 48);
    }
  }
  std::map<std::string, std::string_view> entries;
  for (; count > 0; --count) {
    const Result<Entry> entry = read_entry(bytes, at);
    if (!entry.ok()) return entry.error();
    const Result<std::string_view> content = content_of(bytes, *entry);
    if (!content.ok()) return content.error();
    entries[entry->name] = *content;
    at = entry->next;
  }
  return entries;
}

}  // namespace rubato::elastic
