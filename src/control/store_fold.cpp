#include "control/store_fold.h"

#include <fmt/format.h>

#include <algorithm>

#include "control/store_events.h"

namespace rubato::control {

Result<LogFold> LogFold::make(Database& database) {
  auto tables = StoreViews::make(database, StoreViews::Tables::kBase);
  if (!tables) return tables.error();
  auto read = database.prepare(fmt::format(
      "SELECT {} FROM events WHERE seq > ? AND seq < ? ORDER BY seq LIMIT ?", kEventColumns));
  if (!read) return read.error();
  auto drop = database.prepare("DELETE FROM events WHERE seq <= ?");
  if (!drop) return drop.error();
  return LogFold(std::move(*tables), std::move(*read), std::move(*drop));
}

Result<int> LogFold::fold(Database& database, double before, std::int64_t keep, std::int64_t last,
                          int most) {
  if (!base_) {
    auto base = tables_.read(database);
    if (!base) return base.error();
    base_ = std::move(*base);
  }
  const std::int64_t too_many_until = keep > 0 ? last - keep : 0;
  StateDelta delta(*base_);
  int folded = 0;
  read_.bind(base_->last_seq).bind(last).bind(std::int64_t{most});
  while (true) {
    const auto row = read_.next();
    if (!row) return row.error();
    if (!*row) break;
    auto event = event_of_row(read_);
    if (event && event->at >= before && event->seq > too_many_until) {
      read_.reset();
      break;
    }
    const Status applied = event ? delta.apply(*event) : Status(event.error());
    if (!applied) {
      read_.reset();
      base_.reset();
      return invalid_input("the log cannot be folded: " + applied.error().message);
    }
    ++folded;
  }
  if (folded == 0) {
    base_.reset();
    return 0;
  }
  if (auto status = record(database, delta); !status) {
    static_cast<void>(database.execute("ROLLBACK"));
    base_.reset();
    return status.error();
  }
  std::move(delta).commit(*base_);
  std::erase_if(base_->jobs, [](const auto& entry) { return at_rest(entry.second); });
  base_->keys.clear();
  base_->folded_below = base_->next_job;
  return folded;
}

Status LogFold::record(Database& database, const StateDelta& delta) {
  if (auto status = database.execute("BEGIN IMMEDIATE"); !status) return status;
  if (auto status = tables_.write(delta); !status) return status;
  if (auto status = tables_.drop_resting(); !status) return status;
  if (auto status = drop_.bind(delta.after().last_seq).run(); !status) return status;
  return database.execute("COMMIT");
}

}  // namespace rubato::control
