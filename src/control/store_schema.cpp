#include "control/store_schema.h"

#include <fmt/format.h>

#include <array>
#include <string_view>

namespace rubato::control {

namespace {

// One entry per version, which upgrades the previous one. A released entry must never change.
constexpr std::array<std::string_view, 5> kMigrations{
    // 1: the log, and the views from which State is read. The views always have the state after
    // meta.view_seq.
    R"sql(
CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
INSERT INTO meta VALUES ('schema_version', 1), ('view_seq', 0);
CREATE TABLE events (
  seq INTEGER PRIMARY KEY, at REAL NOT NULL, type TEXT NOT NULL, job INTEGER NOT NULL,
  tenant TEXT NOT NULL, body TEXT NOT NULL);
CREATE INDEX events_by_job ON events (job);
CREATE TABLE jobs (
  number INTEGER PRIMARY KEY, tenant TEXT NOT NULL, phase TEXT NOT NULL, document TEXT NOT NULL,
  record TEXT NOT NULL);
CREATE TABLE tenants (name TEXT PRIMARY KEY, record TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE reservations (number INTEGER PRIMARY KEY, record TEXT NOT NULL);
CREATE TABLE settings (name TEXT PRIMARY KEY, record TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE profiles (name TEXT PRIMARY KEY, record TEXT NOT NULL) WITHOUT ROWID;
)sql",
    // 2: tenants read their own events quickly, and events can no longer be changed or deleted.
    R"sql(
CREATE INDEX events_by_tenant ON events (tenant);
CREATE TRIGGER events_are_kept BEFORE DELETE ON events
BEGIN SELECT RAISE(ABORT, 'events are never deleted'); END;
CREATE TRIGGER events_are_final BEFORE UPDATE ON events
BEGIN SELECT RAISE(ABORT, 'events are never changed'); END;
)sql",
    // 3: a store has an identity; events have a version and say who gave the command and from
    // where. The views are made anew, because jobs have more fields.
    R"sql(
INSERT INTO meta VALUES ('identity', lower(hex(randomblob(16))));
ALTER TABLE events ADD COLUMN version INTEGER NOT NULL DEFAULT 1;
ALTER TABLE events ADD COLUMN given_by TEXT NOT NULL DEFAULT '';
ALTER TABLE events ADD COLUMN given_from TEXT NOT NULL DEFAULT '';
UPDATE meta SET value = -1 WHERE name = 'view_seq';
)sql",
    // 4: what has ended costs nothing (store.h). Jobs at rest are found through indexes, the
    // beginning of the log can be folded into the base_ tables, and folders wait to be removed in
    // `removals`. Only events that were folded can be deleted.
    R"sql(
ALTER TABLE jobs ADD COLUMN name TEXT NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN submitted_at REAL NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN ended_at REAL NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN rest INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN kept INTEGER NOT NULL DEFAULT 1;
CREATE INDEX jobs_at_work ON jobs (number) WHERE rest = 0;
CREATE INDEX jobs_by_tenant ON jobs (tenant, number);
CREATE INDEX jobs_by_name ON jobs (name, number);
CREATE INDEX jobs_by_tenant_and_name ON jobs (tenant, name, number);
CREATE INDEX jobs_by_submission ON jobs (submitted_at);
CREATE INDEX jobs_by_end ON jobs (ended_at) WHERE rest = 1 AND kept = 1;
CREATE TABLE keys (
  tenant TEXT NOT NULL, key TEXT NOT NULL, job INTEGER NOT NULL, at REAL NOT NULL,
  PRIMARY KEY (tenant, key)) WITHOUT ROWID;
CREATE INDEX keys_by_age ON keys (at);
CREATE TABLE removals (number INTEGER PRIMARY KEY, uid TEXT NOT NULL);
CREATE TABLE base_jobs (
  number INTEGER PRIMARY KEY, tenant TEXT NOT NULL, phase TEXT NOT NULL, document TEXT NOT NULL,
  record TEXT NOT NULL, name TEXT NOT NULL, submitted_at REAL NOT NULL, ended_at REAL NOT NULL,
  rest INTEGER NOT NULL);
CREATE TABLE base_tenants (name TEXT PRIMARY KEY, record TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE base_reservations (number INTEGER PRIMARY KEY, record TEXT NOT NULL);
CREATE TABLE base_settings (name TEXT PRIMARY KEY, record TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE base_profiles (name TEXT PRIMARY KEY, record TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO meta VALUES ('base_seq', 0), ('archived', 0);
DROP TRIGGER events_are_kept;
CREATE TRIGGER events_are_kept BEFORE DELETE ON events
WHEN OLD.seq > (SELECT value FROM meta WHERE name = 'base_seq')
BEGIN SELECT RAISE(ABORT, 'only events that were folded into the base can be deleted'); END;
UPDATE meta SET value = -1 WHERE name = 'view_seq';
)sql",
    // 5: nodes.
    R"sql(
CREATE TABLE nodes (name TEXT PRIMARY KEY, record TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE base_nodes (name TEXT PRIMARY KEY, record TEXT NOT NULL) WITHOUT ROWID;
)sql",
};

}  // namespace

std::int64_t current_schema_version() { return static_cast<std::int64_t>(kMigrations.size()); }

Result<std::int64_t> schema_version(Database& database, const std::string& path) {
  const auto tables = database.read_integer("SELECT count(*) FROM sqlite_schema");
  if (!tables) return tables.error();
  if (*tables == 0) return 0;
  const auto ours = database.read_integer(
      "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name IN ('meta', 'events')");
  if (!ours) return ours.error();
  const auto version =
      *ours == 2 ? database.read_integer("SELECT value FROM meta WHERE name = 'schema_version'")
                 : Result<std::int64_t>(0);
  if (!version) return version.error();
  if (*version < 1) {
    return invalid_input(path +
                         ": an SQLite database, but not one of rubatod; nothing was changed");
  }
  if (*version > current_schema_version()) {
    return invalid_input(fmt::format(
        "{}: schema version {}, written by a newer rubatod; this one supports versions up to {}. "
        "Nothing was changed: use the newer program",
        path, *version, current_schema_version()));
  }
  return version;
}

Status migrate(Database& database, std::int64_t from) {
  if (from == current_schema_version()) return ok_status();
  std::string script = "BEGIN IMMEDIATE;";
  for (auto version = from; version < current_schema_version(); ++version) {
    script += kMigrations[static_cast<std::size_t>(version)];
  }
  script += fmt::format("UPDATE meta SET value = {} WHERE name = 'schema_version';",
                        current_schema_version());
  if (auto status = database.execute(script + "COMMIT"); !status) {
    static_cast<void>(database.execute("ROLLBACK"));
    return status;
  }
  return ok_status();
}

}  // namespace rubato::control
