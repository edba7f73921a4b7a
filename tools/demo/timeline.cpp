#include "demo/timeline.h"

#include <algorithm>
#include <cstdlib>

#include "control/json_fields.h"

namespace rubato::demo {

using control::Event;
using control::JobNumber;

namespace {

// Which row belongs to whom.
class Rows {
 public:
  explicit Rows(int count) : owner_(static_cast<std::size_t>(count), 0) {}

  // The rows of a job, oldest first.
  const std::vector<int>& of(JobNumber job) { return rows_[job]; }

  // A free row, as near to the job's own as there is one; -1: none is free.
  int take(JobNumber job) {
    std::vector<int>& own = rows_[job];
    int best = -1;
    for (int row = 0; row < static_cast<int>(owner_.size()); ++row) {
      if (owner_[static_cast<std::size_t>(row)] != 0) continue;
      if (best < 0 || distance(own, row) < distance(own, best)) best = row;
    }
    if (best < 0) return -1;
    owner_[static_cast<std::size_t>(best)] = job;
    own.push_back(best);
    return best;
  }

  void give_back(JobNumber job) {
    owner_[static_cast<std::size_t>(rows_[job].back())] = 0;
    rows_[job].pop_back();
  }

 private:
  static int distance(const std::vector<int>& own, int row) {
    return own.empty() ? 0 : std::abs(own.front() - row);
  }

  std::vector<JobNumber> owner_;  // 0: nobody
  std::map<JobNumber, std::vector<int>> rows_;
};

class LogReader {
 public:
  explicit LogReader(int devices) : rows_(devices) { timeline_.rows = devices; }

  Timeline read(std::span<const Event> events) {
    for (const Event& event : events) {
      if (event.job == 0) continue;
      if (start_ == 0) start_ = event.at;
      take(event);
    }
    const double end = events.empty() ? 0 : events.back().at - start_;
    for (auto& [job, life] : lives_) {
      while (!life.open.empty()) close(job, life, end);
      if (life.waits_since >= 0) stop_waiting(job, life, end);
    }
    return timeline_;
  }

 private:
  struct Open {
    double since = 0;
    bool training = false;
  };
  struct Life {
    int workers = 0;          // that train
    double waits_since = -1;  // below 0: it does not wait
    bool ended = false;
    std::vector<Open> open{};  // a bar for each of its rows
  };

  void take(const Event& event) {
    Life& life = lives_[event.job];
    double at = event.at - start_;
    if (event.type == "submitted") {
      life.waits_since = at;
    } else if (event.type == "held") {
      hold(event.job, life, static_cast<int>(control::whole_in(event.body, "devices")), at);
    } else if (event.type == "view") {
      // The runtime's own time: the daemon may have been away when it happened.
      const double told = control::number_in(event.body, "at");
      if (told > 0) at = std::min(at, told - start_);
      note_view(event, life, at);
    } else if (event.type == "finished" || event.type == "failed" || event.type == "cancelled") {
      life.ended = true;
      timeline_.ends[event.job] = at;
      train(event.job, life, 0, at);
      if (life.waits_since >= 0) stop_waiting(event.job, life, at);
    }
  }

  void note_view(const Event& event, Life& life, double at) {
    const std::string type = event.body.value("type", "");
    const std::vector<int>& rows = rows_.of(event.job);
    if (type == "lost" && !rows.empty()) {
      const int last = std::max(1, std::min(life.workers, static_cast<int>(rows.size())));
      mark(MarkKind::kKilled, event.job, rows[static_cast<std::size_t>(last - 1)], at);
    }
    if (type != "view") return;
    const int before = life.workers;
    const int after = static_cast<int>(control::whole_in(event.body, "workers"));
    train(event.job, life, after, at);
    const std::string cause = event.body.value("cause", "");
    if (before == 0 || after == 0 || cause == "failure" || rows.empty()) return;
    if (after > before) mark(MarkKind::kGrown, event.job, rows.front(), at);
    if (after < before) mark(MarkKind::kShrunk, event.job, rows.front(), at);
  }

  // The first `workers` rows of the job train from now on, the others do not.
  void train(JobNumber job, Life& life, int workers, double at) {
    life.workers = workers;
    const std::vector<int>& rows = rows_.of(job);
    for (std::size_t i = 0; i < life.open.size(); ++i) {
      const bool trains = static_cast<int>(i) < workers;
      if (life.open[i].training == trains) continue;
      draw(job, rows[i], life.open[i], at);
      life.open[i] = {.since = std::max(at, life.open[i].since), .training = trains};
    }
  }

  void hold(JobNumber job, Life& life, int devices, double at) {
    while (static_cast<int>(life.open.size()) > devices) close(job, life, at);
    while (static_cast<int>(life.open.size()) < devices && rows_.take(job) >= 0) {
      life.open.push_back({.since = at});
    }
    if (life.ended) return;
    if (!life.open.empty() && life.waits_since >= 0) stop_waiting(job, life, at);
    if (life.open.empty() && life.waits_since < 0) life.waits_since = at;
  }

  void close(JobNumber job, Life& life, double at) {
    draw(job, rows_.of(job).back(), life.open.back(), at);
    life.open.pop_back();
    rows_.give_back(job);
  }

  void stop_waiting(JobNumber job, Life& life, double at) {
    if (at > life.waits_since) {
      timeline_.waits.push_back({.job = job, .from = life.waits_since, .to = at});
    }
    life.waits_since = -1;
  }

  void draw(JobNumber job, int row, const Open& open, double to) {
    if (to <= open.since) return;
    timeline_.bars.push_back(
        {.row = row, .job = job, .from = open.since, .to = to, .training = open.training});
  }

  void mark(MarkKind kind, JobNumber job, int row, double at) {
    timeline_.marks.push_back({.kind = kind, .row = row, .job = job, .at = at});
  }

  Timeline timeline_;
  Rows rows_;
  std::map<JobNumber, Life> lives_;
  double start_ = 0;
};

}  // namespace

Timeline timeline_of(std::span<const Event> events, int devices) {
  return LogReader(devices).read(events);
}

Timeline timeline_of(const control::RigidReplay& rigid,
                     const std::map<JobNumber, double>& submitted, int devices, double start_s) {
  struct Change {
    double at = 0;
    bool begins = false;
    const control::ReplayedJob* job = nullptr;
  };
  std::vector<Change> changes;
  Timeline timeline{.rows = devices};
  for (const control::ReplayedJob& job : rigid.replay.jobs) {
    const double came = submitted.at(job.job);
    const double from = came + job.simulated_wait_s;
    const double to = came + job.simulated_s;
    timeline.ends[job.job] = to;
    if (from > came) timeline.waits.push_back({.job = job.job, .from = came, .to = from});
    changes.push_back({.at = from, .begins = true, .job = &job});
    changes.push_back({.at = to, .begins = false, .job = &job});
  }
  // At the same moment devices are given back before others get them. The simulator's times are
  // sums of many parts, so "the same" leaves room for rounding.
  constexpr double kRounding = 1e-6;
  std::stable_sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
    const double a_at = a.begins ? a.at + kRounding : a.at;
    const double b_at = b.begins ? b.at + kRounding : b.at;
    return a_at < b_at;
  });
  Rows rows(devices);
  for (const Change& change : changes) {
    const JobNumber job = change.job->job;
    for (int i = 0; i < rigid.devices; ++i) {
      if (!change.begins && !rows.of(job).empty()) {
        rows.give_back(job);
        continue;
      }
      const int row = change.begins ? rows.take(job) : -1;
      if (row < 0) continue;
      const double to = timeline.ends[job];
      const double trains = std::min(to, change.at + start_s);
      timeline.bars.push_back(
          {.row = row, .job = job, .from = change.at, .to = trains, .training = false});
      timeline.bars.push_back({.row = row, .job = job, .from = trains, .to = to});
    }
  }
  return timeline;
}

}  // namespace rubato::demo
