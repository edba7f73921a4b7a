// The comma-separated formats: pollux and sia (applications), itp and philly (recorded durations).
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <unordered_map>

#include "base/names.h"
#include "base/text.h"
#include "sim/workload_readers.h"

namespace rubato {

namespace {

// The names seen so far; refuses a second job with the same name.
class UniqueNames {
 public:
  UniqueNames(const CsvTable& table, int column) : table_(table), column_(column) {
    row_of_.reserve(table.rows());
  }

  // The name in this row, if it is valid and new.
  Result<std::string> take(std::size_t row) {
    const std::string_view name = table_.cell(row, column_);
    if (const auto problem = name_problem(name); !problem.empty()) {
      return table_.error_at(row, column_, std::string(problem));
    }
    const auto [first, fresh] = row_of_.emplace(name, row);
    if (!fresh) {
      return table_.error_at(row, column_,
                             fmt::format("duplicate of the job at {}; expected a unique name",
                                         table_.where(first->second, column_)));
    }
    return std::string(name);
  }

 private:
  const CsvTable& table_;
  int column_;
  std::unordered_map<std::string_view, std::size_t> row_of_;
};

// "YYYY-MM-DD HH:MM:SS" in seconds since 1970, without time zones.
std::optional<std::int64_t> parse_timestamp(std::string_view text) {
  constexpr std::string_view kPattern = "dddd-dd-dd dd:dd:dd";
  if (text.size() != kPattern.size()) return std::nullopt;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool digit = text[i] >= '0' && text[i] <= '9';
    if (kPattern[i] == 'd' ? !digit : text[i] != kPattern[i]) return std::nullopt;
  }
  const auto number = [&](std::size_t begin, std::size_t digits) {
    int value = 0;
    for (const char c : text.substr(begin, digits)) value = value * 10 + (c - '0');
    return value;
  };
  const std::chrono::year_month_day date{std::chrono::year(number(0, 4)),
                                         std::chrono::month(static_cast<unsigned>(number(5, 2))),
                                         std::chrono::day(static_cast<unsigned>(number(8, 2)))};
  const int hour = number(11, 2);
  const int minute = number(14, 2);
  const int second = number(17, 2);
  // These years keep differences below kTimeRange.high.
  if (!date.ok() || int(date.year()) < 1970 || int(date.year()) > 2200 || hour > 23 ||
      minute > 59 || second > 59) {
    return std::nullopt;
  }
  const std::int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
  return ((days * 24 + hour) * 60 + minute) * 60 + second;
}

// Reads the size and the duration of a job with a recorded duration.
std::optional<Error> read_recorded(const CsvTable& table, std::size_t row, int duration_column,
                                   int devices_column, const JobBuilder& builder,
                                   WorkloadJob& job) {
  const auto duration = table.number(row, duration_column, kDurationRange);
  if (!duration) return duration.error();
  const auto devices = table.integer(row, devices_column, kDeviceRange);
  if (!devices) return devices.error();
  const auto problem = builder.build(
      {.duration_s = *duration, .requested_devices = static_cast<int>(*devices)}, job);
  if (problem) return table.error_at(row, devices_column, problem->text);
  return std::nullopt;
}

}  // namespace

Result<std::vector<WorkloadJob>> read_trained_csv(const std::string& path,
                                                  const JobBuilder& builder) {
  const auto table =
      CsvTable::read(path, {"name", "time", "application", "num_replicas", "batch_size"});
  if (!table) return table.error();
  const int name_column = table->column("name");
  const int time_column = table->column("time");
  const int application_column = table->column("application");
  const int devices_column = table->column("num_replicas");
  const int batch_column = table->column("batch_size");
  UniqueNames names(*table, name_column);

  std::vector<WorkloadJob> jobs(table->rows());
  for (std::size_t row = 0; row < jobs.size(); ++row) {
    WorkloadJob& job = jobs[row];
    auto name = names.take(row);
    if (!name) return name.error();
    job.spec.name = std::move(*name);
    const auto time = table->number(row, time_column, kTimeRange);
    if (!time) return time.error();
    job.spec.submit_s = *time;
    const auto devices = table->integer(row, devices_column, kDeviceRange);
    if (!devices) return devices.error();
    const auto batch = table->integer(row, batch_column, kBatchRange);
    if (!batch) return batch.error();
    const std::string_view application = table->cell(row, application_column);
    if (application.empty()) {
      return table->error_at(row, application_column, "expected the name of an application");
    }
    const auto problem = builder.build({.application = application,
                                        .requested_devices = static_cast<int>(*devices),
                                        .batch = *batch},
                                       job);
    if (!problem) continue;
    const bool of_devices = problem->field == JobProblem::Field::kDevices;
    const bool of_batch = problem->field == JobProblem::Field::kBatch;
    return table->error_at(
        row, of_devices ? devices_column : (of_batch ? batch_column : application_column),
        problem->text);
  }
  return jobs;
}

Result<std::vector<WorkloadJob>> read_itp_csv(const std::string& path, const JobBuilder& builder) {
  const auto table = CsvTable::read(path, {"job_id", "submission_time", "duration", "num_gpu"});
  if (!table) return table.error();
  const int time_column = table->column("submission_time");
  const int duration_column = table->column("duration");
  const int devices_column = table->column("num_gpu");
  UniqueNames names(*table, table->column("job_id"));

  std::vector<WorkloadJob> jobs(table->rows());
  for (std::size_t row = 0; row < jobs.size(); ++row) {
    WorkloadJob& job = jobs[row];
    auto name = names.take(row);
    if (!name) return name.error();
    job.spec.name = std::move(*name);
    const auto time = table->number(row, time_column, kTimeRange);
    if (!time) return time.error();
    job.spec.submit_s = *time;
    if (auto error = read_recorded(*table, row, duration_column, devices_column, builder, job)) {
      return std::move(*error);
    }
  }
  return jobs;
}

Result<std::vector<WorkloadJob>> read_philly_csv(const std::string& path,
                                                 const JobBuilder& builder) {
  const auto table = CsvTable::read(path, {"timestamp", "duration", "num_gpus", "cluster"});
  if (!table) return table.error();
  const int time_column = table->column("timestamp");
  const int duration_column = table->column("duration");
  const int devices_column = table->column("num_gpus");
  const int tenant_column = table->column("cluster");

  std::vector<WorkloadJob> jobs(table->rows());
  std::vector<std::int64_t> times(jobs.size());
  for (std::size_t row = 0; row < jobs.size(); ++row) {
    WorkloadJob& job = jobs[row];
    const auto time = parse_timestamp(table->cell(row, time_column));
    if (!time) {
      return table->error_at(row, time_column,
                             "expected a time YYYY-MM-DD HH:MM:SS from 1970 to 2200");
    }
    times[row] = *time;
    if (auto error = read_recorded(*table, row, duration_column, devices_column, builder, job)) {
      return std::move(*error);
    }
    const std::string_view tenant = table->cell(row, tenant_column);
    if (const auto problem = name_problem(tenant); !problem.empty()) {
      return table->error_at(row, tenant_column, std::string(problem));
    }
    job.spec.tenant = tenant;
    job.spec.name = fmt::format("philly-{}", row);
  }
  if (jobs.empty()) return jobs;
  const std::int64_t first = *std::min_element(times.begin(), times.end());
  for (std::size_t row = 0; row < jobs.size(); ++row) {
    jobs[row].spec.submit_s = static_cast<double>(times[row] - first);
  }
  return jobs;
}

}  // namespace rubato
