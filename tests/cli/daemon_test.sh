#!/usr/bin/env bash
# The commands that talk to the daemon, with a real rubatod and jobs of the toy program: what they
# print, their exit codes, and what they say to bad input.
source "$RUBATO_SOURCE/tests/cli/helpers.sh"
needs RUBATO_TOY RUBATOD
narrow() { ! awk 'length > 100' "$1" | grep -q .; }

# --- Without a daemon
exits 1 "no daemon runs on this machine" "--server" -- queue
exits 1 "cannot reach http://127.0.0.1:1" -- --server http://127.0.0.1:1 queue
exits 1 "expected http://" -- --server 127.0.0.1:1 queue
exits 1 "nothing to run" -- submit
exits 0 '"Rubato job"' -- schema
exits 0 '"openapi": "3.1.0"' -- schema --openapi

start_daemon 2

# --- Documents
printf 'run: %s --steps 50\nname: short\ndevices: 1..2\n' "$RUBATO_TOY" >"$work/job.yaml"
exits 0 '"state_sha256"' -- submit -f "$work/job.yaml" --wait
exits 0 "short" "finished" "1-2" -- queue --all
check "the table fits 100 columns" -- narrow "$work/stdout"
exits 0 "finished" "short" -- status short
exits 0 "finished" -- why short
exits 0 "submitted" "finished" -- events short
exits 0 "no active jobs" -- queue
printf 'run: ./a\ndevices: 4..2\n' >"$work/bad.yaml"
exits 1 "$work/bad.yaml:2:10" "2..4" -- submit -f "$work/bad.yaml"
printf 'run: ./a\nprioritty: 1\n' >"$work/bad.yaml"
exits 1 "$work/bad.yaml:2:1" "priority" -- submit -f "$work/bad.yaml"
exits 1 "no-such-file" -- submit -f "$work/no-such-file"
exits 1 "cannot start $PWD/no-such-program: No such file" -- submit -- ./no-such-program
exits 1 "cannot run in $work/none: No such file" -- submit --dir "$work/none" -- "$RUBATO_TOY"
exits 1 "devices" "this machine has 2" -- submit --devices 5 -- "$RUBATO_TOY"
exits 1 "--mode: " -- submit --mode elastic -- "$RUBATO_TOY"
exits 1 "NAME=VALUE" -- submit --env x -- "$RUBATO_TOY"
exits 1 "no job" -- status nothing

# --- A job that fails, and its logs
exits 1 "failed" "next: rubato logs" -- submit --name broken --wait -- "$RUBATO_TOY" --fail 1

# --- A long job
exits 0 "next: rubato status" -- submit --name long --devices 1..2 --env A=B -- "$RUBATO_TOY" --steps 100000000 --compute-us 5000
until_true phase_is long running
exits 0 "long" "running" -- queue
exits 0 "long" "2 cpu devices" -- cluster
# Where its devices are: this machine is a node.
exits 0 "nodes        $(uname -n | cut -d. -f1) (" -- status long
check "the API names the node" -- holds "j['nodes'][0]['node'] == '$(uname -n | cut -d. -f1)' and j['nodes'][0]['device_type'] == 'cpu'" status long
check "the cluster has one node" -- holds "[(n['devices'], n['device_type']) for n in j['nodes']] == [(2, 'cpu')]" cluster
exits 0 "long" "FINISH" -- sim --from-live
exits 0 "fifo" "tiresias" -- sim --from-live --policy fifo,tiresias
exits 1 "did you mean 'fifo'" -- sim --from-live --policy fifp
exits 0 "would start now" -- plan --devices 1 -- "$RUBATO_TOY"
exits 0 "2 cpu devices" "running" -- top
has_trained() { [[ $("$RUBATO" logs long --worker 0 2>/dev/null) == *epoch* ]]; }
until_true has_trained
exits 0 "epoch" -- logs long --tail 3 --worker 0
exits 0 "scale" -- scale long 1 --json
exits 0 "next: rubato resume" "paused" -- pause long
exits 1 "paused" -- pause long
exits 0 "long" -- resume long
until_true phase_is long running
exits 0 "next: rubato cluster" "reservation" -- reserve 2 --for 10m
exits 0 "DEVICES" -- reserve list
exits 2 "cannot be placed now" -- plan --devices 1 -- "$RUBATO_TOY"
until_true phase_is long queued
exits 0 "remedy" "reserv" -- why long
json_of reserve list
exits 0 "released" -- reserve release "$(field "$work/json" "j['reservations'][0]['number']")"
exits 1 "no reservation" -- reserve release 99999
exits 1 "not a duration" -- reserve 1 --for soon
exits 1 "how many devices" -- reserve
until_true phase_is long running
exits 0 "fifo" "next:" -- policy use fifo
exits 1 "unknown policy" -- policy use fifi
exits 0 "* fifo" -- policy
exits 0 "* fifo" -- policy show

# --- Tenants
"$RUBATO" tenants set alice --weight 2 >"$work/alice.token" 2>/dev/null
check "a token was printed" -- grep -q . "$work/alice.token"
exits 0 "alice" "2" -- tenants
exits 0 "no active jobs" -- --token-file "$work/alice.token" queue
exits 1 "no job" -- --token-file "$work/alice.token" cancel long
exits 1 "administrator" -- --token-file "$work/alice.token" reserve 1 --for 1m
exits 1 "one word" -- --token-file "$work/job.yaml" queue
echo nobody >"$work/wrong.token"
exits 1 "wrong.token is not known" "RUBATO_TOKEN_FILE" -- --token-file "$work/wrong.token" queue
exits 1 "--token-file" "RUBATO_TOKEN_FILE" -- --server "$(cat "$RUBATO_STATE/server.url")" queue

# --- Streams that follow
tail_is_cancelled() { tail -n 1 "$work/followed" | grep -q '"cancelled"'; }
timeout 300 "$RUBATO" events -f long --json >"$work/followed" &
follower=$!
timeout 300 "$RUBATO" logs -f long >"$work/log-followed" &
reader=$!
until_true grep -q '"submitted"' "$work/followed"
exits 0 "cancelled" -- cancel long
check "events -f ends with the job" -- wait "$follower"
check "its end was the last event" -- tail_is_cancelled
check "logs -f ends with the job" -- wait "$reader"
exits 0 "cancelled" -- events -f long
exits 0 -- events -f long --after 1000000
exits 1 "ended" -- cancel long
until_true nothing_held

# --- Every command that talks to the daemon has JSON
for command in "queue --all" "status short" "why short" "cluster" "tenants" "policy" "reserve list" "top" "sim --from-live"; do
  # shellcheck disable=SC2086 # several words
  "$RUBATO" $command --json >"$work/json" 2>/dev/null
  check "$command --json" -- python3 -m json.tool "$work/json"
done

# --- The log cannot be written for a while. What happened meanwhile is recorded afterwards. The job ends only during that time.
exits 0 "next: rubato status" -- submit --name patient --devices 1 --env TOY_HURRY_FILE="$work/hurry" -- \
  "$RUBATO_TOY" --steps 20000 --compute-us 5000
until_true phase_is patient running
json_of status patient
cat >"$work/lock.py" <<'PYTHON'
import os, sqlite3, sys, time
database, log, result, hurry = sys.argv[1:]
refused = lambda: open(log).read().count("locked")
before = refused()
connection = sqlite3.connect(database, timeout=300, isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
open(hurry, "w").close()
end = time.monotonic() + 300
while not os.path.exists(result) and time.monotonic() < end:
    time.sleep(0.05)
while refused() <= before and time.monotonic() < end:
    time.sleep(0.05)
connection.execute("ROLLBACK")
sys.exit(0 if time.monotonic() < end else 1)
PYTHON
check "events are refused while the log is locked" -- python3 "$work/lock.py" "$RUBATO_STATE/rubato.db" "$work/log" \
  "$RUBATO_STATE/jobs/$(field "$work/json" "j['number']")/result.json" "$work/hurry"
until_true phase_is patient finished
until_true holds "j['held'] == 0" status patient

# --- Completion and manual page
for shell in bash zsh fish; do
  exits 0 reserve token-file -- completion "$shell"
done
"$RUBATO" completion bash >"$work/completion"
check "the bash completion is valid bash" -- bash -n "$work/completion"
complete_words() {
  bash -c 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _rubato; echo "${COMPREPLY[@]}"' - "$work/completion" "$@"
}
check "completes subcommands" -- test "$(complete_words rubato reserve re)" = release
check "completes options" -- test "$(complete_words rubato submit --prio)" = --priority
"$RUBATO" manpage >"$work/rubato.1"
for command in $("$RUBATO" --help | sed -n '/^Subcommands:/,$s/^  \([a-z]\+\) .*/\1/p'); do
  check "the manual page describes $command" -- grep -q "^\.SS rubato $command" "$work/rubato.1"
done
if command -v groff >/dev/null; then
  groff -man -Tascii -ww -z "$work/rubato.1" 2>"$work/groff"
  check "the manual page has no groff warnings" -- test ! -s "$work/groff"
fi
finish
