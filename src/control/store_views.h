// A State as tables. There are two sets with the same columns:
//   kNow   the state after the last event. Written in the same transaction as every append and read
//          when the daemon starts. It also has the jobs at rest, one row each.
//   kBase  the state after the last event that was folded away (store_fold.h), without jobs at
//          rest.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "control/sqlite.h"
#include "control/state.h"
#include "control/state_delta.h"

namespace rubato::control {

// A row that begins with the columns document and record of a jobs table.
Result<JobRecord> job_of_row(const Statement& row);

class StoreViews {
 public:
  enum class Tables { kNow, kBase };
  static Result<StoreViews> make(Database& database, Tables tables = Tables::kNow);

  // Inside a transaction: writes the changes of the delta. With kNow, folders of removed jobs are
  // noted for removal.
  Status write(const StateDelta& delta);
  // Inside a transaction, with kNow: makes the tables anew. Jobs that came to rest before the log
  // begins (State::folded_below) stay as they are.
  Status rewrite(Database& database, const State& state);
  // The state without jobs at rest. Its last_seq is the event that last changed the tables.
  Result<State> read(Database& database) const { return read(database, tables_); }
  // Also of a database of an earlier version, as it is.
  static Result<State> read(Database& database, Tables which);
  // Inside a transaction, with kBase: forgets jobs at rest.
  Status drop_resting();

 private:
  static Status read_nodes(Database& database, Tables tables, State& state);

  explicit StoreViews(Tables tables) : tables_(tables) {}
  static std::string named(std::string_view table, Tables tables);
  std::string named(std::string_view table) const { return named(table, tables_); }
  Status put_job(const JobRecord& job, bool is_new);
  Status put_key(const JobRecord& job);
  Status put_document(const JobRecord& job);
  Status drop_job(JobNumber number, const std::string& uid);
  Status put_record(Statement& statement, std::string_view name, const nlohmann::json& record);
  Status put_reservation(std::int64_t number, const State& state);
  Status put_policy(const State& state);
  Status put_counters(const State& state);

  Tables tables_;
  Statement insert_job_;
  Statement update_job_;
  Statement update_document_;
  Statement drop_job_;
  Statement drop_resting_;
  Statement put_key_;         // kNow
  Statement note_removal_;    // kNow
  Statement count_archived_;  // kNow
  Statement put_tenant_;
  Statement drop_tenant_;
  Statement put_reservation_;
  Statement drop_reservation_;
  Statement put_node_;
  Statement drop_node_;
  Statement put_setting_;
  Statement put_profile_;
  Statement put_seq_;
};

}  // namespace rubato::control
