// Searches in the event log, by time and type, forwards and backwards.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "control/store_events.h"

namespace rubato::control {

namespace {

// So many events a search by type looks at before it answers with what it has.
constexpr int kMostLooked = 50'000;

std::string search_text(const EventQuery& query) {
  const char* index = query.job != 0          ? "INDEXED BY events_by_job"
                      : !query.tenant.empty() ? "INDEXED BY events_by_tenant"
                                              : "";
  return fmt::format(
      "SELECT {} FROM events {} WHERE {} seq > ? AND seq <= ? ORDER BY seq {} LIMIT {}",
      kEventColumns, index,
      query.job != 0          ? "job = ? AND"
      : !query.tenant.empty() ? "tenant = ? AND"
                              : "",
      query.newest_first ? "DESC" : "ASC", kMostLooked);
}

}  // namespace

// Numbers have no gaps, and times do not decrease, so halving finds it.
Result<std::int64_t> EventReader::last_before(double time) {
  const auto first = database_.read_integer("SELECT coalesce(min(seq), 1) FROM events");
  if (!first) return first.error();
  const auto last = database_.read_integer("SELECT coalesce(max(seq), 0) FROM events");
  if (!last) return last.error();
  std::int64_t low = *first - 1;  // all events up to here are earlier
  std::int64_t high = *last;
  while (low < high) {
    const std::int64_t middle = low + (high - low + 1) / 2;
    const auto at =
        database_.read_number(fmt::format("SELECT at FROM events WHERE seq = {}", middle));
    if (!at) return at.error();
    if (*at < time) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

Result<EventReader::Range> EventReader::range_of(const EventQuery& query) {
  Range range{
      .above = query.after,
      .up_to = query.before > 0 ? query.before - 1 : std::numeric_limits<std::int64_t>::max()};
  if (query.since > 0) {
    const auto last = last_before(query.since);
    if (!last) return last.error();
    range.above = std::max(range.above, *last);
  }
  if (query.until > 0) {
    const auto last = last_before(query.until);
    if (!last) return last.error();
    range.up_to = std::min(range.up_to, *last);
  }
  return range;
}

Result<EventPage> EventReader::find(const EventQuery& query) {
  const MutexLock lock(mutex_);
  const auto range = range_of(query);
  if (!range) return range.error();
  auto rows = database_.prepare(search_text(query));
  if (!rows) return rows.error();
  if (query.job != 0) {
    rows->bind(query.job);
  } else if (!query.tenant.empty()) {
    rows->bind(query.tenant);
  }
  rows->bind(range->above).bind(range->up_to);
  const auto wanted = [&](std::string_view type, std::string_view tenant) {
    return (query.types.empty() ||
            std::find(query.types.begin(), query.types.end(), type) != query.types.end()) &&
           (query.tenant.empty() || tenant == query.tenant);
  };
  EventPage page;
  std::int64_t last = 0;
  for (int looked = 0;; ++looked) {
    const auto row = rows->next();
    if (!row) return row.error();
    if (!*row) {
      if (looked == kMostLooked) page.next = last;
      return page;
    }
    last = rows->integer(0);
    if (!wanted(rows->text(2), rows->text(4))) continue;
    auto event = event_of_row(*rows);
    if (!event) return event.error();
    page.events.push_back(std::move(*event));
    if (std::ssize(page.events) == query.limit) {
      page.next = last;
      return page;
    }
  }
}

}  // namespace rubato::control
