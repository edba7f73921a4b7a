#include "demo/picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace rubato::demo {

namespace {

constexpr double kWidth = 900;
constexpr double kLeft = 66;
constexpr double kRight = 886;
constexpr double kRowHeight = 26;
constexpr double kBarHeight = 22;
constexpr double kArrivals = 24;     // height of the strip with the arrivals
constexpr double kWaitHeight = 4;    // of a waiting job's line
constexpr double kLetterWidth = 13;  // a bar that is narrower goes without its letter
constexpr double kLeastWait = 2;     // pixels of a wait that is drawn; every start waits a moment
constexpr int kLegendColumns = 5;

// Dark enough for white letters, light enough for a dark page; no red, which marks kills.
constexpr std::array<const char*, 14> kColours{
    "#3f6fd1", "#b8621b", "#2e8b57", "#8a55d4", "#0f8a9d", "#c2478b", "#8c7a1a",
    "#5d6b80", "#6a8f2c", "#9a5b43", "#4a7fb5", "#a0559c", "#3d8f7a", "#7a6a9c"};

constexpr const char* kStyle = R"(<style>
  svg { color-scheme: light dark; }
  text { font: 12px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; fill: #24292f; }
  .title { font-size: 17px; font-weight: 600; }
  .head { font-size: 13.5px; font-weight: 600; }
  .soft { fill: #57606a; }
  .letter { fill: #fff; font-size: 11px; font-weight: 600; text-anchor: middle; }
  .arrival { font-size: 11px; font-weight: 600; text-anchor: middle; }
  .tick { text-anchor: middle; }
  .page { fill: #fff; }
  .row { fill: #f0f2f5; }
  .grid { stroke: #d0d7de; stroke-width: 1; }
  .starting { opacity: .45; }
  .mark { fill: #24292f; stroke: #fff; stroke-width: 1; paint-order: stroke; }
  .killed { stroke: #d1242f; stroke-width: 3.5; stroke-linecap: round; }
  .halo { stroke: #fff; stroke-width: 6.5; stroke-linecap: round; }
  .outage { fill: #d1242f; opacity: .16; }
  .crash { stroke: #d1242f; stroke-width: 1.5; stroke-dasharray: 5 3; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; }
    .soft { fill: #9198a1; }
    .letter { fill: #fff; }
    .page { fill: #0d1117; }
    .row { fill: #1c2128; }
    .grid { stroke: #30363d; }
    .mark { fill: #e6edf3; stroke: #0d1117; }
    .killed, .crash { stroke: #ff6a69; }
    .halo { stroke: #0d1117; }
    .outage { fill: #ff6a69; }
  }
</style>
)";

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        // XML allows no other control characters.
        result += static_cast<unsigned char>(c) < 0x20 && c != '\t' && c != '\n' ? ' ' : c;
    }
  }
  return result;
}

class Drawing {
 public:
  explicit Drawing(const Picture& picture) : picture_(picture) {
    for (std::size_t i = 0; i < picture.jobs.size(); ++i) index_[picture.jobs[i].number] = i;
    for (const Panel& panel : picture.panels) {
      for (const auto& [job, end] : panel.timeline.ends) end_ = std::max(end_, end);
      for (const Bar& bar : panel.timeline.bars) end_ = std::max(end_, bar.to);
    }
    tick_ = end_ > 120 ? 20 : end_ > 40 ? 10 : 5;
    end_ = std::max(tick_, end_ * 1.01);
  }

  std::string svg() {
    y_ = 30;
    text(14, y_, "title", picture_.title);
    for (const Panel& panel : picture_.panels) draw_panel(panel);
    draw_jobs();
    draw_symbols();
    for (const std::string& note : picture_.notes) text(14, y_ += 18, "soft", note);
    const double height = y_ + 14;
    return fmt::format(
               "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
               "viewBox=\"0 0 {0:.0f} {1:.0f}\" role=\"img\" "
               "aria-label=\"{2}\">\n<title>{2}</title>\n",
               kWidth, height, escaped(picture_.title)) +
           kStyle +
           fmt::format("<rect class=\"page\" width=\"{:.0f}\" height=\"{:.0f}\"/>\n", kWidth,
                       height) +
           body_ + "</svg>\n";
  }

 private:
  double x_at(double seconds) const { return kLeft + (kRight - kLeft) * seconds / end_; }
  std::size_t index_of(control::JobNumber job) const {
    const auto found = index_.find(job);
    return found == index_.end() ? 0 : found->second;
  }
  const char* colour(control::JobNumber job) const {
    return kColours[index_of(job) % kColours.size()];
  }
  const std::string& name(control::JobNumber job) const {
    return picture_.jobs[index_of(job)].name;
  }

  void text(double x, double y, const char* kind, const std::string& words) {
    body_ += fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", kind, x, y,
                         escaped(words));
  }

  void draw_panel(const Panel& panel) {
    text(14, y_ += 32, "head", panel.title);
    y_ += 6;
    const double top = y_;
    draw_arrivals();
    const double rows_top = y_;
    const double rows_bottom = rows_top + kRowHeight * panel.timeline.rows;
    for (int row = 0; row < panel.timeline.rows; ++row) {
      const double row_top = rows_top + kRowHeight * row;
      body_ += fmt::format(
          "<rect class=\"row\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"/>\n",
          kLeft, row_top + 2, kRight - kLeft, kBarHeight);
      text(14, row_top + 18, "soft", fmt::format("slot {}", row + 1));
    }
    y_ = rows_bottom;
    const double waits_top = rows_bottom + 4;
    const double bottom = waits_top + draw_waits(panel.timeline, waits_top) + 4;
    draw_grid(rows_top, bottom);
    for (const Bar& bar : panel.timeline.bars) draw_bar(bar, rows_top);
    for (const Outage& outage : panel.outages) draw_outage(outage, top, bottom);
    for (const Mark& mark : panel.timeline.marks) draw_mark(mark, rows_top);
    y_ = bottom + 16;
    for (double at = 0; at <= end_; at += tick_) {
      text(x_at(at), y_, "tick soft", fmt::format("{:.0f} s", at));
    }
  }

  // Each job's letter at the moment it was submitted.
  void draw_arrivals() {
    text(14, y_ + 14, "soft", "arrivals");
    double last = -1e9;
    for (std::size_t i = 0; i < picture_.jobs.size(); ++i) {
      const PictureJob& job = picture_.jobs[i];
      const double x = x_at(job.submitted);
      last = std::max(x, last + 11);  // letters never lie on each other
      body_ += fmt::format(
          "<g><title>{} submitted at {:.1f} s</title>"
          "<text class=\"arrival\" style=\"fill:{}\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>"
          "<path d=\"M{:.1f} {:.1f}l-3.5 -5h7z\" fill=\"{}\"/></g>\n",
          escaped(job.name), job.submitted, colour(job.number), last, y_ + 11, job_letter(i), x,
          y_ + 20, colour(job.number));
    }
    y_ += kArrivals;
  }

  // A line for each waiting job, as few lines of height as the most that wait at once.
  double draw_waits(const Timeline& timeline, double top) {
    std::vector<Wait> waits = timeline.waits;
    std::stable_sort(waits.begin(), waits.end(),
                     [](const Wait& a, const Wait& b) { return a.from < b.from; });
    std::vector<double> free_at;
    for (const Wait& wait : waits) {
      if (x_at(wait.to) - x_at(wait.from) < kLeastWait) continue;
      std::size_t lane = 0;
      while (lane < free_at.size() && free_at[lane] > wait.from) ++lane;
      if (lane == free_at.size()) free_at.push_back(0);
      free_at[lane] = wait.to;
      body_ += fmt::format(
          "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\">"
          "<title>{} waits from {:.1f} s to {:.1f} s</title></rect>\n",
          x_at(wait.from), top + kWaitHeight * static_cast<double>(lane),
          x_at(wait.to) - x_at(wait.from), kWaitHeight - 1.5, colour(wait.job),
          escaped(name(wait.job)), wait.from, wait.to);
    }
    const double height = std::max(12.0, kWaitHeight * static_cast<double>(free_at.size()));
    text(14, top + height / 2 + 4, "soft", "waiting");
    return height;
  }

  void draw_grid(double top, double bottom) {
    for (double at = 0; at <= end_; at += tick_) {
      body_ += fmt::format(
          "<line class=\"grid\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.1f}\" y2=\"{2:.1f}\"/>\n",
          x_at(at), top, bottom);
    }
  }

  void draw_bar(const Bar& bar, double rows_top) {
    const double x = x_at(bar.from);
    const double width = std::max(0.5, x_at(bar.to) - x);
    const double y = rows_top + kRowHeight * bar.row + 2;
    body_ += fmt::format(
        "<rect{} x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\">"
        "<title>{}{} from {:.1f} s to {:.1f} s</title></rect>\n",
        bar.training ? "" : " class=\"starting\"", x, y, width, kBarHeight, colour(bar.job),
        escaped(name(bar.job)), bar.training ? "" : " (starting or stopping)", bar.from, bar.to);
    if (bar.training && width >= kLetterWidth) {
      text(x + width / 2, y + 15, "letter", job_letter(index_of(bar.job)));
    }
  }

  void draw_outage(const Outage& outage, double top, double bottom) {
    const double x = x_at(outage.from);
    body_ += fmt::format(
        "<rect class=\"outage\" x=\"{0:.1f}\" y=\"{1:.1f}\" width=\"{2:.1f}\" height=\"{3:.1f}\">"
        "<title>no daemon from {4:.1f} s to {5:.1f} s</title></rect>\n"
        "<line class=\"crash\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.1f}\" y2=\"{6:.1f}\"/>\n",
        x, top, std::max(1.0, x_at(outage.to) - x), bottom - top, outage.from, outage.to, bottom);
  }

  void draw_mark(const Mark& mark, double rows_top) {
    const double x = x_at(mark.at);
    const double y = rows_top + kRowHeight * mark.row;
    if (mark.kind == MarkKind::kKilled) {
      draw_cross(x, y + kRowHeight / 2,
                 fmt::format("a worker of {} killed at {:.1f} s", name(mark.job), mark.at));
      return;
    }
    const bool grown = mark.kind == MarkKind::kGrown;
    body_ += fmt::format(
        "<path class=\"mark\" d=\"M{:.1f} {:.1f}{}\"><title>{} {} at {:.1f} s</title></path>\n", x,
        grown ? y + 2 : y + 9, grown ? "l-4.5 7h9z" : "l-4.5 -7h9z", escaped(name(mark.job)),
        grown ? "grew" : "shrank", mark.at);
  }

  void draw_cross(double x, double y, const std::string& title) {
    const std::string path = fmt::format("M{:.1f} {:.1f}l11 11m0 -11l-11 11", x - 5.5, y - 5.5);
    body_ += fmt::format(
        "<g fill=\"none\"><title>{0}</title><path class=\"halo\" d=\"{1}\"/>"
        "<path class=\"killed\" d=\"{1}\"/></g>\n",
        escaped(title), path);
  }

  void draw_jobs() {
    y_ += 14;
    const double column = (kWidth - 28) / kLegendColumns;
    for (std::size_t i = 0; i < picture_.jobs.size(); ++i) {
      const auto place = static_cast<int>(i);
      if (place % kLegendColumns == 0) y_ += 22;
      const double x = 14 + column * (place % kLegendColumns);
      body_ +=
          fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"18\" height=\"16\" fill=\"{}\"/>\n",
                      x, y_ - 12, colour(picture_.jobs[i].number));
      text(x + 9, y_, "letter", job_letter(i));
      text(x + 24, y_, "soft", picture_.jobs[i].name);
    }
  }

  void draw_symbols() {
    y_ += 26;
    double x = 14;
    const auto label = [&](double symbol, const char* words, double width) {
      text(x + symbol, y_, "soft", words);
      x += symbol + width;
    };
    body_ += fmt::format("<path class=\"mark\" d=\"M{:.1f} {:.1f}l-4.5 7h9z\"/>\n", x + 5, y_ - 8);
    label(15, "job grew", 64);
    body_ += fmt::format("<path class=\"mark\" d=\"M{:.1f} {:.1f}l-4.5 -7h9z\"/>\n", x + 5, y_ - 1);
    label(15, "job shrank", 74);
    body_ += fmt::format(
        "<rect class=\"starting\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"20\" height=\"14\" "
        "fill=\"{}\"/>\n",
        x, y_ - 11, kColours[0]);
    label(26, "worker starting or stopping", 172);
    body_ += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"20\" height=\"{:.1f}\" fill=\"{}\"/>\n", x, y_ - 5,
        kWaitHeight - 1.5, kColours[0]);
    label(26, "job waiting", 78);
    if (has_kills()) {
      draw_cross(x + 7, y_ - 4, "a worker was killed");
      label(20, "worker: kill -9", 96);
    }
    if (!has_outages()) return;
    body_ += fmt::format(
        "<rect class=\"outage\" x=\"{0:.1f}\" y=\"{1:.1f}\" width=\"20\" height=\"15\"/>\n"
        "<line class=\"crash\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.1f}\" y2=\"{2:.1f}\"/>\n",
        x, y_ - 12, y_ + 3);
    label(26, "daemon: kill -9, then restart", 0);
  }

  bool has_kills() const {
    return std::any_of(picture_.panels.begin(), picture_.panels.end(), [](const Panel& panel) {
      const auto& marks = panel.timeline.marks;
      return std::any_of(marks.begin(), marks.end(),
                         [](const Mark& mark) { return mark.kind == MarkKind::kKilled; });
    });
  }
  bool has_outages() const {
    return std::any_of(picture_.panels.begin(), picture_.panels.end(),
                       [](const Panel& panel) { return !panel.outages.empty(); });
  }

  const Picture& picture_;
  std::map<control::JobNumber, std::size_t> index_;
  double end_ = 1;
  double tick_ = 10;
  double y_ = 0;
  std::string body_;
};

}  // namespace

std::string job_letter(std::size_t index) {
  const std::string letter(1, static_cast<char>('A' + index % 26));
  return index < 26 ? letter : letter + std::to_string(index / 26);
}

std::string svg_of(const Picture& picture) { return Drawing(picture).svg(); }

}  // namespace rubato::demo
