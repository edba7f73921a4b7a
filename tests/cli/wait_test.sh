#!/usr/bin/env bash
# rubato wait and the filters of rubato queue, with a real daemon.
source "$RUBATO_SOURCE/tests/cli/helpers.sh"
needs RUBATO_TOY RUBATOD

start_daemon 2
exits 0 -- submit --name quick --devices 1 -- "$RUBATO_TOY" --steps 20
exits 0 "quick finished" -- wait quick
exits 0 "quick finished" -- wait j1 --timeout 1h # it has ended already
exits 0 -- submit --name broken --devices 1 -- "$RUBATO_TOY" --fail 1
exits 1 "broken failed: " -- wait quick broken
exits 0 -- submit --name long --devices 1 -- "$RUBATO_TOY" --steps 100000000 --compute-us 5000
exits 2 "not all jobs have ended within 0.2s" "quick finished" -- wait quick long --timeout 0.2s
exits 1 "--timeout" -- wait long --timeout soon
exits 1 "there is no job nothing" -- wait nothing
exits 1 "JOBS is missing" "rubato wait --help" -- wait

# A daemon that is restarted meanwhile is waited for.
timeout 300 "$RUBATO" wait quick long >"$work/waited" 2>&1 &
waiter=$!
until_true phase_is long running
until_true grep -q "quick finished" "$work/waited"
stop_daemon
start_daemon 2
exits 0 "cancelled" -- cancel long
wait "$waiter"
check "a cancelled job is not a success" -- test "$?" = 1
check "it says so" -- grep -q "long cancelled" "$work/waited"

# --- Filters
names() { "$RUBATO" queue "$@" --json 2>/dev/null >"$work/json" && field "$work/json" "' '.join(x['name'] for x in j['jobs'])"; }
shows() { # shows NAMES -- OPTIONS
  local names=$1
  shift 2
  check "queue $*" -- test "$(names "$@")" = "$names"
}
shows "quick broken long" -- --all
shows "long broken quick" -- --all --newest-first
shows "quick" -- --phase finished
shows "broken long" -- --phase failed,cancelled
shows "quick broken long" -- --all --since 1h --tenant default
shows "" -- --all --tenant nobody
exits 0 "no job is like that" -- queue --tenant nobody
exits 1 "--since" -- queue --since soon
exits 1 "--phase: 'fnished' is not one of" "did you mean 'finished'" -- queue --phase fnished
finish
