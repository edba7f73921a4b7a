#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "sim/report.h"
#include "sim/report_parts.h"

namespace rubato {

namespace {

constexpr std::size_t kNarrowest = 40;

struct TimeAxis {
  Seconds begin_s = 0;
  Seconds end_s = 0;
  std::size_t columns = 0;
};

TimeAxis shared_axis(const RunGroup& group, std::size_t columns) {
  TimeAxis axis{.columns = columns};
  bool first = true;
  for (const SimResult* run : group.runs) {
    if (run->timeline.empty()) continue;
    const Seconds begin_s = run->timeline.front().time_s;
    const Seconds end_s = run->timeline.back().time_s;
    axis.begin_s = first ? begin_s : std::min(axis.begin_s, begin_s);
    axis.end_s = first ? end_s : std::max(axis.end_s, end_s);
    first = false;
  }
  return axis;
}

std::string_view block(double value, double full) {
  constexpr std::array<std::string_view, 9> kBlocks = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  if (!(value > 0) || !(full > 0)) return kBlocks[0];
  // Rounded up: a single busy device in a large cluster must stay visible.
  const auto level = static_cast<std::size_t>(std::ceil(8 * value / full - 1e-9));
  return kBlocks[std::clamp<std::size_t>(level, 1, 8)];
}

// Times at the left end, in the middle and at the right end, measured from the start of the plot.
std::string axis_line(const TimeAxis& axis, std::size_t label_width) {
  const Seconds length_s = axis.end_s - axis.begin_s;
  const std::string middle = human_duration(length_s / 2);
  const std::string end = human_duration(length_s);
  std::string text(label_width + 1, ' ');
  text += fit_left("0", axis.columns / 2 - middle.size() / 2);
  text += middle;
  return text + fit_right(end, label_width + 1 + axis.columns - text.size()) + '\n';
}

using Buckets = std::vector<TimelineBucket>;

std::string rows(const RunGroup& group, const std::vector<Buckets>& curves, std::size_t label_width,
                 double TimelineBucket::*value, double full) {
  std::string text;
  for (std::size_t i = 0; i < curves.size(); ++i) {
    text += fit_left(printable(group.labels[i]), label_width) + ' ';
    for (const TimelineBucket& bucket : curves[i]) text += block(bucket.*value, full);
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
  }
  return text;
}

std::string plot_group(const RunGroup& group, std::size_t columns) {
  std::size_t label_width = 0;
  for (const std::string& label : group.labels) {
    label_width = std::max(label_width, code_points(printable(label)));
  }
  label_width = std::min({label_width, kLongestLabel, columns / 3});
  const TimeAxis axis = shared_axis(group, columns - label_width - 1);
  if (!(axis.end_s > axis.begin_s)) return "nothing to plot: the runs have no timeline\n";

  std::vector<Buckets> curves;
  int most_usable = 0;
  double most_waiting = 0;
  for (const SimResult* run : group.runs) {
    curves.push_back(bucket_timeline(run->timeline, axis.begin_s, axis.end_s, axis.columns));
    for (const TimelinePoint& point : run->timeline) {
      most_usable = std::max({most_usable, point.usable, point.allocated});
    }
    for (const TimelineBucket& bucket : curves.back()) {
      most_waiting = std::max(most_waiting, bucket.waiting);
    }
  }
  const std::string times = axis_line(axis, label_width);
  std::string text = fmt::format("allocated devices (█ = {})\n", most_usable);
  text += rows(group, curves, label_width, &TimelineBucket::allocated, most_usable) + times;
  text += fmt::format("waiting jobs (█ = {:.3g})\n", most_waiting);
  text += rows(group, curves, label_width, &TimelineBucket::waiting, most_waiting) + times;
  return text;
}

}  // namespace

std::string text_plot(std::span<const SimResult> runs, int columns) {
  const std::size_t width = std::max(kNarrowest, static_cast<std::size_t>(std::max(columns, 0)));
  const std::vector<RunGroup> groups = group_runs(runs);
  if (groups.empty()) return "no runs\n";
  std::string text;
  for (const RunGroup& group : groups) {
    if (groups.size() > 1) {
      const std::string title = printable(group.title);
      if (!text.empty()) text += '\n';
      text += fit_left(title, std::min(code_points(title), width)) + '\n';
    }
    text += plot_group(group, width);
  }
  return text;
}

}  // namespace rubato
