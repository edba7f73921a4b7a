// Seeded generators of what a hostile job may write: text that is almost right, text that is not,
// and things that are no files at all.
#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "base/json_text.h"
#include "base/random.h"
#include "control/job_schemas.h"

namespace rubato::control {

// JSON text, because some of it cannot be built.
inline std::string hostile_value(Random& random) {
  switch (random.below(20)) {
    case 0:
      return "null";
    case 1:
      return "true";
    case 2:
      return "-1";
    case 3:
      return "1e308";
    case 4:
      return "-1e308";
    case 5:
      return "18446744073709551615";
    case 6:
      return "-9223372036854775808";
    case 7:
      return "9223372036854775807";
    case 8:
      return "1e999";
    case 9:
      return "\"\"";
    case 10:
      return "\"" + std::string(random.below(40'000), 'x') + "\"";
    case 11:
      return "\"\\u0000\\ud83d\\ude00\"";
    case 12:
      return "\"\xff\xfe\"";
    case 13:
      return "[]";
    case 14:
      return "{}";
    case 15:
      return "[" + std::string(random.below(3000), '[') + "1";
    case 16: {
      const std::size_t depth = random.below(3000);
      return std::string(depth, '[') + std::string(depth, ']');
    }
    case 17:
      return "[[5,-5],[2147483647,-2147483648],{\"id\":\"x\"},\"a\",null]";
    case 18:
      return "{\"type\":{\"type\":5}}";
    default:
      return std::to_string(static_cast<std::int64_t>(random.next()));
  }
}

inline std::string sound_value(const FileField& field) {
  switch (field.kind) {
    case FileFieldKind::kWhole:
    case FileFieldKind::kNumber:
      return "1";
    case FileFieldKind::kText:
      return "\"join\"";
    case FileFieldKind::kList:
      return "[]";
    case FileFieldKind::kNumbers:
      return R"({"accuracy":0.5,"loss":"nan"})";
  }
  return "null";
}

// A line of a known type, in which some fields may be confused.
inline std::string hostile_line(Random& random) {
  const auto schemas = line_schemas();
  const FileSchema& schema = schemas[random.below(static_cast<std::uint32_t>(schemas.size()))];
  std::string line =
      fmt::format("{{\"type\":{}", random.below(10) == 0 ? hostile_value(random)
                                                         : fmt::format("\"{}\"", schema.name));
  const auto confused = random.below(static_cast<std::uint32_t>(schema.fields.size()) + 1);
  for (std::size_t i = 0; i < schema.fields.size(); ++i) {
    const FileField& field = schema.fields[i];
    line += fmt::format(",\"{}\":{}", field.name,
                        i == confused ? hostile_value(random) : sound_value(field));
  }
  return line + "}";
}

// Any of the job's JSON files, confused.
inline std::string hostile_object(Random& random) {
  static constexpr const char* kNames[] = {
      "state",   "message", "target", "devices",      "workers",         "result",       "steps",
      "token",   "name",    "mode",   "settings",     "processes",       "first_target", "view",
      "members", "board",   "leader", "first_step",   "batch",           "prepare_s",    "cause",
      "migrate", "stop",    "at",     "state_sha256", "logical_workers", "elsewhere"};
  std::string text = "{";
  for (const char* name : kNames) {
    if (random.below(3) == 0) continue;
    text += fmt::format("{}\"{}\":{}", text.size() > 1 ? "," : "", name, hostile_value(random));
  }
  return text + "}";
}

inline std::string hostile_text(Random& random) {
  switch (random.below(8)) {
    case 0: {
      std::string bytes(random.below(5000), '\0');
      for (char& c : bytes) c = static_cast<char>(random.below(256));
      return bytes;
    }
    case 1:
      return "";
    case 2: {
      std::string text = hostile_object(random);
      return text.substr(0, random.below(static_cast<std::uint32_t>(text.size()) + 1));
    }
    case 3: {
      std::string text = hostile_object(random);
      if (!text.empty()) text[random.below(static_cast<std::uint32_t>(text.size()))] = '\0';
      return text;
    }
    case 4: {
      std::string lines;
      for (std::uint32_t i = random.below(30); i > 0; --i) lines += hostile_line(random) + "\n";
      return lines;
    }
    case 5:
      return std::string(random.below(100'000), random.below(2) == 0 ? '[' : '{');
    case 6:
      return std::to_string(static_cast<std::int64_t>(random.next()));
    default:
      return hostile_object(random);
  }
}

inline void remove_anything(const std::string& path) {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);  // does not follow links
}

// Puts something hostile at this path in place of what is there; says what. A link leads to
// `elsewhere` or to a device: the job's own processes follow it, and must not hurt anybody.
inline std::string place_hostile(const std::string& path, const std::string& elsewhere,
                                 Random& random) {
  const auto write_text = [&](const std::string& text, std::ios::openmode mode) {
    std::ofstream(path, std::ios::binary | mode) << text;
  };
  const std::uint32_t what = random.below(14);
  if (what >= 5) {  // bytes
    struct stat status {};
    const bool regular = lstat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
    if (what >= 9 || !regular) remove_anything(path);
    write_text(hostile_text(random), what >= 7 ? std::ios::app : std::ios::trunc);
    return "bytes";
  }
  remove_anything(path);
  switch (what) {
    case 0: {
      const std::string targets[] = {elsewhere, "/dev/zero", "/proc/self/mem", "does-not-exist"};
      const std::string& to = targets[random.below(4)];
      static_cast<void>(symlink(to.c_str(), path.c_str()) + 1);
      return fmt::format("a link to {}", to);
    }
    case 1:
      mkfifo(path.c_str(), 0600);
      return "a fifo";
    case 2: {
      std::error_code ignored;
      std::filesystem::create_directories(path + "/more", ignored);
      return "a folder";
    }
    case 3: {
      const int socket_file = socket(AF_UNIX, SOCK_STREAM, 0);
      sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
      if (path.size() < sizeof address.sun_path) {
        path.copy(address.sun_path, path.size());
        static_cast<void>(bind(socket_file, reinterpret_cast<sockaddr*>(&address), sizeof address) +
                          1);
      }
      close(socket_file);
      return "a socket";
    }
    default: {  // a line of 100 MB, or a file of 100 GB; without blocks on the disk
      write_text("{\"type\":\"view\"", std::ios::trunc);
      const off_t size = random.below(2) == 0 ? 100'000'000 : 100'000'000'000;
      static_cast<void>(truncate(path.c_str(), size) + 1);
      write_text("\n" + hostile_line(random) + "\n", std::ios::app);
      return "a huge file";
    }
  }
}

}  // namespace rubato::control
