#include "api/log_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/text.h"

namespace rubato::api {

namespace {

constexpr std::int64_t kBlock = 64 * 1024;
constexpr std::size_t kAtOnce = 256 * 1024;

std::int64_t size_of(const std::string& path) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  return error ? 0 : static_cast<std::int64_t>(size);
}

std::string read_part(const std::string& path, std::int64_t from, std::int64_t most) {
  std::string bytes(static_cast<std::size_t>(most), '\0');
  std::ifstream file(path, std::ios::binary);
  file.seekg(from);
  file.read(bytes.data(), most);
  bytes.resize(static_cast<std::size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  return bytes;
}

// Offset of the last `lines` lines. Searches backwards from the end of the file.
std::int64_t start_of_tail(const std::string& path, std::int64_t lines) {
  std::int64_t end = size_of(path);
  if (lines == 0) return end;
  const std::int64_t size = end;
  std::int64_t seen = 0;
  while (end > 0) {
    const std::int64_t begin = std::max<std::int64_t>(0, end - kBlock);
    const std::string bytes = read_part(path, begin, end - begin);
    for (std::size_t i = bytes.size(); i > 0; --i) {
      const std::int64_t at = begin + static_cast<std::int64_t>(i) - 1;
      if (bytes[i - 1] != '\n' || at == size - 1) continue;
      if (++seen == lines) return at + 1;
    }
    end = begin;
  }
  return 0;
}

}  // namespace

std::int64_t worker_of_log(const std::string& path) {
  const std::string name = std::filesystem::path(path).filename().string();
  constexpr std::string_view kPrefix = "worker-";
  if (!name.starts_with(kPrefix)) return -1;
  const std::string_view rest = std::string_view(name).substr(kPrefix.size());
  return parse_int(rest.substr(0, rest.find('.'))).value_or(-1);
}

void LogReader::append(const std::string& label, Position& position, const std::string& bytes,
                       std::string& text) const {
  if (worker_ >= 0) {
    text += bytes;
    return;
  }
  for (const char c : bytes) {
    if (!position.in_line) text += label;
    position.in_line = c != '\n';
    text += c;
  }
}

bool LogReader::read(const std::vector<std::string>& files, std::string& text) {
  const std::size_t before = text.size();
  for (const std::string& file : files) {
    const std::int64_t worker = worker_of_log(file);
    if (worker_ >= 0 && worker != worker_) continue;
    auto [it, fresh] = positions_.try_emplace(file);
    Position& position = it->second;
    if (fresh && first_ && tail_ >= 0) position.offset = start_of_tail(file, tail_);
    const std::string label =
        worker >= 0 ? fmt::format("worker-{} | ", worker)
                    : fmt::format("{} | ", std::filesystem::path(file).filename().string());
    if (size_of(file) < position.offset) position = {};
    while (text.size() - before < kAtOnce) {
      const std::string bytes = read_part(file, position.offset, kBlock);
      if (bytes.empty()) break;
      position.offset += static_cast<std::int64_t>(bytes.size());
      append(label, position, bytes, text);
    }
    // Finish this file in the next call before starting another one.
    if (text.size() - before >= kAtOnce) return true;
  }
  first_ = false;
  return text.size() > before;
}

}  // namespace rubato::api
