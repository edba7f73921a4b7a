// Arrays: many jobs submitted with one document (`array: 0-99%10`). They have consecutive numbers,
// and each is a job of its own, named NAME[INDEX]. All are accepted in one transaction or none.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "control/document_node.h"
#include "control/state.h"

namespace rubato::control {

inline constexpr int kLargestArray = 1000;  // jobs

// "0-99", "0-99%10"
Result<ArrayRange> parse_array(std::string_view text);
std::string array_text(const ArrayRange& range);

// The jobs of a submitted document with an array, the first of which has the number `first`; the
// error says what of the document does not allow that. A document without an array is one job
// without a place.
struct NewJob {
  JobDocument document;
  ArrayPlace place{};
};
Status check_array(const JobDocument& document);
std::vector<NewJob> jobs_of(const JobDocument& document, JobNumber first);

// What `sweep`, `sweep[]`, `sweep[3]` and `j5[3]` mean among arrays.
struct ArrayName {
  std::string name{};          // of the array, or the id of its first job
  std::optional<int> index{};  // empty: all
};
ArrayName parse_array_name(std::string_view text);
bool is_named(const ArrayPlace& place, const ArrayName& name);

// Which jobs of arrays with a limit may run. A job that has a turn keeps it until it leaves.
class ArrayTurns {
 public:
  // At the start: turns go to jobs that hold devices, then to those that did, then in order.
  void begin(std::span<const JobRecord* const> jobs);
  // Whether the job may run now; if not, it waits for a turn. Always true without a limit.
  bool join(const JobRecord& job);
  // The job has ended or is paused. Returns the job whose turn comes with that.
  std::optional<JobNumber> leave(JobNumber job);

 private:
  struct Array {
    std::set<JobNumber> turns{};
    std::set<JobNumber> waiting{};
  };
  std::map<JobNumber, Array> arrays_;          // by their first job
  std::map<JobNumber, JobNumber> array_of_{};  // of their jobs
};

// The field `array` of a job document (job_fields.h).
Status read_array(const DocumentNode& node, JobDocument& document);
nlohmann::json write_array(const JobDocument& document);
nlohmann::json array_schema();

}  // namespace rubato::control
