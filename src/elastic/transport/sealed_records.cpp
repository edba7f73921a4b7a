#include "elastic/transport/sealed_records.h"

#include <algorithm>
#include <array>

#include "elastic/transport/socket_bytes.h"

namespace rubato::elastic {

RecordWriter::RecordWriter(int socket, const SessionKey& key, std::uint64_t records_per_key)
    : socket_(socket),
      key_(key),
      aead_(key, Aead::Use::kSeal),
      records_per_key_(records_per_key),
      record_(kRecordHeaderBytes + kRecordBytes + kSealBytes) {}

bool RecordWriter::send(std::span<const std::byte> bytes, bool more) {
  while (good_ && !bytes.empty()) {
    const auto part = bytes.first(std::min(bytes.size(), kRecordBytes - filled_));
    bytes = bytes.subspan(part.size());
    good_ = (filled_ > 0 || aead_.begin()) &&
            aead_.update(part, record_.data() + kRecordHeaderBytes + filled_);
    filled_ += part.size();
    if (filled_ == kRecordBytes) finish_record(more || !bytes.empty());
  }
  return more ? good_ : flush() && good_;
}

bool RecordWriter::finish_record(bool more) {
  for (std::size_t i = 0; i < kRecordHeaderBytes; ++i) {
    record_[i] = static_cast<std::byte>(filled_ >> 8 * i & 0xff);
  }
  const std::size_t end = kRecordHeaderBytes + filled_;
  const std::span all(record_);
  good_ = good_ && aead_.seal_end(all.subspan(end).first<kSealBytes>()) &&
          send_bytes(socket_, all.first(end + kSealBytes), more);
  filled_ = 0;
  if (good_ && ++records_ == records_per_key_) {
    key_ = next_key(key_);
    records_ = 0;
    good_ = aead_.set_key(key_);
  }
  return good_;
}

RecordReader::RecordReader(int socket, const SessionKey& key, std::uint64_t records_per_key)
    : socket_(socket),
      key_(key),
      aead_(key, Aead::Use::kOpen),
      records_per_key_(records_per_key),
      record_(kRecordBytes + kSealBytes) {}

bool RecordReader::receive(std::span<std::byte> bytes) {
  while (good_ && !bytes.empty()) {
    if (begin_ == end_) {
      good_ = next_record(bytes);
      continue;
    }
    const std::size_t taken = std::min(bytes.size(), end_ - begin_);
    std::copy_n(record_.begin() + static_cast<std::ptrdiff_t>(begin_), taken, bytes.begin());
    begin_ += taken;
    bytes = bytes.subspan(taken);
  }
  return good_;
}

// Reads a record into the beginning of `bytes`, which then is what remains of them, or into the
// buffer.
bool RecordReader::next_record(std::span<std::byte>& bytes) {
  std::array<std::byte, kRecordHeaderBytes> header;
  if (!receive_bytes(socket_, header)) return false;
  std::size_t length = 0;
  for (std::size_t i = kRecordHeaderBytes; i-- > 0;) {
    length = length << 8 | std::to_integer<std::size_t>(header[i]);
  }
  if (length == 0 || length > kRecordBytes) return false;
  const std::span sealed = std::span(record_).first(length + kSealBytes);
  if (!receive_bytes(socket_, sealed)) return false;
  const bool in_place = length <= bytes.size();
  const std::span<std::byte> plain = in_place ? bytes.first(length) : sealed.first(length);
  if (!aead_.begin() || !aead_.update(sealed.first(length), plain.data()) ||
      !aead_.open_end(sealed.last<kSealBytes>())) {
    std::ranges::fill(plain, std::byte{0});
    return false;
  }
  if (in_place) {
    bytes = bytes.subspan(length);
  } else {
    begin_ = 0;
    end_ = length;
  }
  if (++records_ < records_per_key_) return true;
  key_ = next_key(key_);
  records_ = 0;
  return aead_.set_key(key_);
}

}  // namespace rubato::elastic
