#!/usr/bin/env bash
# Programs that know nothing of Rubato: each run is counted, and jobs end as one would expect.
source "$RUBATO_SOURCE/tests/cli/helpers.sh"
needs RUBATOD RUBATO_TOY
# counted NAME COMMAND: a shell command that notes each of its runs.
counted() { echo "echo \"\$RUBATO_TRY\" >>'$work/runs-$1'; $2"; }
runs() { [ "$(cat "$work/runs-$1" 2>/dev/null | wc -l)" = "$2" ]; }
ran() { # ran NAME TIMES
  checks=$((checks + 1))
  runs "$1" "$2" || failure "$1 did not run $2 times" "$work/runs-$1"
}
kill_daemon() {
  kill -9 "$daemon"
  wait "$daemon" 2>/dev/null
  rm -f "$RUBATO_STATE/server.url"
}
start_daemon 2

# --- Without a mode: run once, by its exit code, with a hint
exits 0 '"exit_code": 0' "not a Rubato program" -- submit --wait -- /bin/true
exits 1 "failed: the program ended with code 1; it is not a Rubato program" "mode: opaque" -- submit --wait -- false
exits 0 '"tries": 1' -- submit --wait --name hello -- python3 -c 'print("hello")'
exits 0 "hello" -- logs hello
exits 0 "has ended (finished); it is not a Rubato program" "docs/training.md" -- why hello
exits 0 "exit code 0 after 1 try" "hint" "mode         opaque" -- status hello
exits 0 "warning" "not a Rubato program" -- events hello
exits 0 -- submit --wait --name once -- sh -c "$(counted once 'exit 0')"
exits 1 "ended with code 7" "the end of its log" "  two" -- submit --wait --name seven -- sh -c "$(counted seven 'echo one; echo two; exit 7')"
exits 1 "killed by signal 9 (Killed)" -- submit --wait --name nine -- sh -c "$(counted nine 'kill -9 $$')"
exits 0 "ended with code 7; the end of its log" "  two" -- why seven
for name in once seven nine; do ran "$name" 1; done

# --- mode: opaque
exits 1 "a single number" -- submit --mode opaque --devices 1..2 -- /bin/true
exits 1 "--retries: only for opaque jobs" -- submit --retries 2 -- /bin/true
exits 0 '"exit_code": 0' -- submit --wait --mode opaque --name clear -- sh -c "$(counted clear 'exit 0')"
check "no hint" -- bash -c "! grep -q hint '$work/stdout'"
ran clear 1
exits 1 "ended with code 3" -- submit --wait --mode opaque --name zero -- sh -c "$(counted zero 'exit 3')"
ran zero 1
exits 1 "ended with code 3 (try 4 of 4)" -- submit --wait --mode opaque --retries 3 --name four -- sh -c "$(counted four 'exit 3')"
ran four 4
check "tries are counted" -- test "$(tr '\n' ' ' <"$work/runs-four")" = "1 2 3 4 "
exits 0 -- submit --wait --mode opaque --devices 2 --name env -- sh -c 'echo "id $RUBATO_JOB_ID name $RUBATO_JOB_NAME devices $RUBATO_DEVICES try $RUBATO_TRY"; test -d "$RUBATO_JOB_DIR" && ! test "${RUBATO_WORKER+set}"'
json_of status env
exits 0 "id $(field "$work/json" "j['id']") name env devices 2 try 1" -- logs env

# --- A Rubato program that is told apart, and one that never joins
exits 0 '"state_sha256"' -- submit --wait --devices 2 -- "$RUBATO_TOY" --steps 30
exits 1 "5 failures in a row" "killed by signal 9 before it joined" -- submit --wait --mode consistent --devices 1 --name oom -- sh -c "$(counted oom 'kill -9 $$')"
ran oom 5

# --- The daemon is killed in the middle, and what ends meanwhile is found
wait_for_file() { echo "while ! test -e '$work/$1'; do sleep 0.02; done; $2"; }
exits 0 -- submit --mode opaque --name middle -- sh -c "$(counted middle "$(wait_for_file middle-go 'exit 0')")"
exits 0 -- submit --devices 1 --name plain -- sh -c "$(counted plain "$(wait_for_file middle-go 'exit 2')")"
until_true runs middle 1
until_true runs plain 1
kill_daemon
touch "$work/middle-go"
start_daemon 2
until_true phase_is middle finished
until_true phase_is plain failed
kill_daemon
start_daemon 2
ran middle 1
ran plain 1

# --- Preempted: SIGTERM, time to save, queued again, run again, and no try is lost
exits 0 -- submit --mode opaque --devices 2 --grace 1h --name moved -- sh -c \
  "$(counted moved "trap 'sleep 0.5; echo saved >\"$work/saved\"; exit 1' TERM; test -e '$work/saved' && exit 0; touch '$work/moving'; while :; do sleep 0.05; done")"
until_true test -e "$work/moving"
exits 0 "reservation" -- reserve 1 --for 10m
until_true phase_is moved queued
until_true test -e "$work/saved"
until_true nothing_held
ran moved 1
json_of reserve list
exits 0 -- reserve release "$(field "$work/json" "j['reservations'][0]['number']")"
until_true phase_is moved finished
ran moved 2
exits 0 "exit code 0 after 1 try" -- status moved
# One that does not listen is killed when its grace is over.
exits 0 -- submit --mode opaque --grace 0.2 --name deaf -- sh -c "$(counted deaf "trap '' TERM; while :; do sleep 0.05; done")"
until_true runs deaf 1
exits 0 -- pause deaf
until_true nothing_held
exits 0 -- resume deaf
until_true runs deaf 2
exits 0 -- cancel deaf
until_true nothing_held

# --- Time limits, also over a restart of the daemon
exits 1 "--time-limit: 0; expected a duration" -- submit --time-limit 0 -- /bin/true
exits 0 -- submit --mode opaque --time-limit 3s --name limited -- sh -c "$(counted limited 'exec sleep 1000')"
exits 0 -- submit --time-limit 3s --devices 1 --name trains -- "$RUBATO_TOY" --steps 100000000 --compute-us 5000
until_true runs limited 1
kill_daemon
start_daemon 2
until_true phase_is limited failed
until_true phase_is trains failed
until_true nothing_held
exits 0 "its time limit is over: it held devices for" "time_limit is 3 s" -- why limited
exits 0 "time limit" " of 3s" -- status limited
exits 0 "its last checkpoint is kept" -- why trains
json_of status trains
check "there is a checkpoint" -- bash -c "ls '$RUBATO_STATE/jobs/$(field "$work/json" "j['number']")/checkpoints' | grep -q rubato"
check "it was not ended early" -- test "$(field "$work/json" "j['held_s'] >= 3")" = True
ran limited 1

# --- Without a daemon
exits 0 '"exit_code": 0' "not a Rubato program" -- run --workers 2 --dir "$work/true" -- /bin/true
exits 1 "the program ended with code 1" -- run --dir "$work/false" -- false
finish
