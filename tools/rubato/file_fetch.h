// Fetches files of a job from the daemon into a folder. A file appears under its name when it is
// complete, never before; what a stopped command leaves is at most a file .rubato-*. Names come
// from a job, so they are checked: nothing is written outside the folder.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "client.h"

namespace rubato::cli {

struct RemoteFile {
  std::string path;   // of the job: "outputs/model/weights.bin"
  std::string local;  // relative to the folder: "model/weights.bin"
  std::int64_t size = 0;
  bool executable = false;
};

struct RemoteTree {
  std::vector<RemoteFile> files{};
  std::vector<std::string> folders{};   // relative to the folder, parents first
  std::vector<std::string> left_out{};  // "latest: a link", for people
};

class FileFetch {
 public:
  // `job` is an id.
  FileFetch(const ServerChoice& server, std::string job) : server_(server), job_(std::move(job)) {}

  // All pages of a list: "path", "kind" and "entries" of the API, and how many were "unnamed".
  Result<nlohmann::json> list(const std::string& path);
  // Everything to fetch for `path`. The contents of a folder come below its name, those of the
  // outputs themselves without.
  Result<RemoteTree> find(const std::string& path);
  // Creates the folders and fetches the files. If the connection breaks, it goes on where it was.
  Status fetch(const RemoteTree& tree, const std::string& folder);

 private:
  Status connect();
  Status add_folder(const std::string& path, const std::string& local, RemoteTree& tree);
  Status fetch_one(const RemoteFile& file, const std::string& folder);
  void show(const std::string& name);

  const ServerChoice& server_;
  const std::string job_;
  std::optional<Client> client_{};
  std::int64_t total_bytes_ = 0;
  std::int64_t bytes_ = 0;
  std::chrono::steady_clock::time_point drawn_{};
};

// "12 B", "3.4 MB"
std::string bytes_text(std::int64_t bytes);
// Without control characters: it may be a name that a job chose.
std::string shown_name(const std::string& name);

}  // namespace rubato::cli
