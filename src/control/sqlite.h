// A thin wrapper of the parts of SQLite that the store needs. Errors are returned as Status. Not
// thread-safe: the owner of a connection must guard it.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace rubato::control {

// A prepared, reusable statement. Values are bound in order, starting with the first parameter:
// statement.bind(1).bind("text"). Texts must live until the statement has run.
class Statement {
 public:
  Statement() = default;
  Statement(std::shared_ptr<sqlite3> database, sqlite3_stmt* statement)
      : database_(std::move(database)), statement_(statement) {}

  Statement& bind(std::int64_t value);
  Statement& bind(double value);
  Statement& bind(std::string_view value);
  // Advances to the next row. False if there is none; the statement can then be used again.
  Result<bool> next();
  // Runs a statement without rows.
  Status run();
  // Makes the statement reusable before its last row was read.
  void reset();

  // Columns of the row, from 0.
  std::int64_t integer(int column) const { return sqlite3_column_int64(statement_.get(), column); }
  double number(int column) const { return sqlite3_column_double(statement_.get(), column); }
  std::string_view text(int column) const;  // valid until the next call

 private:
  struct Finalizer {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };
  std::shared_ptr<sqlite3> database_;  // outlives the statement
  std::unique_ptr<sqlite3_stmt, Finalizer> statement_;
  int bound_ = 0;
};

class Database {
 public:
  // The file must exist. An empty file is an empty database.
  static Result<Database> open(const std::string& path);

  Result<Statement> prepare(std::string_view sql);
  // Runs one or more statements without parameters. Rows are discarded.
  Status execute(const std::string& sql);
  // The first column of the first row.
  Result<std::int64_t> read_integer(std::string_view sql);
  Result<double> read_number(std::string_view sql);
  Result<std::string> read_text(std::string_view sql);
  // With `alone`, closing the connection does not checkpoint the write-ahead log.
  void leave_log_alone(bool alone);

 private:
  explicit Database(std::shared_ptr<sqlite3> database) : database_(std::move(database)) {}
  std::shared_ptr<sqlite3> database_;
};

}  // namespace rubato::control
