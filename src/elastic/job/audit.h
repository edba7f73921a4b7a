// Checks that the promise of equal bits holds while a job trains: that its program computes the
// same from the same, on every worker.
//
// In some steps, before they compute, all workers hash their shared state and compute the same
// mini-batch, that of a logical worker chosen at random, twice. Nothing of it is used. Each writes
// what came out to DIR/audit; after the step the leader compares it and writes an event `audit`. If
// something differs, the message names the first tensor and the likely cause.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "elastic/job/job_folder.h"
#include "elastic/worker/program.h"

namespace rubato::elastic {

// RUBATO_AUDIT in a worker's environment: audits every so many steps, and in some of the first; 0:
// only on demand. That is also the default of a worker without a launcher: nobody joins it, and who
// counts mini-batches should see no more than there are.
inline constexpr const char* kAuditVariable = "RUBATO_AUDIT";
inline constexpr std::int64_t kAuditEvery = 1000;

struct AuditRecord {
  std::int64_t step = 0;
  std::int64_t view = 0;
  int worker = -1;
  int logical = -1;                    // whose mini-batch was computed; -1: none was
  std::vector<std::uint32_t> units{};  // hashes of the shared state
  struct Pass {
    std::vector<std::uint32_t> gradient{};  // by parts
    std::uint32_t loss = 0;
    std::uint32_t private_state = 0;
    std::map<std::string, std::uint32_t> witness{};
    friend bool operator==(const Pass&, const Pass&) = default;
  };
  std::vector<Pass> passes{};
  std::string suspicion{};  // of the program
};

nlohmann::json to_json(const AuditRecord& record);
Result<AuditRecord> parse_audit_record(const nlohmann::json& value);

// How to name what differs.
struct AuditNames {
  std::vector<std::string> units;
  std::vector<std::string> gradient;
};
AuditNames audit_names(const Program& program);

// Why the records of the workers of one step cannot come from a program that keeps its promises;
// empty if nothing differs.
std::string audit_problem(std::span<const AuditRecord> records, const AuditNames& names);

// The records of workers, as files.
class AuditFolder {
 public:
  explicit AuditFolder(const JobFolder& folder) : path_(folder.path() + "/audit") {}
  Status write(const AuditRecord& record) const;
  // Those of the given workers in this step and view; nothing while some are missing.
  std::optional<std::vector<AuditRecord>> read(std::int64_t step, std::int64_t view,
                                               std::span<const int> workers) const;
  void remove_until(std::int64_t step) const;

 private:
  std::string file(std::int64_t step, int worker) const;
  std::string path_;
};

// The steps in which a job is audited without being asked.
bool audit_due(std::int64_t step, std::int64_t every);
Result<std::int64_t> audit_every_of_environment(bool launched);

}  // namespace rubato::elastic
