#include "control/series_tables.h"

#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <vector>

#include "base/text.h"
#include "control/series.h"
#include "control/state_folder.h"

namespace rubato::control {

std::string columns_with(std::span<const std::string_view> columns, std::string_view form) {
  std::vector<std::string> parts;
  parts.reserve(columns.size());
  for (const std::string_view name : columns) {
    parts.push_back(fmt::format(fmt::runtime(form), fmt::arg("name", name)));
  }
  return join(parts, ", ");
}

namespace {

constexpr std::int64_t kVersion = 3;
constexpr const char* kReservations =
    "CREATE TABLE reservations (number INTEGER PRIMARY KEY, devices INTEGER NOT NULL, since REAL "
    "NOT NULL, until REAL NOT NULL, ended REAL NOT NULL)";

std::string make_tables() {
  return fmt::format(
      R"sql(
BEGIN IMMEDIATE;
CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE series (
  step INTEGER NOT NULL, at INTEGER NOT NULL, samples INTEGER NOT NULL, {}, {},
  PRIMARY KEY (step, at)) WITHOUT ROWID;
CREATE TABLE points (
  job INTEGER NOT NULL, at REAL NOT NULL, body TEXT NOT NULL, PRIMARY KEY (job, at)) WITHOUT ROWID;
CREATE TABLE point_jobs (job INTEGER PRIMARY KEY, last_at REAL NOT NULL);
CREATE TABLE spans (
  job INTEGER NOT NULL, nodes TEXT NOT NULL, since REAL NOT NULL, until REAL NOT NULL);
CREATE INDEX spans_of_job ON spans (job) WHERE until = 0;
CREATE INDEX spans_by_end ON spans (until);
CREATE TABLE fleets (at REAL NOT NULL, nodes TEXT NOT NULL);
{};
CREATE INDEX fleets_by_time ON fleets (at);
PRAGMA user_version = {};
COMMIT)sql",
      columns_with(kSeriesColumns, "{name} REAL NOT NULL"),
      columns_with(kUseColumns, "{name} REAL"), kReservations, kVersion);
}

// Version 1 has no reservations: what follows from events is made anew from the log. Version 2 does
// not have what drivers tell.
Status bring_up_to_date(Database& database, std::int64_t version) {
  if (version == kVersion) return ok_status();
  if (version < 1 || version > kVersion) return invalid_input("series.db: of another version");
  std::string sql = "BEGIN IMMEDIATE;";
  if (version == 1) {
    sql += fmt::format(
        "{}; DELETE FROM spans; DELETE FROM fleets; UPDATE meta SET value = 0 WHERE name = 'seen';",
        kReservations);
  }
  for (const std::string_view name : kUseColumns) {
    sql += fmt::format("ALTER TABLE series ADD COLUMN {} REAL;", name);
  }
  return database.execute(sql + fmt::format("PRAGMA user_version = {}; COMMIT", kVersion));
}

// An open database with our tables. An error for a file that is not that.
Result<Database> open_tables(const std::string& path) {
  if (auto status = make_private_file(path); !status) return status.error();
  auto database = Database::open(path);
  if (!database) return database.error();
  if (auto status = database->execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL");
      !status) {
    return status.error();
  }
  const auto version = database->read_integer("PRAGMA user_version");
  if (!version) return version.error();
  const auto tables = database->read_integer("SELECT count(*) FROM sqlite_schema");
  if (!tables) return tables.error();
  if (*tables == 0) {
    if (auto status = database->execute(make_tables()); !status) return status.error();
  } else if (auto status = bring_up_to_date(*database, *version); !status) {
    return status.error();
  }
  const auto sound = database->read_text("PRAGMA quick_check(1)");
  if (!sound) return sound.error();
  if (*sound != "ok") return invalid_input(path + ": " + *sound);
  return database;
}

void remove_tables(const std::string& path) {
  for (const char* part : {"", "-wal", "-shm"}) std::remove((path + part).c_str());
}

}  // namespace

Result<Database> open_series_tables(const std::string& path) {
  auto database = open_tables(path);
  if (!database && database.error().code == ErrorCode::kInvalidInput) {
    remove_tables(path);
    database = open_tables(path);
  }
  return database;
}

}  // namespace rubato::control
