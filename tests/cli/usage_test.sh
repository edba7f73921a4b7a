#!/usr/bin/env bash
# rubato usage: what it adds up is what the jobs say, also after a restart.
source "$RUBATO_SOURCE/tests/cli/helpers.sh"
needs RUBATOD RUBATO_TOY
start_daemon 2
exits 0 "TENANT" "total" "0" -- usage
exits 0 -- submit --wait --name trains --devices 2 -- "$RUBATO_TOY" --steps 200 --compute-us 2000
exits 0 -- submit --wait --name any --mode opaque -- sleep 0.3
exits 0 -- submit --wait --name unsaid -- sh -c true

adds_up() {
  "$RUBATO" usage --by job --json >"$work/usage" && "$RUBATO" queue --all --json >"$work/jobs" && python3 - "$work/usage" "$work/jobs" <<'P'
import json, sys
usage, jobs = (json.load(open(path)) for path in sys.argv[1:])
rows = {row["key"]: row for row in usage["rows"]}
for job in jobs["jobs"]:
    row = rows[job["id"]]
    assert abs(row["held_s"] - job["device_s"]) < 1e-3 * job["device_s"] + 1e-6, (row, job)
    assert 0 < row["trained_s"] <= row["held_s"] + 1e-9, row
    assert row["name"] == job["name"] and row["tenant"] == "default", row
assert rows["j1"]["trained_s"] < rows["j1"]["held_s"], "starting is not training"
assert abs(rows["j2"]["trained_s"] - rows["j2"]["held_s"]) < 1e-9, "an ordinary program trains all the time"
assert abs(rows["j3"]["trained_s"] - rows["j3"]["held_s"]) < 1e-9, "also if nobody said that it is one"
assert abs(sum(row["held_s"] for row in rows.values()) - usage["held_s"]) < 1e-6 and usage["jobs"] == 3
P
}
check "usage is what jobs held" -- adds_up
stop_daemon
start_daemon 2
check "and stays so after a restart" -- adds_up
exits 0 "default" "3" "from $(date -u +%Y-%m)-01" -- usage --by tenant
exits 0 "(daemon's)" -- usage --by user
exits 0 "(none)" -- usage --by label
check "nothing happened then" -- holds "j['rows'] == [] and j['to'] == '2020-02-29'" usage --month 2020-02
check "days" -- holds "j['from'] == '2020-02-03' and j['to'] == '2020-02-04'" usage --from 2020-02-03 --to 2020-02-04
exits 1 "--month" "2026-11" -- usage --month soon
exits 1 "from: expected a day" -- usage --from 2026-02-31
exits 1 "--by" "colour" -- usage --by colour
exits 1 "--month" -- usage --month 2026-11 --from 2026-11-01
finish
