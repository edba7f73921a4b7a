#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "sim/report.h"
#include "sim/report_parts.h"

namespace rubato {

namespace {

constexpr std::size_t kTableColumns = 100;

constexpr std::array kHeads = {"JOBS",    "DROPPED", "MEAN-JCT", "RATIO", "P50",
                               "P99",     "QUEUE",   "MAKESPAN", "ALLOC", "USEFUL",
                               "RESIZES", "FAIR",    "DECISION"};
constexpr std::size_t kDropped = 1;  // shown only if a job was turned away
using Cells = std::array<std::string, kHeads.size()>;
// Columns (indices of kHeads) to drop, in this order, if the table would become too wide.
constexpr std::array<std::size_t, 4> kExpendable = {4, 11, 7, 10};

struct Row {
  std::string label;
  Cells cells;
};

std::string percent(double ratio) { return fmt::format("{:.1f}%", 100 * ratio); }

std::string ratio(double value, double reference) {
  if (!(value > 0) || !(reference > 0)) return "-";
  const double quotient = value / reference;
  if (quotient < 99.995) return fmt::format("{:.2f}x", quotient);
  return quotient < 1e6 ? fmt::format("{:.0f}x", quotient) : fmt::format("{:.0e}x", quotient);
}

std::string job_count(const SimSummary& run) {
  if (run.jobs_finished == run.jobs) return fmt::format("{}", run.jobs);
  return fmt::format("{}/{}", run.jobs_finished, run.jobs);
}

std::string rho(double fairness) {
  return fairness < 99.995 ? fmt::format("{:.2f}", fairness) : fmt::format("{:.3g}", fairness);
}

Row table_row(const RunGroup& group, std::size_t index, bool best) {
  const SimSummary& run = group.runs[index]->summary;
  const bool any = run.jobs_finished > 0;
  const auto duration = [&](Seconds seconds) { return any ? human_duration(seconds) : "-"; };
  return {printable(group.labels[index]),
          {job_count(run), run.jobs_dropped > 0 ? fmt::format("{}", run.jobs_dropped) : "",
           duration(run.mean_jct_s) + (best ? "*" : " "),
           ratio(run.mean_jct_s, group.runs.front()->summary.mean_jct_s), duration(run.p50_jct_s),
           duration(run.p99_jct_s), human_duration(run.mean_queue_s), duration(run.makespan_s),
           percent(run.allocated_ratio), percent(run.useful_ratio), fmt::format("{}", run.resizes),
           any ? rho(run.mean_fairness) : "-", human_milliseconds(run.decisions.total_ms_mean)}};
}

// Which columns are shown, and their widths.
struct Layout {
  std::size_t label_width = 0;
  std::array<std::size_t, kHeads.size()> widths{};  // 0: not shown
};

Layout fit_columns(const std::vector<Row>& rows, std::size_t indent) {
  Layout layout;
  layout.label_width = std::string_view("POLICY").size();
  for (std::size_t c = 0; c < kHeads.size(); ++c) {
    layout.widths[c] = std::string_view(kHeads[c]).size();
  }
  for (const Row& row : rows) {
    layout.label_width = std::max(layout.label_width, code_points(row.label) + indent);
    for (std::size_t c = 0; c < kHeads.size(); ++c) {
      layout.widths[c] = std::max(layout.widths[c], row.cells[c].size());
    }
  }
  if (std::all_of(rows.begin(), rows.end(),
                  [](const Row& row) { return row.cells[kDropped].empty(); })) {
    layout.widths[kDropped] = 0;
  }
  const auto used = [&] {
    std::size_t sum = 0;
    for (const std::size_t width : layout.widths) sum += width == 0 ? 0 : width + 1;
    return sum;
  };
  const std::size_t wanted = std::min(layout.label_width, kLongestLabel);
  for (const std::size_t column : kExpendable) {
    if (used() + wanted <= kTableColumns) break;
    layout.widths[column] = 0;
  }
  layout.label_width =
      std::min(layout.label_width, kTableColumns - std::min(used(), kTableColumns));
  return layout;
}

std::string line(const Layout& layout, std::string_view label, const auto& cells) {
  std::string text = fit_left(label, layout.label_width);
  for (std::size_t c = 0; c < kHeads.size(); ++c) {
    if (layout.widths[c] == 0) continue;
    text += ' ';
    text += fit_right(cells[c], layout.widths[c]);
  }
  return text + '\n';
}

}  // namespace

std::string text_table(std::span<const SimResult> runs) {
  const std::vector<RunGroup> groups = group_runs(runs);
  if (groups.empty()) return "no runs\n";
  const std::size_t indent = groups.size() > 1 ? 2 : 0;

  std::vector<Row> rows;
  bool marked = false;
  for (const RunGroup& group : groups) {
    const auto best = group.runs.size() > 1 ? best_run(group) : std::nullopt;
    marked = marked || best.has_value();
    for (std::size_t i = 0; i < group.runs.size(); ++i) {
      rows.push_back(table_row(group, i, best == i));
    }
  }

  const Layout layout = fit_columns(rows, indent);
  std::string text = line(layout, "POLICY", kHeads);
  auto row = rows.begin();
  for (const RunGroup& group : groups) {
    if (groups.size() > 1) {
      const std::string title = printable(group.title);
      text += fit_left(title, std::min(code_points(title), kTableColumns)) + '\n';
    }
    for (std::size_t i = 0; i < group.runs.size(); ++i, ++row) {
      text += line(layout, std::string(indent, ' ') + row->label, row->cells);
    }
  }
  if (marked) text += "* lowest mean JCT; RATIO is the mean JCT relative to the first policy's\n";
  return text;
}

}  // namespace rubato
