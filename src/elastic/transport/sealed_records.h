// What a stream (stream.h) of a job that encrypts sends: records of
//   plaintext length (u32, little-endian, 1 to kRecordBytes), ciphertext, tag (16 bytes)
// encrypted and authenticated with AES-256-GCM under the direction's key of this connection. The
// number of a record is its nonce, and the tag covers the length of the ciphertext. So any bit that
// is altered, and any record that is repeated, left out, moved or cut, ends the stream. Where the
// data end is said in the data: a stream that is cut between two records looks like a broken
// connection.
//
// After kRecordsPerKey records (64 GiB) both ends derive the next key, so no key encrypts more than
// 2^32 blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "elastic/transport/aead.h"
#include "elastic/transport/session_keys.h"

namespace rubato::elastic {

inline constexpr std::size_t kRecordBytes = 128 * 1024;  // of plaintext
inline constexpr std::size_t kRecordHeaderBytes = 4;
inline constexpr std::uint64_t kRecordsPerKey = 1 << 19;

// The sending side. Bytes are encrypted into a buffer of one record, which is sent when it is full
// or flushed.
class RecordWriter {
 public:
  // The socket must outlive it. check_encryption() must have succeeded.
  RecordWriter(int socket, const SessionKey& key, std::uint64_t records_per_key = kRecordsPerKey);
  // False: the connection is broken. `more`: further bytes or a flush() follow at once.
  bool send(std::span<const std::byte> bytes, bool more);
  bool flush() { return filled_ == 0 || finish_record(false); }

 private:
  bool finish_record(bool more);

  int socket_;
  SessionKey key_;
  Aead aead_;
  std::uint64_t records_per_key_;
  std::uint64_t records_ = 0;  // under this key
  std::vector<std::byte> record_;
  std::size_t filled_ = 0;  // plaintext bytes of the record
  bool good_ = true;
};

// The receiving side. A record that belongs to the caller's bytes as a whole is decrypted right
// there. GCM decrypts before it verifies, so for a moment there may be bytes that nobody vouches
// for. If the record proves false, they are overwritten with zeros, and receive() returns false.
// Others must therefore not use the bytes before receive() has returned true; the same holds for a
// stream that is not encrypted, since it may break at any byte.
class RecordReader {
 public:
  RecordReader(int socket, const SessionKey& key, std::uint64_t records_per_key = kRecordsPerKey);
  // False: the connection is broken, or a record was not the one that was sent. Then no later
  // record is read either.
  bool receive(std::span<std::byte> bytes);

 private:
  bool next_record(std::span<std::byte>& bytes);

  int socket_;
  SessionKey key_;
  Aead aead_;
  std::uint64_t records_per_key_;
  std::uint64_t records_ = 0;
  std::vector<std::byte> record_;
  std::size_t begin_ = 0;  // plaintext in `record_` that was not returned yet
  std::size_t end_ = 0;
  bool good_ = true;
};

}  // namespace rubato::elastic
