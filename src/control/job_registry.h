// A job's registry (elastic/job/registry.h) as the daemon uses it: the same files, but read and
// written as those of a stranger (job_files.h). A record that is no bounded JSON or does not match
// its table (job_schemas.h) is refused with kInvalidInput. No call waits or follows a link.
#pragma once

#include <memory>
#include <string>

#include "elastic/job/registry.h"

namespace rubato::control {

class JobRegistry final : public elastic::Registry {
 public:
  // The registry of this job's folder, which must exist; create() makes its folder.
  explicit JobRegistry(std::string folder) : folder_(std::move(folder)) {}
  static Result<std::unique_ptr<JobRegistry>> create(const std::string& folder);

  Result<elastic::Record> get(const std::string& name) override;
  Result<bool> compare_and_swap(const std::string& name, std::int64_t expected,
                                const std::string& value) override;
  Result<std::optional<std::string>> at(const std::string& name, std::int64_t version) override;

 private:
  Result<std::string> read(const std::string& name, std::int64_t version) const;

  std::string folder_;  // of the job
};

}  // namespace rubato::control
