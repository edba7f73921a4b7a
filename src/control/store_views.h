// The State as tables. They are written in the same transaction as every append and read when the
// daemon starts.
#pragma once

#include <cstdint>
#include <string_view>

#include "control/sqlite.h"
#include "control/state.h"
#include "control/state_delta.h"

namespace rubato::control {

class StoreViews {
 public:
  static Result<StoreViews> make(Database& database);

  // Inside a transaction: writes the changes of the delta to the views.
  Status write(const StateDelta& delta);
  // Inside a transaction: fills empty views.
  Status write_all(const State& state);
  // The state in the views. Its last_seq is the event that last changed them.
  Result<State> read(Database& database);
  // Inside a transaction: empties all views.
  static Status clear(Database& database);

 private:
  Status put_job(const JobRecord& job, bool is_new);
  Status put_document(const JobRecord& job);
  Status put_record(Statement& statement, std::string_view name, const nlohmann::json& record);
  Status put_reservation(std::int64_t number, const State& state);
  Status put_policy(const State& state);
  Status put_counters(const State& state);

  Statement insert_job_;
  Statement update_job_;
  Statement update_document_;
  Statement put_tenant_;
  Statement drop_tenant_;
  Statement put_reservation_;
  Statement drop_reservation_;
  Statement put_setting_;
  Statement put_profile_;
  Statement put_seq_;
};

}  // namespace rubato::control
