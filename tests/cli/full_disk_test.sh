#!/usr/bin/env bash
# The disk under the whole daemon is full: it becomes read-only, says so, and recovers by itself. Its running job goes on.
if [ -z "${RUBATO_OWN_MOUNTS:-}" ]; then
  unshare --mount true 2>/dev/null || { echo "no right to mount: nothing to test"; exit 77; }
  RUBATO_OWN_MOUNTS=1 exec unshare --mount --propagation private bash "$0"
fi
. "$RUBATO_SOURCE/tests/cli/helpers.sh"
needs RUBATOD RUBATO_TOY
mkdir -p "$RUBATO_STATE"
mount -t tmpfs -o size=16m,mode=700 tmpfs "$RUBATO_STATE" || { echo "no tmpfs: nothing to test"; exit 77; }
trap 'end_everything 2>/dev/null; umount -l "$RUBATO_STATE"; rm -rf "$work"' EXIT

get() { # get PATH: status and body
  python3 - "$(cat "$RUBATO_STATE/server.url")$1" "$(cat "$RUBATO_STATE/admin.token")" <<'PYTHON'
import sys, urllib.request, urllib.error
request = urllib.request.Request(sys.argv[1], headers={"Authorization": "Bearer " + sys.argv[2]})
try:
    answer = urllib.request.urlopen(request)
except urllib.error.HTTPError as error:
    answer = error
print(answer.status, answer.read().decode())
PYTHON
}
answers() { get "$1" | grep -F -- "$2" >/dev/null; }  # not -q: whoever prints shall end
step() { json_of status j1 && field "$work/json" "j['progress'].get('step', 0)"; }
further() { [ "$(step)" -gt "$1" ]; }
fill() { dd if=/dev/zero of="$RUBATO_STATE/fill$1" bs=4k 2>/dev/null; true; }
# The write-ahead log has room that is already its own; large submissions use it up.
long=$(printf 'x%.0s' $(seq 50000))
submit_large() { "$RUBATO" submit --name "large" --devices 1 -- "$RUBATO_TOY" "$long"; }
until_refused() {
  local i
  for i in $(seq 400); do
    fill "$i"
    submit_large >"$work/out" 2>&1 || return 0
  done
  failure "400 large jobs were accepted on a full disk"
}

start_daemon 2
check "a job" -- "$RUBATO" submit --name first --devices 1 -- "$RUBATO_TOY" --steps 1000000 --compute-us 2000
until_true phase_is j1 running
until_true further 0
check "healthy" -- answers /healthz '200 {"status":"ok"}'
check "writable" -- answers /metrics 'rubato_store_writable 1'

until_refused
check "the message says what is wrong and what to do" -- grep -q "read-only.*Free space" "$work/out"
check "health" -- answers /healthz '503 {"reason":'
check "metric" -- answers /metrics 'rubato_store_writable 0'
refused "read-only" -- cancel j1
refused "read-only" -- tenants set vision
exits 0 "first" -- queue
was=$(step)
until_true further "$was"
check "the daemon lives" -- kill -0 "$daemon"
check "it does not fill its log with messages" -- test "$(grep -c '^rubatod:' "$work/log")" -lt 20

# A start on the full disk.
url=$(cat "$RUBATO_STATE/server.url")
kill -9 "$daemon"
wait "$daemon" 2>/dev/null
"$RUBATOD" --cpu-slots 2 --listen "${url#http://}" >>"$work/log" 2>&1 &
daemon=$!
until_true answers /healthz 'status'
fill again
check "it starts read-only or recovers" -- answers /api/v1/jobs/j1 '"phase":"running"'

rm -f "$RUBATO_STATE"/fill*
until_true answers /healthz '200 {"status":"ok"}'
until_true answers /metrics 'rubato_store_writable 1'
exits 0 "could not be written" -- events
check "commands work again" -- "$RUBATO" cancel j1
until_true phase_is j1 cancelled
until_true nothing_held
for job in $("$RUBATO" queue --json | python3 -c "import json,sys; print(*(j['id'] for j in json.load(sys.stdin)['jobs']))"); do
  "$RUBATO" cancel "$job" >/dev/null 2>&1
done
until_true nothing_held
stop_daemon
check "the log replays" -- "$RUBATOD" check
finish
