#!/usr/bin/env bash
# rubatod stop-jobs is refused while a daemon runs. Afterwards nothing runs, and the next daemon resumes the job from there.
set -uo pipefail
[ -n "${RUBATO_TOY:-}" ] && [ -n "${RUBATOD:-}" ] || { echo "RUBATO_TOY or RUBATOD is not set"; exit 77; }
work=$(mktemp -d)
export RUBATO_STATE=$work/state RUBATO_HOME=$work/home
unset RUBATO_SERVER RUBATO_TOKEN_FILE RUBATO_CA_FILE
daemon=
stop_daemon() { kill "$daemon" && wait "$daemon"; daemon=; }
cleanup() {
  if [ -n "$daemon" ]; then stop_daemon; fi
  "$RUBATOD" stop-jobs --patience 0 >/dev/null 2>&1
  rm -rf "$work"
}
trap cleanup EXIT
fail() { echo "FAILED: $*"; exit 1; }
until_true() { # at most five minutes
  local end=$((SECONDS + 300))
  until "$@" >/dev/null 2>&1; do
    [ "$SECONDS" -lt "$end" ] || fail "never true: $*"
    sleep 0.05
  done
}
start_daemon() {
  "$RUBATOD" --cpu-slots 2 --listen 127.0.0.1:0 >>"$work/log" 2>&1 &
  daemon=$!
  until_true test -e "$RUBATO_STATE/server.url"
}
status() { "$RUBATO" status long --json | python3 -c "import json,sys; j=json.load(sys.stdin); print($1)"; }
further_than() { [ "$(status "j['progress'].get('step', 0)")" -gt "$1" ]; }
holds() { [ "$(status "j['held']")" = "$1" ]; }

start_daemon
"$RUBATO" submit --name long --devices 2 --checkpoint-every 1h -- "$RUBATO_TOY" --steps 100000000 --compute-us 2000 >"$work/out" 2>&1 ||
  fail "submit: $(cat "$work/out")"
until_true further_than 200
"$RUBATOD" stop-jobs >"$work/out" 2>&1 && fail "stopped the jobs of a running daemon"
holds 2 || fail "the refused command did something"

stop_daemon
"$RUBATOD" stop-jobs --patience 300 >"$work/out" 2>&1 || fail "stop-jobs: $(cat "$work/out")"
grep -q "^1 running jobs" "$work/out" || fail "said: $(cat "$work/out")"
"$RUBATOD" stop-jobs | grep -q "^0 running jobs" || fail "a second time"
compgen -G "$RUBATO_STATE/jobs/1/checkpoints/*" >/dev/null || fail "no checkpoint"

# Without the checkpoint at the stop the job would begin with step 0, because the next checkpoint is not due for an hour.
start_daemon
until_true holds 2
until_true further_than 400
began_later() { "$RUBATO" events long | grep -q "leader   from step [1-9]"; }
until_true began_later
"$RUBATO" cancel long >/dev/null 2>&1 || fail "cancel"
until_true holds 0
echo "stop-jobs: checkpointed, stopped, resumed"
