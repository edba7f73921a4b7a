// The small consistent store of a job: named, versioned records. Each new version is decided by
// compare-and-swap.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/result.h"

namespace rubato::elastic {

struct Record {
  std::int64_t version = 0;  // 1, 2, ...; 0: the record does not exist
  std::string value;
};

// Tells of changes as long as it lives; see Registry::watch().
class RegistryWatch {
 public:
  virtual ~RegistryWatch() = default;
};

class Registry {
 public:
  Registry() = default;
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;
  virtual ~Registry() = default;

  // The newest version; version 0 if the record was never written.
  virtual Result<Record> get(const std::string& name) = 0;
  // Writes version expected + 1 if and only if `expected` is the newest. False: another version
  // won, or `expected` is not visible here yet. Of concurrent calls with the same `expected`,
  // exactly one returns true. After an error it may have been written or not, but for kRefused: it
  // was not.
  virtual Result<bool> compare_and_swap(const std::string& name, std::int64_t expected,
                                        const std::string& value) = 0;
  // A given version; nothing if it was never written, or is not visible here yet: storage that
  // several machines share may show it late. Whoever knows that it exists asks again.
  virtual Result<std::optional<std::string>> at(const std::string& name, std::int64_t version) = 0;

  // --- For those who want to hear of changes ---
  // Calls `changed`, in a thread of its own, soon after a record has a new version. This is a hint:
  // it may come late, too often, and not at all while the storage cannot be reached. So whoever
  // waits for a change looks each time, and also every look_interval(). Null: there are no hints.
  // NOLINTNEXTLINE(performance-unnecessary-value-param): registries that have hints keep it
  virtual std::unique_ptr<RegistryWatch> watch(std::function<void()> /*changed*/) {
    return nullptr;
  }
  // How often to look, besides looking when the watch says so.
  virtual std::chrono::milliseconds look_interval() const { return std::chrono::milliseconds(30); }
  // Whether errors of the kinds kIo and kRefused may be over by themselves, as those of a server
  // that is restarted. A job waits for that.
  virtual bool may_be_away() const { return false; }
};

// A name for a file that will become a record. No other process on any machine chooses the same.
std::string registry_draft_name();

// A registry in a folder that all workers see: version v of record n is the file n.v, published by
// link(2), which fails if the name exists. There are no locks and no server, so a process killed or
// stopped at any point blocks nobody. Old versions stay: they are the job's history.
//
// The folder may be on NFS. A client there remembers which names did not exist until it asks the
// server for the folder again, so every look for something new opens the folder first, at most
// every 20 ms. A link that was made may be reported as EEXIST if the answer got lost; the link
// count of the draft tells.
class FileRegistry final : public Registry {
 public:
  // Creates the folder if it is missing.
  static Result<std::unique_ptr<FileRegistry>> open(const std::string& folder);
  // Creates nothing. In a folder that does not exist, nothing can be found or written.
  explicit FileRegistry(std::string folder) : folder_(std::move(folder)) {}

  Result<Record> get(const std::string& name) override;
  Result<bool> compare_and_swap(const std::string& name, std::int64_t expected,
                                const std::string& value) override;
  Result<std::optional<std::string>> at(const std::string& name, std::int64_t version) override;

 private:
  std::string path(const std::string& name, std::int64_t version) const;
  std::int64_t newest(const std::string& name) const;
  void refresh() const;

  std::string folder_;
  mutable std::atomic<std::int64_t> refreshed_{0};  // when, on the steady clock
};

}  // namespace rubato::elastic
