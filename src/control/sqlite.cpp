#include "control/sqlite.h"

#include <fmt/format.h>

#include "base/check.h"

namespace rubato::control {

namespace {

Error database_error(sqlite3* database, int code) {
  const char* file = sqlite3_db_filename(database, "main");
  const int primary = code & 0xff;
  std::string message =
      fmt::format("{}: {}", file == nullptr ? "?" : file, sqlite3_errmsg(database));
  if (primary == SQLITE_CORRUPT || primary == SQLITE_NOTADB) {
    message +=
        "; the file is damaged and was left unchanged: restore rubato.db (with rubato.db-wal, if "
        "there is one) from a backup";
    return {ErrorCode::kInvalidInput, std::move(message)};
  }
  if (const int system = sqlite3_system_errno(database);
      system != 0 && (primary == SQLITE_IOERR || primary == SQLITE_CANTOPEN)) {
    message += fmt::format(" (operating system error {})", system);
  }
  return {ErrorCode::kIo, std::move(message)};
}

}  // namespace

Statement& Statement::bind(std::int64_t value) {
  const int code = sqlite3_bind_int64(statement_.get(), ++bound_, value);
  RUBATO_CHECK(code == SQLITE_OK, "a parameter does not fit the statement");
  return *this;
}

Statement& Statement::bind(double value) {
  const int code = sqlite3_bind_double(statement_.get(), ++bound_, value);
  RUBATO_CHECK(code == SQLITE_OK, "a parameter does not fit the statement");
  return *this;
}

Statement& Statement::bind(std::string_view value) {
  // A null pointer would bind NULL.
  const char* data = value.data() == nullptr ? "" : value.data();
  const int code = sqlite3_bind_text64(statement_.get(), ++bound_, data, value.size(),
                                       SQLITE_STATIC, SQLITE_UTF8);
  RUBATO_CHECK(code == SQLITE_OK, "a parameter does not fit the statement");
  return *this;
}

Result<bool> Statement::next() {
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) {
    reset();
    return false;
  }
  Error error = database_error(database_.get(), code);
  reset();
  return error;
}

Status Statement::run() {
  const auto row = next();
  if (!row) return row.error();
  RUBATO_CHECK(!*row, "a statement that should have no rows has one");
  return ok_status();
}

void Statement::reset() {
  sqlite3_reset(statement_.get());
  bound_ = 0;
}

std::string_view Statement::text(int column) const {
  const auto* data = sqlite3_column_text(statement_.get(), column);
  const int size = sqlite3_column_bytes(statement_.get(), column);
  if (data == nullptr) return {};
  return {reinterpret_cast<const char*>(data), static_cast<std::size_t>(size)};
}

Result<Database> Database::open(const std::string& path) {
  sqlite3* handle = nullptr;
  const int code =
      sqlite3_open_v2(path.c_str(), &handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, nullptr);
  Database database(std::shared_ptr<sqlite3>(handle, sqlite3_close));
  if (handle == nullptr) return Error{ErrorCode::kIo, path + ": cannot open: out of memory"};
  if (code != SQLITE_OK) {
    return Error{ErrorCode::kIo, fmt::format("{}: {}", path, sqlite3_errmsg(handle))};
  }
  sqlite3_extended_result_codes(handle, 1);
  sqlite3_busy_timeout(handle, 10'000);
  if (auto status = database.execute("PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON");
      !status) {
    return status.error();
  }
  return database;
}

Result<Statement> Database::prepare(std::string_view sql) {
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v3(database_.get(), sql.data(), static_cast<int>(sql.size()),
                                      SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
  if (code != SQLITE_OK) return database_error(database_.get(), code);
  return Statement(database_, statement);
}

Status Database::execute(const std::string& sql) {
  const int code = sqlite3_exec(database_.get(), sql.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return database_error(database_.get(), code);
  return ok_status();
}

namespace {

template <typename Value, typename Read>
Result<Value> first_value(Result<Statement> statement, const Read& read) {
  if (!statement) return statement.error();
  const auto row = statement->next();
  if (!row) return row.error();
  return *row ? Value(read(*statement)) : Value();
}

}  // namespace

Result<std::int64_t> Database::read_integer(std::string_view sql) {
  return first_value<std::int64_t>(prepare(sql),
                                   [](const Statement& row) { return row.integer(0); });
}

Result<double> Database::read_number(std::string_view sql) {
  return first_value<double>(prepare(sql), [](const Statement& row) { return row.number(0); });
}

Result<std::string> Database::read_text(std::string_view sql) {
  return first_value<std::string>(prepare(sql), [](const Statement& row) { return row.text(0); });
}

void Database::leave_log_alone(bool alone) {
  sqlite3_db_config(database_.get(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, alone ? 1 : 0, nullptr);
}

}  // namespace rubato::control
