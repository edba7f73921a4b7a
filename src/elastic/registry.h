// The small consistent store of a job: named, versioned records. Each new version is decided by
// compare-and-swap.
#pragma once

#include <cstdint>
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

class Registry {
 public:
  Registry() = default;
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;
  virtual ~Registry() = default;

  // The newest version; version 0 if the record was never written.
  virtual Result<Record> get(const std::string& name) = 0;
  // Writes version expected + 1 if and only if `expected` is the newest. False: another version
  // won. Of concurrent calls with the same `expected`, exactly one returns true.
  virtual Result<bool> compare_and_swap(const std::string& name, std::int64_t expected,
                                        const std::string& value) = 0;
  // A given version; nothing if it was never written.
  virtual Result<std::optional<std::string>> at(const std::string& name, std::int64_t version) = 0;
};

// A registry in a folder that all workers see: version v of record n is the file n.v, published by
// link(2), which fails if the name exists. There are no locks and no server, so a process killed or
// stopped at any point blocks nobody. Old versions stay: they are the job's history.
class FileRegistry final : public Registry {
 public:
  // Creates the folder if it is missing.
  static Result<std::unique_ptr<FileRegistry>> open(const std::string& folder);

  Result<Record> get(const std::string& name) override;
  Result<bool> compare_and_swap(const std::string& name, std::int64_t expected,
                                const std::string& value) override;
  Result<std::optional<std::string>> at(const std::string& name, std::int64_t version) override;

 private:
  explicit FileRegistry(std::string folder) : folder_(std::move(folder)) {}
  std::string path(const std::string& name, std::int64_t version) const;
  std::int64_t newest(const std::string& name) const;

  std::string folder_;
};

}  // namespace rubato::elastic
