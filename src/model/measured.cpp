#include "model/measured.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/csv.h"

namespace rubato {

namespace {

constexpr NumberRange kTimes{1e-9, 1e6};
constexpr NumberRange kSyncTimes{0, 1e6};
constexpr NumberRange kBatches{1, 1e9};
constexpr NumberRange kCounts{1, 1e6};

// local_bsz, step_time and sync_time of one row; both files have these columns.
Result<MeasuredRow> read_times(const CsvTable& table, std::size_t row) {
  const auto local = table.integer(row, table.column("local_bsz"), kBatches);
  if (!local) return local.error();
  const auto step = table.number(row, table.column("step_time"), kTimes);
  if (!step) return step.error();
  const auto sync = table.number(row, table.column("sync_time"), kSyncTimes);
  if (!sync) return sync.error();
  // Some recordings list a synchronisation that is longer than its step. Keep a little computing
  // time.
  constexpr double kMostSync = 0.999;
  return MeasuredRow{
      .local = *local, .step_s = *step, .sync_s = std::min(*sync, kMostSync * *step)};
}

}  // namespace

std::vector<int> smallest_rotation(std::span<const int> per_node) {
  std::vector<int> best(per_node.begin(), per_node.end());
  std::vector<int> turned = best;
  for (std::size_t i = 1; i < per_node.size(); ++i) {
    std::rotate(turned.begin(), turned.begin() + 1, turned.end());
    best = std::min(best, turned);
  }
  return best;
}

MeasuredSpeed::MeasuredSpeed(const std::vector<MeasuredRow>& rows) {
  struct Sum {
    double step = 0;
    double sync = 0;
    int count = 0;
  };
  std::map<std::array<std::int64_t, 3>, Sum> by_key;
  std::vector<const MeasuredRow*> larger;
  for (const MeasuredRow& row : rows) {
    if (row.per_node.empty()) {
      larger.push_back(&row);
      continue;
    }
    exact_[smallest_rotation(row.per_node)].push_back(
        {static_cast<double>(row.local), row.step_s, row.sync_s});
    Sum& sum = by_key[{row.nodes, row.devices, row.local}];
    sum.step += row.step_s;
    sum.sync += row.sync_s;
    ++sum.count;
    min_local_ = min_local_ == 0 ? row.local : std::min(min_local_, row.local);
    max_local_ = std::max(max_local_, row.local);
  }
  for (auto& [placement, samples] : exact_) {
    std::stable_sort(samples.begin(), samples.end(),
                     [](const Sample& a, const Sample& b) { return a.local < b.local; });
  }
  for (const auto& [key, sum] : by_key) {
    means_.push_back({.nodes = static_cast<int>(key[0]),
                      .devices = static_cast<int>(key[1]),
                      .local = key[2],
                      .step_s = sum.step / sum.count,
                      .sync_s = sum.sync / sum.count});
  }
  for (const MeasuredRow* row : larger) {
    means_.push_back({.nodes = row->nodes,
                      .devices = row->devices,
                      .local = row->local,
                      .step_s = row->step_s,
                      .sync_s = row->sync_s});
  }
  std::vector<Point3> points;
  std::vector<std::array<double, 2>> values;
  for (const Observation& o : means_) {
    points.push_back({static_cast<double>(o.nodes), static_cast<double>(o.devices),
                      static_cast<double>(o.local)});
    values.push_back({o.step_s, o.sync_s});
  }
  auto built = ScatteredInterpolator::build(std::move(points), std::move(values));
  if (built) scattered_ = std::move(*built);  // too few rows: extrapolate instead
}

Result<std::unique_ptr<MeasuredSpeed>> MeasuredSpeed::read(const std::string& placements,
                                                           const std::string& scalability) {
  std::vector<MeasuredRow> rows;
  const auto table =
      CsvTable::read(placements, {"placement", "local_bsz", "step_time", "sync_time"});
  if (!table) return table.error();
  const int placement_column = table->column("placement");
  for (std::size_t i = 0; i < table->rows(); ++i) {
    auto row = read_times(*table, i);
    if (!row) return row.error();
    for (const char digit : table->cell(i, placement_column)) {
      if (digit < '1' || digit > '9') {
        return table->error_at(i, placement_column, "expected one digit from 1 to 9 per node");
      }
      row->per_node.push_back(digit - '0');
      row->devices += digit - '0';
    }
    if (row->per_node.empty()) {
      return table->error_at(i, placement_column, "expected one digit from 1 to 9 per node");
    }
    row->nodes = static_cast<int>(row->per_node.size());
    rows.push_back(std::move(*row));
  }
  if (rows.empty()) return invalid_input(placements + ": no placement was measured");
  if (!scalability.empty()) {
    const auto more = CsvTable::read(
        scalability, {"num_nodes", "num_replicas", "local_bsz", "step_time", "sync_time"});
    if (!more) return more.error();
    for (std::size_t i = 0; i < more->rows(); ++i) {
      auto row = read_times(*more, i);
      if (!row) return row.error();
      const auto nodes = more->integer(i, more->column("num_nodes"), kCounts);
      if (!nodes) return nodes.error();
      const auto devices = more->integer(i, more->column("num_replicas"), kCounts);
      if (!devices) return devices.error();
      row->nodes = static_cast<int>(*nodes);
      row->devices = static_cast<int>(*devices);
      rows.push_back(std::move(*row));
    }
  }
  return std::make_unique<MeasuredSpeed>(rows);
}

StepTime MeasuredSpeed::step_time(const Placement& placement, std::int64_t local) const {
  const auto wanted = static_cast<double>(local);
  const auto found = exact_.find(smallest_rotation(placement.per_node()));
  if (found != exact_.end()) {
    const std::vector<Sample>& samples = found->second;
    const auto above =
        std::lower_bound(samples.begin(), samples.end(), wanted,
                         [](const Sample& sample, double value) { return sample.local < value; });
    if (above != samples.end() && above->local == wanted) {
      return {above->step_s, above->sync_s, Confidence::kMeasured};
    }
    if (above != samples.end() && above != samples.begin()) {
      const Sample& low = *(above - 1);
      const double share = (wanted - low.local) / (above->local - low.local);
      return {low.step_s + share * (above->step_s - low.step_s),
              low.sync_s + share * (above->sync_s - low.sync_s), Confidence::kInterpolated};
    }
  } else if (scattered_) {
    const auto value = scattered_->at(
        {static_cast<double>(placement.nodes()), static_cast<double>(placement.devices()), wanted});
    if (value) return {(*value)[0], (*value)[1], Confidence::kInterpolated};
  }
  return extrapolated(placement, wanted);
}

StepTime MeasuredSpeed::extrapolated(const Placement& placement, double local) const {
  std::call_once(fitted_once_, [&] { fitted_ = fit(means_); });
  const double step = fitted_.step_s(placement.nodes(), placement.devices(), local);
  const double compute = std::min(step, fitted_.compute_s(local));
  return {.step_s = step, .sync_s = step - compute, .confidence = Confidence::kExtrapolated};
}

}  // namespace rubato
