// Output helpers of the commands: tables within 100 columns, durations, colours if wanted.
#pragma once

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace rubato::cli {

// "42s", "3m12s", "2h05m", "4d03h"; "-" for negative values.
std::string duration_text(double seconds);
// Local time: "10:42:07" within 18 hours of now, "Nov 15 10:42" otherwise.
std::string time_text(double unix_seconds);
double unix_now();

// True for a terminal, unless NO_COLOR is set.
bool wants_color(std::FILE* file);

class Table {
 public:
  struct Column {
    std::string title;
    std::size_t widest = 20;  // longer texts are truncated
    bool right = false;
  };
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  void row(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }
  // Columns as wide as needed; the last one is not padded.
  std::string text() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// A table of the jobs in an API response: ID NAME TENANT STATE DEVICES AGE ETA REASON.
Table job_table(const nlohmann::json& jobs, double now);
// "2/1-8": current, minimum and maximum number of devices.
std::string devices_text(const nlohmann::json& job);
// "gpu1 (4), gpu2 (2)": nodes with the number of their devices.
std::string nodes_text(const nlohmann::json& nodes);
// "-" when it is not known.
std::string eta_text(const nlohmann::json& job);
// "stalled for 50s"; empty for a job that makes progress.
std::string stall_text(const nlohmann::json& job, double now);

// "4 cpu devices: 3 allocated, 3 held, 2 training, 0 reserved; 5 jobs queued; policy rubato"
std::string cluster_line(const nlohmann::json& cluster);

void print_json(const nlohmann::json& value);
// Suggests the next commands on standard error.
void print_next(const std::vector<std::string>& commands);

}  // namespace rubato::cli
