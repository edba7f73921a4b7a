#!/usr/bin/env bash
# rubatod stop-jobs: refused beside a running daemon; afterwards nothing runs, and the next daemon lets the job go on from there.
source "$RUBATO_SOURCE/tests/cli/helpers.sh"
needs RUBATO_TOY RUBATOD
fail() { echo "FAILED: $*"; exit 1; }
status() { "$RUBATO" status long --json | python3 -c "import json,sys; j=json.load(sys.stdin); print($1)"; }
further_than() { [ "$(status "j['progress'].get('step', 0)")" -gt "$1" ]; }
holds_devices() { [ "$(status "j['held']")" = "$1" ]; }

start_daemon 2
"$RUBATO" submit --name long --devices 2 --checkpoint-every 1h -- "$RUBATO_TOY" --steps 100000000 --compute-us 2000 >"$work/out" 2>&1 ||
  fail "submit: $(cat "$work/out")"
until_true further_than 200
"$RUBATOD" stop-jobs >"$work/out" 2>&1 && fail "stopped the jobs of a running daemon"
holds_devices 2 || fail "the refused command did something"

stop_daemon
"$RUBATOD" stop-jobs --patience 300 >"$work/out" 2>&1 || fail "stop-jobs: $(cat "$work/out")"
grep -q "^1 running jobs" "$work/out" || fail "said: $(cat "$work/out")"
"$RUBATOD" stop-jobs | grep -q "^0 running jobs" || fail "a second time"
compgen -G "$RUBATO_STATE/jobs/1/checkpoints/*" >/dev/null || fail "no checkpoint"

# Without the checkpoint of the stop it would begin with step 0: another one is not due for an hour.
start_daemon 2
until_true holds_devices 2
until_true further_than 400
began_later() { "$RUBATO" events long >"$work/events" && grep -q "leader   from step [1-9]" "$work/events"; }
until_true began_later
"$RUBATO" cancel long >/dev/null 2>&1 || fail "cancel"
until_true holds_devices 0
echo "stop-jobs: checkpointed, stopped, went on"
