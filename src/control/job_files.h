// The only way in which the daemon reads what a job can write. A job's folder belongs to a
// stranger: any file in it may be missing, huge, a link, a fifo, a folder, or change while it is
// read.
//
// No function here throws for what it finds, waits, follows a link, leaves the job's folder (not
// even into a file system mounted in it), or reads more than its limit. The code of an error says
// what happened:
//   kNotFound      there is no such file
//   kInvalidInput  it is not what it should be; the message says where, what and what was expected
//   kIo            the operating system refused for now; trying again may help
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "elastic/transport/descriptor.h"

namespace rubato::control {

// The most that is accepted of each kind of file.
inline constexpr std::int64_t kMostStatusBytes = 256 << 10;
inline constexpr std::int64_t kMostResultBytes = 256 << 10;
inline constexpr std::int64_t kMostSettingsBytes = 256 << 10;  // also of supervise.json
inline constexpr std::int64_t kMostRecordBytes = 256 << 10;    // a version of a registry's record
inline constexpr std::int64_t kMostLineBytes = 16 << 10;       // a line of events.jsonl
inline constexpr int kMostDepth = 16;                          // of nested JSON
inline constexpr std::size_t kMostText = 500;                  // of a message shown to people
inline constexpr std::size_t kMostEntries = 10'000;            // of a folder

// A regular file that was opened for reading.
struct OpenFile {
  elastic::Descriptor file;
  struct stat status {};

  std::int64_t size() const { return status.st_size; }
  // At most `most` bytes from `offset` on; fewer if the file is shorter (now).
  std::string read(std::int64_t offset, std::int64_t most) const;
};

// Opens FOLDER/NAME. `name` may contain one folder: "registry/view.3".
Result<OpenFile> open_job_file(const std::string& folder, const std::string& name);
// The whole file; refused if it is larger than `most`.
Result<std::string> read_job_file(const std::string& folder, const std::string& name,
                                  std::int64_t most);
// The file as a JSON object.
Result<nlohmann::json> read_job_object(const std::string& folder, const std::string& name,
                                       std::int64_t most);
// Its last line that is not empty, as plain_text(); "" if it cannot be read.
std::string last_line_of(const std::string& folder, const std::string& name);
// Names in FOLDER/NAME, at most kMostEntries, in order; none if it is not a folder.
std::vector<std::string> list_job_folder(const std::string& folder, const std::string& name);
// Whether FOLDER/NAME exists and is a regular file.
bool is_job_file(const std::string& folder, const std::string& name);
// Opens FOLDER/NAME as a folder, for calls like linkat().
Result<elastic::Descriptor> open_job_folder(const std::string& folder, const std::string& name);
// If FOLDER/NAME exists and is not a regular file, moves it aside, so that a new file can be
// written without following a link or waiting for the reader of a fifo.
void clear_way(const std::string& folder, const std::string& name);

// Like parse_json(), but refuses (a discarded value) what is nested deeper than `most_depth`,
// before anything is built.
nlohmann::json parse_untrusted(std::string_view text, int most_depth = kMostDepth);

// Text of a stranger that can be shown and stored: UTF-8 without control characters except the line
// feed (others become '?'), shortened to `most` bytes.
std::string plain_text(std::string_view text, std::size_t most = kMostText);

}  // namespace rubato::control
