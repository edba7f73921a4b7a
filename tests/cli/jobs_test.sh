#!/usr/bin/env bash
# Which job is meant: ids, names and folders, of the daemon and of 'rubato run', for every command; and what commands do with
# jobs of the daemon that they once did only in folders.
source "$RUBATO_SOURCE/tests/cli/helpers.sh"
needs RUBATO_TOY RUBATOD
forever=("$RUBATO_TOY" --steps 100000000 --compute-us 2000)

start_daemon 2

# --- Two jobs of one name
exits 0 "j1" -- submit --name twin --devices 1 -- "${forever[@]}"
exits 0 "j2" -- submit --name twin --devices 1 -- "${forever[@]}"
for command in "status twin" "why twin" "logs twin" "events twin" "cancel twin" "pause twin" "set twin priority=1" "scale twin 1" \
  "ps twin" "profile twin" "profile twin --max 1" "migrate twin 0" "stop twin" "replay twin"; do
  # shellcheck disable=SC2086 # several words
  exits 1 "'twin' means 2 active jobs: j1, j2; use the id" -- $command
done
exits 0 "j2 twin cancelled" -- cancel j2
exits 0 "job          j1 twin" -- status twin
exits 0 "j1 twin cancelled" -- cancel twin
exits 1 "j2 has already ended" -- cancel twin
exits 0 "j2 twin" -- status twin

# --- Names and paths
exits 1 "there is no job j2/why" -- status j2/why
exits 1 "there is no job x/y" -- cancel x/y
exits 0 "j3" -- submit --name 12 --devices 1..2 -- "${forever[@]}"
exits 0 "j3 12" -- status 12

# --- Fields that change while a job lives
exits 0 "j3 12" "next: rubato status j3" -- set 12 priority=7
check "the priority is another" -- holds "j['document']['priority'] == 7" status j3
exits 1 "--help" -- set j3
exits 1 "must be at most 1000, not 5000" -- set j3 priority=5000
exits 0 "j3 long" -- set j3 name=long priority=-2
check "name and priority" -- holds "j['name'] == 'long' and j['document']['priority'] == -2" status long
exits 1 "already ended" -- set j1 priority=1

# --- ps, by id, name, number and folder
until_true holds "j['held'] == 2 and j['progress'].get('step', 0) > 50" status long
for job in j3 3 long "$RUBATO_STATE/jobs/3"; do
  check "ps $job" -- holds "j['id'] == 'j3' and len(j['workers']) == 2" ps "$job"
done
check "ps lists the jobs of this state folder" -- holds "[x['id'] for x in j['jobs']] == ['j3']" ps
nothing_elsewhere() { RUBATO_STATE=$work/elsewhere holds "j['jobs'] == []" ps; }
check "and of no other" -- nothing_elsewhere
exits 1 "j3 is a job of the daemon" "rubato pause" -- migrate long 0
exits 1 "j3 is a job of the daemon" "rubato cancel" -- stop j3
exits 1 "--batch" "daemon" -- scale j3 2 --batch 5

# --- profile: what the daemon has measured; or it measures, through the daemon, and leaves the job as it was
has_profile() { holds "any(p['devices'] == 2 for p in j['profile'])" profile long; }
until_true has_profile
exits 0 "DEVICES" "SAMPLES/S" "rubato profile j3 --max" -- profile j3
exits 0 "j3: measuring on 1 device" "j3: measuring on 2 devices" "the pin is removed" -- profile long --min 1 --max 2 --json
check "profile has a row for each" -- test "$(field "$work/stdout" "[p['devices'] for p in j['profile']] == [1, 2] and all(p['steps_per_s'] > 0 for p in j['profile'])")" = True
check "the pin is removed" -- holds "j['scale'] == 0" status j3
exits 1 "1 to 2 devices" -- profile "$RUBATO_STATE/jobs/3" --min 3 --max 4
exits 0 -- scale j3 2
for signal in INT TERM; do
  rm -f "$work/profile.log" # what the last one printed says nothing of this one
  "$RUBATO" profile j3 --min 1 --max 1 >"$work/profiled" 2>"$work/profile.log" &
  profiler=$!
  until_true grep -q "j3: " "$work/profile.log"
  kill -"$signal" "$profiler"
  wait "$profiler" # with 0 when it was just ready
  check "the earlier pin is back after SIG$signal" -- holds "j['scale'] == 2" status j3
done
exits 0 -- scale j3 0
until_true holds "j['held'] == 2" status j3

# --- A log that was moved aside
mkdir -p "$work/moved"
"$RUBATO" submit --name talker --wait -- "$RUBATO_TOY" --steps 20 >/dev/null 2>&1
json_of status talker
logs=$RUBATO_STATE/jobs/$(field "$work/json" "j['number']")/logs
worker=$(basename "$(find "$logs" -name 'worker-*.log' | sort -V | head -n 1)" .log)
printf 'one\ntwo\n' >"$logs/$worker.log.2"
printf 'three\nfo' >"$logs/$worker.log.1"
printf 'ur\nfive\n' >"$logs/$worker.log"
"$RUBATO" logs talker --tail 2 --worker "${worker#worker-}" >"$work/tail"
check "the last two lines of the whole log" -- test "$(cat "$work/tail")" = "$(printf 'four\nfive')"

# --- Jobs of 'rubato run' beside those of the daemon
"$RUBATO" run --name here --dir "$work/here" --workers 1 --failure-timeout 60 --quiet -- "${forever[@]}" >"$work/here.out" 2>&1 &
launchers+=($!)
until_true holds "j['state'] == 'running' and j.get('step', 0) > 5" ps here
exits 0 "here running" "4 logical workers," "target 1 worker" -- status here
exits 0 "view" -- events here
exits 0 "epoch" -- logs here --tail 1
exits 1 "here is a job of 'rubato run'" "rubato stop here" -- cancel here
check "ps lists both kinds" -- holds "sorted(str(x['id']) for x in j['jobs']) == ['None', 'j3']" ps
exits 0 -- submit --name here --devices 1 -- "${forever[@]}"
exits 1 "'here' means two jobs: j5" "$work/here" "use the id or the folder" -- scale here 1
exits 0 "here running" -- status "$work/here"
exits 0 -- cancel j5
exits 0 "here will run on 1 worker;" -- scale here 1
timeout 300 "$RUBATO" events -f here >"$work/followed" &
follower=$!
exits 0 -- stop here
check "events -f of a job of 'rubato run' ends with it" -- wait "$follower"

# --- An adaptive job: replay by name; and a batch range that the program does not fit
exits 0 '"state_sha256"' -- submit --wait --name fit --mode adaptive --batch 4..60 --devices 1..2 -- "$RUBATO_TOY" --steps 40 --batch 5
exits 0 "same bits" -- replay fit
exits 1 "outside the batch range 64..256" "devices" "batch" -- submit --wait --name unfit --mode adaptive --batch 64..256 --devices 1..2 -- "$RUBATO_TOY" --steps 40 --batch 5

# --- Reservations
exits 0 "reservation 1: 2 devices" -- reserve 2 --for 10m
exits 1 "all 2 devices are reserved already" -- reserve 1 --for 10m
until_true phase_is j3 queued
exits 0 "reservation 1 holds 2 devices" -- why j3
exits 0 -- reserve release 1

# --- A daemon that does not run: its jobs go on, and are found by id and name
until_true holds "j['held'] == 2 and j['progress'].get('step', 0) > 50" status j3
stop_daemon
for job in j3 3; do
  # Its workers may still be starting after the reservation.
  until_true holds "j['id'] == 'j3' and len(j['workers']) > 0" ps "$job"
done
check "ps NAME without the daemon" -- holds "j['id'] == 'j4' and j['state'] == 'finished' and j['step'] == 20" ps talker
exits 1 "no daemon runs on this machine" -- profile j3 --max 2
finish
