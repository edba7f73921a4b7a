// Keeps series, points of jobs and who had which devices in FOLDER/series.db, beside the log. It is
// a convenience: nothing is decided by it, and it may be deleted while no daemon runs. What follows
// from events (devices and reservations) is then made anew from the log; the rest begins anew. A
// damaged file is begun anew, too.
//
// Its size is bounded:
//   - Samples of the cluster are kept as means of 5 s for 2 hours, of a minute for 2 days, and of
//     10 minutes for 31 days.
//   - A job has at most kMostPoints points. When they are full, every second one goes, and from
//     then on they are twice as far apart. The newest 2,000 jobs keep theirs for 31 days.
//   - Who had which devices, and how many were reserved, is kept for 31 days.
//
// Thread-safe. add() writes without waiting for the disk most of the time; it is for a thread that
// may wait.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "control/series.h"
#include "control/sqlite.h"

namespace rubato::control {

class SeriesStore {
 public:
  static constexpr int kMostPoints = 400;
  static constexpr int kMostJobs = 2000;

  // `log`: identity of the log whose events it will be given, which ends at `last_seq`. What
  // follows from another log, or from events that are not in it any more, is forgotten.
  static Result<std::unique_ptr<SeriesStore>> open(const std::string& folder,
                                                   const std::string& log, std::int64_t last_seq);

  // All or nothing. In order of time.
  Status add(std::span<const ClusterSample> samples, std::span<const JobPoint> points);
  // The events of the log after seen(), in order.
  Status note(std::span<const Event> events);
  // Number of the last event that was noted; 0: none.
  std::int64_t seen() const;

  // Periods are as long as asked for, or longer where the series is not kept that finely.
  Result<Series> read(const SeriesQuery& query) const;
  // Oldest first.
  Result<std::vector<JobPoint>> points(JobNumber job) const;
  // As far as it is known: jobs and nodes of a time before the log begins are missing.
  Result<DevicesThen> devices(double at) const;

 private:
  // How densely the points of a job are kept.
  struct Density {
    int count = 0;
    double gap_s = 0;
    double last_at = 0;
  };
  explicit SeriesStore(Database database) : database_(std::move(database)) {}
  Status prepare() RUBATO_REQUIRES(mutex_);
  Status begin_log(const std::string& log, std::int64_t last_seq) RUBATO_REQUIRES(mutex_);
  // Commits what was written, or undoes it.
  Status end_transaction(Status written) RUBATO_REQUIRES(mutex_);
  Status put_all(std::span<const ClusterSample> samples, std::span<const JobPoint> points)
      RUBATO_REQUIRES(mutex_);
  Status note_all(std::span<const Event> events) RUBATO_REQUIRES(mutex_);
  Status put_sample(const ClusterSample& sample) RUBATO_REQUIRES(mutex_);
  Status put_point(const JobPoint& point) RUBATO_REQUIRES(mutex_);
  Status note_event(const Event& event) RUBATO_REQUIRES(mutex_);
  Status note_reservation(const Event& event) RUBATO_REQUIRES(mutex_);
  Status forget_old(double now) RUBATO_REQUIRES(mutex_);
  Result<Density> density_of(JobNumber job) RUBATO_REQUIRES(mutex_);

  mutable Mutex mutex_;
  mutable Database database_ RUBATO_GUARDED_BY(mutex_);  // outlives its statements
  Statement put_sample_ RUBATO_GUARDED_BY(mutex_);
  Statement put_point_ RUBATO_GUARDED_BY(mutex_);
  Statement put_job_ RUBATO_GUARDED_BY(mutex_);
  Statement halve_ RUBATO_GUARDED_BY(mutex_);
  Statement measure_ RUBATO_GUARDED_BY(mutex_);
  Statement end_span_ RUBATO_GUARDED_BY(mutex_);
  Statement begin_span_ RUBATO_GUARDED_BY(mutex_);
  Statement drop_job_ RUBATO_GUARDED_BY(mutex_);
  Statement drop_points_ RUBATO_GUARDED_BY(mutex_);
  Statement put_nodes_ RUBATO_GUARDED_BY(mutex_);
  Statement reserve_ RUBATO_GUARDED_BY(mutex_);
  Statement release_ RUBATO_GUARDED_BY(mutex_);
  Statement put_seen_ RUBATO_GUARDED_BY(mutex_);
  std::map<JobNumber, Density> densities_ RUBATO_GUARDED_BY(mutex_);
  std::int64_t seen_ RUBATO_GUARDED_BY(mutex_) = 0;
  double next_cleaning_ RUBATO_GUARDED_BY(mutex_) = 0;
};

}  // namespace rubato::control
