#!/usr/bin/env bash
# Labels, dependencies and arrays as people use them, with a real daemon.
source "$RUBATO_SOURCE/tests/cli/helpers.sh"
needs RUBATOD

start_daemon 2
until_go="until test -e $work/go; do sleep 0.05; done"
opaque() { exits 0 -- submit --mode opaque --grace 1s "$@"; }
names() { "$RUBATO" queue "$@" --json 2>/dev/null >"$work/json" && field "$work/json" "' '.join(x['name'] for x in j['jobs'])"; }
shows() { # shows NAMES -- OPTIONS
  local names=$1
  shift 2
  check "queue $*" -- test "$(names "$@")" = "$names"
}

# --- Labels
opaque --name red --label team=vision --label run=7 -- sh -c "$until_go"
opaque --name blue --label team=audio -- sh -c "$until_go"
shows "red" -- --label team=vision
shows "red" -- --label team=vision --label run=7
shows "" -- --label team=vision --label run=8
shows "red blue" -- --name '*e*' --before 0s
shows "blue" -- --name 'bl?e'
shows "" -- --before 1h
exits 0 "no job is like that" -- queue --label team=none
exits 0 "labels       run=7,team=vision" -- status red
check "labels in the JSON" -- holds "j['labels'] == {'run': '7', 'team': 'vision'}" status red
exits 1 "--label 'team': expected NAME=VALUE" -- queue --label team
exits 1 "--label 'te am=x': expected a name of at most 63" -- submit --label 'te am=x' -- true
cat >"$work/job.yaml" <<EOF
run: "true"
mode: opaque
labels: {team: vision, run: 7}
after: {job: red, when: ended}
EOF
exits 2 "waits for j1 to end" -- plan -f "$work/job.yaml"

# --- After
exits 0 -- submit -f "$work/job.yaml" --name tidy
opaque --name second --after red --after blue -- true
opaque --name never --after red:failed -- true
exits 0 "waits-for-jobs: waits for j1 to finish and j2 to finish" "j1 red is running" "next: starts on 1 device when j" \
  "at a time that depends on jobs of unknown length" -- why second
exits 0 "waits for    j1 (finished), j2 (finished)" -- status second
exits 0 "waits-for-jobs" -- queue
exits 1 "after: there is no job nobody" -- submit --after nobody -- true
exits 1 "--after 'red:soon': expected JOB" -- submit --after red:soon -- true
touch "$work/go"
exits 0 "second finished" "tidy finished" -- wait second tidy
exits 1 "never cancelled: j1 finished, and this job was to start after j1 had failed" -- wait never
exits 0 "has ended (cancelled): j1 finished" -- why never
rm "$work/go"

# --- Arrays
"$RUBATO" submit --mode opaque --grace 1s --name sweep --array 0-4%2 --label run=8 --key once -- \
  sh -c "echo index \$RUBATO_ARRAY_INDEX of \$RUBATO_ARRAY_SIZE; $until_go" >"$work/id" 2>/dev/null
array=$(cat "$work/id")
check "it prints the id of the array" -- test "$array" = "j6[]"
"$RUBATO" submit --mode opaque --grace 1s --name sweep --array 0-4%2 --label run=8 --key once -- true >"$work/id" 2>/dev/null
check "the same with the same key" -- test "$(cat "$work/id")" = "$array"
shows "sweep[0] sweep[1] sweep[2] sweep[3] sweep[4]" -- --label run=8
running() { [ "$(names --label run=8 --phase running)" = "$1" ]; }
until_true running "sweep[0] sweep[1]"
"$RUBATO" queue >"$work/queue"
check "one row for an array" -- grep -qE '^j6\[\] +sweep\[5\] .*2 running, 3 queued|^j6\[\] +sweep\[5\] .*3 queued, 2 running' "$work/queue"
check "only one" -- test "$(grep -c sweep "$work/queue")" = 1
"$RUBATO" queue --expand >"$work/queue"
check "all rows if wanted" -- test "$(grep -c sweep "$work/queue")" = 5
exits 0 "array-limit: waits for its turn: of the 5 jobs of sweep, 2 may run" -- why 'sweep[4]'
exits 0 "index 3 of j6[], 5 jobs, 2 at a time" -- status 'j6[3]'
exits 1 "'sweep' is an array of 5 jobs, j6 to j10" -- status sweep
until_true grep -q "index 1 of 5" <("$RUBATO" logs 'sweep[1]')
exits 0 "==> j6 sweep[0] <==" "index 0 of 5" "==> j7 sweep[1] <==" -- logs sweep
exits 1 "one of its jobs can be followed" -- logs -f sweep
exits 0 "j10 sweep[4] cancelled" -- cancel 'sweep[4]'
exits 2 "not all jobs have ended within 0.2s" -- wait sweep --timeout 0.2s
touch "$work/go"
exits 1 "sweep[0] finished" "sweep[3] finished" "sweep[4] cancelled" -- wait "$array"
rm "$work/go"
exits 0 "small submitted, 3 jobs" "small[3] finished" -- submit --mode opaque --name small --array 1-3 --wait -- true
exits 1 "--array" "expected LOW-HIGH" -- submit --array 5 -- true
exits 1 "--array" "an array has at most 1000" -- submit --array 0-1000 -- true

# --- Several at once
opaque --name many --array 0-9 --label run=9 -- sh -c "$until_go"
opaque --name single --label run=9 -- sh -c "$until_go"
opaque --name other -- sh -c "$until_go"
exits 2 "nothing is cancelled yet; to cancel 11 jobs" -- cancel --label run=9
exits 0 "10 jobs cancelled" -- cancel many
exits 0 "1 job cancelled" -- cancel --label run=9 --all-matching
shows "other" --
exits 1 "expected a job, or options that select jobs" -- cancel
exits 1 "no active job is like that" -- cancel --label run=9
exits 0 "cancelled" -- cancel other
finish
