#include "output.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <ctime>

#include "base/json_text.h"
#include "base/text.h"

namespace rubato::cli {

using nlohmann::json;

std::string duration_text(double seconds) {
  if (!(seconds >= 0) || seconds > 1e10) return "-";
  const auto s = static_cast<long long>(std::llround(seconds));
  if (s < 60) return fmt::format("{}s", s);
  if (s < 3600) return fmt::format("{}m{:02}s", s / 60, s % 60);
  if (s < 86'400) return fmt::format("{}h{:02}m", s / 3600, s / 60 % 60);
  return fmt::format("{}d{:02}h", s / 86'400, s / 3600 % 24);
}

double unix_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string time_text(double unix_seconds) {
  const auto time = static_cast<std::time_t>(unix_seconds);
  const bool recent = std::abs(unix_now() - unix_seconds) < 18 * 3600;
  return recent ? fmt::format("{:%H:%M:%S}", fmt::localtime(time))
                : fmt::format("{:%b %d %H:%M}", fmt::localtime(time));
}

bool wants_color(std::FILE* file) {
  const char* no = std::getenv("NO_COLOR");
  return isatty(fileno(file)) == 1 && (no == nullptr || *no == '\0');
}

void Table::row(std::vector<std::string> cells) {
  for (std::size_t i = 0; i < cells.size(); ++i) {
    std::string& cell = cells[i];
    for (char& c : cell) {
      if (static_cast<unsigned char>(c) < 0x20) c = ' ';  // no name may move the cursor
    }
    if (cell.size() > columns_[i].widest) {
      cell.resize(columns_[i].widest - 1);
      cell += '~';
    }
  }
  rows_.push_back(std::move(cells));
}

std::string Table::text() const {
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    std::size_t width = columns_[i].title.size();
    for (const auto& row : rows_) width = std::max(width, row[i].size());
    widths.push_back(width);
  }
  std::string out;
  const auto line = [&](const auto& cell_of) {
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const std::string& cell = cell_of(i);
      if (i + 1 == columns_.size()) {
        out += cell;
      } else if (columns_[i].right) {
        out += fmt::format("{:>{}} ", cell, widths[i]);
      } else {
        out += fmt::format("{:<{}} ", cell, widths[i]);
      }
    }
    while (out.ends_with(' ')) out.pop_back();
    out += '\n';
  };
  line([&](std::size_t i) -> const std::string& { return columns_[i].title; });
  for (const auto& row : rows_) line([&](std::size_t i) -> const std::string& { return row[i]; });
  return out;
}

std::string devices_text(const json& job) {
  const int low = job.value("min_devices", 0);
  const int high = job.value("max_devices", 0);
  const std::string range = low == high ? std::to_string(low) : fmt::format("{}-{}", low, high);
  return fmt::format("{}/{}{}", job.value("granted", 0), range,
                     job.value("scale", 0) > 0 ? " pinned" : "");
}

std::string nodes_text(const json& nodes) {
  std::vector<std::string> parts;
  for (const json& part : nodes) {
    parts.push_back(fmt::format("{} ({})", part.value("node", ""), part.value("devices", 0)));
  }
  return join(parts, ", ");
}

std::string eta_text(const json& job) {
  const json progress = job.value("progress", json::object());
  if (!progress.contains("eta_s") || !progress["eta_s"].is_number()) return "-";
  const double seconds = progress["eta_s"].get<double>();
  return seconds < 1 ? "<1s" : duration_text(seconds);
}

std::string stall_text(const json& job, double now) {
  const double since = job.value("stalled_since", 0.0);
  return since > 0 ? "stalled for " + duration_text(std::max(0.0, now - since)) : "";
}

Table job_table(const json& jobs, double now) {
  Table table({{"ID", 9},
               {"NAME", 20},
               {"TENANT", 12},
               {"STATE", 9},
               {"DEVICES", 14},
               {"AGE", 7, true},
               {"ETA", 7, true},
               {"REASON", 22}});
  for (const json& job : jobs) {
    const double ended = job.value("ended_at", 0.0);
    const double age = (ended > 0 ? ended : now) - job.value("submitted_at", now);
    std::string reason = stall_text(job, now);
    if (reason.empty()) reason = job.value("reason", "");
    table.row({job.value("id", ""), job.value("name", ""), job.value("tenant", ""),
               job.value("phase", ""), devices_text(job), duration_text(std::max(0.0, age)),
               eta_text(job), std::move(reason)});
  }
  return table;
}

std::string cluster_line(const json& c) {
  return fmt::format(
      "{} {} devices: {} allocated, {} held, {:.0f} training, {} reserved; {} jobs queued; policy "
      "{}",
      c.value("devices", 0), c.value("device_type", ""), c.value("allocated", 0),
      c.value("held", 0), c.value("training", 0.0), c.value("reserved", 0), c.value("queued", 0),
      c.value("policy", ""));
}

void print_json(const json& value) { fmt::print("{}\n", indented_json(value)); }

void print_next(const std::vector<std::string>& commands) {
  fmt::print(stderr, "next: {}\n", fmt::join(commands, "  |  "));
}

}  // namespace rubato::cli
