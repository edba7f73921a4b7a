// Writes a zip archive without compression, as PyTorch's files are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace rubato::elastic {

// A file that gets its name only when it is complete and durable.
class OutputFile {
 public:
  static Result<OutputFile> create(const std::string& path);
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();  // without commit(), nothing remains

  Status write(std::span<const std::byte> bytes);
  std::uint64_t size() const { return size_; }
  Status commit();

 private:
  OutputFile(std::string path, std::string temporary, int file)
      : path_(std::move(path)), temporary_(std::move(temporary)), file_(file) {}
  Status failed(const char* what) const;

  std::string path_;
  std::string temporary_;
  int file_ = -1;
  std::uint64_t size_ = 0;
};

class ZipFile {
 public:
  explicit ZipFile(OutputFile& file) : file_(file) {}

  // The content begins at a multiple of 64 bytes, so that readers can map it.
  void add(const std::string& name, std::span<const std::byte> content);
  Status finish();  // writes the directory; returns the first error

 private:
  struct Entry {
    std::string name;
    std::uint64_t size = 0;
    std::uint64_t offset = 0;
    std::uint32_t checksum = 0;
  };
  void write(std::string_view bytes);

  OutputFile& file_;
  std::vector<Entry> entries_;
  Status status_ = ok_status();
};

}  // namespace rubato::elastic
