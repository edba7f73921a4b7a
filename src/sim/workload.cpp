#include "sim/workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>

#include "base/file.h"
#include "base/text.h"
#include "sim/workload_readers.h"

namespace rubato {

namespace {

constexpr std::array<std::pair<WorkloadFormat, std::string_view>, 6> kFormatNames{
    {{WorkloadFormat::kAuto, "auto"},
     {WorkloadFormat::kPollux, "pollux"},
     {WorkloadFormat::kItp, "itp"},
     {WorkloadFormat::kPhilly, "philly"},
     {WorkloadFormat::kSia, "sia"},
     {WorkloadFormat::kNative, "native"}}};

// Removes the first line from `rest` and returns it without its end.
std::string_view take_line(std::string_view& rest) {
  const std::size_t end = rest.find('\n');
  std::string_view line = rest.substr(0, end);
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  return line;
}

// Cells that are not numbers are left for the reader to refuse.
bool has_fractional_time(std::string_view rows, std::size_t time_column) {
  while (!rows.empty()) {
    const std::string_view line = take_line(rows);
    if (line.size() > kLongestLine) return false;
    const auto cells = split(line, ',');
    if (cells.size() <= time_column) continue;
    const auto time = parse_double(cells[time_column]);
    if (time && *time != std::floor(*time)) return true;
  }
  return false;
}

Result<std::vector<WorkloadJob>> read_jobs(const std::string& path, WorkloadFormat format,
                                           const JobBuilder& builder) {
  switch (format) {
    case WorkloadFormat::kPollux:
    case WorkloadFormat::kSia:
      return read_trained_csv(path, builder);
    case WorkloadFormat::kItp:
      return read_itp_csv(path, builder);
    case WorkloadFormat::kPhilly:
      return read_philly_csv(path, builder);
    case WorkloadFormat::kNative:
    case WorkloadFormat::kAuto:
      break;
  }
  return read_native(path, builder);
}

}  // namespace

Error printable(Error error, const std::string& path) {
  const std::size_t start = error.message.starts_with(path) ? path.size() : 0;
  std::string text = error.message.substr(0, start);
  for (std::size_t i = start; i < error.message.size(); ++i) {
    const char c = error.message[i];
    if (c >= ' ' && c <= '~') {
      text += c;
    } else {
      text += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  error.message = std::move(text);
  return error;
}

std::string_view to_string(WorkloadFormat format) {
  for (const auto& [known, name] : kFormatNames) {
    if (known == format) return name;
  }
  return "?";
}

std::optional<WorkloadFormat> parse_workload_format(std::string_view text) {
  for (const auto& [format, name] : kFormatNames) {
    if (name == text) return format;
  }
  return std::nullopt;
}

bool needs_profiles(WorkloadFormat format) {
  return format != WorkloadFormat::kItp && format != WorkloadFormat::kPhilly;
}

Result<WorkloadFormat> detect_format(const std::string& path) {
  const auto text = read_file(path);
  if (!text) return text.error();
  std::string_view rest = *text;
  if (trim(rest).empty()) {
    return invalid_input(path + ":1:1: the file is empty; expected a workload");
  }
  if (trim(rest).front() == '{') return WorkloadFormat::kNative;

  const std::string_view header = take_line(rest);
  if (header.size() > kLongestLine) {
    return invalid_input(fmt::format("{}:1:1: the line has {} characters; expected at most {}",
                                     path, header.size(), kLongestLine));
  }
  const auto columns = split(header, ',');
  const auto find = [&](std::string_view name) {
    return std::find(columns.begin(), columns.end(), name);
  };
  const auto has = [&](std::string_view name) { return find(name) != columns.end(); };
  if (has("timestamp") || has("num_gpus")) return WorkloadFormat::kPhilly;
  if (has("submission_time") || has("num_gpu")) return WorkloadFormat::kItp;
  if (has("application") || has("num_replicas")) {
    const auto time = find("time");
    const bool fractional =
        time != columns.end() &&
        has_fractional_time(rest, static_cast<std::size_t>(time - columns.begin()));
    return fractional ? WorkloadFormat::kSia : WorkloadFormat::kPollux;
  }
  return invalid_input(path +
                       ":1:1: unknown workload format; expected JSON lines or a header such as "
                       "name,time,application,num_replicas,batch_size (pollux, sia) or "
                       "job_id,submission_time,duration,num_gpu (itp) or "
                       "timestamp,duration,num_gpus,gpu_time,cluster (philly)");
}

Result<Workload> read_workload(const std::string& path, const Cluster& cluster,
                               const Applications& applications, const WorkloadOptions& options) {
  if (!(options.elastic_low > 0 && options.elastic_low <= 1 && options.elastic_high >= 1 &&
        options.elastic_high <= kDeviceRange.high)) {
    return invalid_input(fmt::format("elastic range {}..{}: expected 0 < low <= 1 <= high",
                                     options.elastic_low, options.elastic_high));
  }
  Workload workload{.name = std::filesystem::path(path).stem().string(), .format = options.format};
  if (options.format == WorkloadFormat::kAuto) {
    const auto detected = detect_format(path);
    if (!detected) return printable(detected.error(), path);
    workload.format = *detected;
  }
  auto jobs = read_jobs(path, workload.format, JobBuilder(cluster, applications, options));
  if (!jobs) return printable(jobs.error(), path);
  if (jobs->empty()) return invalid_input(path + ":1:1: no jobs; expected at least one");

  workload.jobs = std::move(*jobs);
  std::stable_sort(
      workload.jobs.begin(), workload.jobs.end(),
      [](const WorkloadJob& a, const WorkloadJob& b) { return a.spec.submit_s < b.spec.submit_s; });
  for (std::size_t i = 0; i < workload.jobs.size(); ++i) workload.jobs[i].spec.id = JobId(i);
  return workload;
}

}  // namespace rubato
