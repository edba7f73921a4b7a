#!/usr/bin/env bash
# rubato rm, and queue with a long history, with a real daemon.
source "$RUBATO_SOURCE/tests/cli/helpers.sh"
needs RUBATO_TOY RUBATOD

start_daemon 2
for name in one two three four; do
  exits 0 -- submit --name "$name" --devices 1 -- /bin/true
  exits 0 "$name finished" -- wait "$name"
done
exits 0 -- submit --name long --devices 1 -- "$RUBATO_TOY" --steps 100000000 --compute-us 5000
nothing_of_ended_jobs_is_held() { holds "all(x['held'] == 0 for x in j['jobs'] if x['phase'] == 'finished')" queue --all; }
until_true nothing_of_ended_jobs_is_held

# --- queue: the newest ones, and those before a time
names() { "$RUBATO" queue "$@" --json 2>/dev/null >"$work/json" && field "$work/json" "' '.join(x['name'] for x in j['jobs'])"; }
shows() { # shows NAMES -- OPTIONS
  local names=$1
  shift 2
  check "queue $*" -- test "$(names "$@")" = "$names"
}
shows "four long" -- --all --limit 2
shows "long four three" -- --all --limit 3 --newest-first
shows "three four" -- --all --limit 2 --phase finished
shows "long" -- --limit 7
shows "" -- --all --before 1h
shows "" -- --all --before 2020-01-01
shows "one two three four long" -- --all --before "2100-01-01 12:30"
exits 1 "--before: 'soon' is not a time" -- queue --all --before soon
exits 1 "--limit" -- queue --limit 0

# --- rm
exits 1 "j5 is running; only a job that has ended can be removed" "rubato cancel j5" -- rm long
exits 0 "j2 two removed (finished)" -- rm two
exits 1 "there is no job two" -- status two
exits 1 "there is no job j2" -- rm j2
shows "one three four long" -- --all
folder_is_gone() { [ ! -e "$RUBATO_STATE/jobs/2" ] && [ ! -e "$RUBATO_STATE/jobs/2.removed" ]; }
until_true folder_is_gone
exits 0 "j1 one removed" "j4 four removed" -- rm one j4
exits 1 "JOBS is missing" -- rm
"$RUBATO" events --json >"$work/events"
recorded() { grep '"type":"removed"' "$work/events" | grep '"job":2[,}]' | grep -q '"by":"admin"'; }
check "who did it is recorded" -- recorded

# --- The number is not used again, and a restarted daemon agrees
exits 0 "j6" -- submit --name six --devices 1 -- /bin/true
exits 0 "six finished" -- wait six
exits 0 "cancelled" -- cancel long
until_true nothing_held
stop_daemon
"$RUBATOD" check >"$work/checked" 2>&1
check "log and tables agree" -- grep -q "the same state" "$work/checked"

# --- Folders go, jobs stay
"$RUBATOD" --isolation none --cpu-slots 2 --listen 127.0.0.1:0 --retain-folders 1 --retain-events 10 >>"$work/log" 2>&1 &
daemon=$!
until_true test -e "$RUBATO_STATE/server.url"
one_folder() { [ "$(ls "$RUBATO_STATE/jobs" | wc -l)" = 1 ]; }
until_true one_folder
shows "three long six" -- --all
exits 1 "--retain-folders" -- logs three
stop_daemon
"$RUBATOD" check >"$work/checked" 2>&1
check "log and tables agree when it is folded" -- grep -q "the same state" "$work/checked"
check "and it says so" -- grep -q "are folded" "$work/checked"
"$RUBATOD" --isolation none --retain-folders soon >"$work/refused" 2>&1
check "a wrong option is refused" -- grep -q -- "--retain-folders: 'soon': expected an age" "$work/refused"
finish
