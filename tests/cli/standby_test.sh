#!/usr/bin/env bash
# The commands of docs/standby.md, on one machine: two daemons and a node, and an etcd. The leader is killed.
source "$RUBATO_SOURCE/tests/cli/helpers.sh" || exit 1
needs RUBATOD RUBATO_TOY
command -v etcd >/dev/null || { echo "etcd is not installed (Debian: apt install etcd-server)"; exit 77; }
PATH=$(dirname "$RUBATO"):$PATH
export HOME=$work/home RUBATO_ISOLATION=none
export RUBATO_STATE=$work/nobody # commands find the daemons by RUBATO_SERVER
mkdir -p "$HOME" "$work/head1" "$work/head2" "$work/gpu1" "$work/project"
cp "$RUBATO_TOY" "$work/project/toy"
printf '#!/bin/sh\nexec ./toy --steps 400 --compute-us 10000\n' >"$work/project/train"
chmod +x "$work/project/train"

# The lines of the document, by the host on which they are.
mapfile -t lines < <(sed -n '/^<!-- standby:/,/^<!-- \/standby/p' "$RUBATO_SOURCE/docs/standby.md" | sed -n 's/^\(head1\|head2\|gpu1\)\$  *//p')
check "the document has six commands" -- test "${#lines[@]}" = 6

free_ports() { python3 -c 'import socket,sys
all=[socket.socket() for _ in range(int(sys.argv[1]))]
[s.bind(("127.0.0.1",0)) for s in all]
print(*[s.getsockname()[1] for s in all])' "$1"; }
read -r port1 port2 client peer <<<"$(free_ports 4)"
etcd --data-dir "$work/etcd" --listen-client-urls "http://127.0.0.1:$client" --advertise-client-urls "http://127.0.0.1:$client" \
  --listen-peer-urls "http://127.0.0.1:$peer" --initial-advertise-peer-urls "http://127.0.0.1:$peer" \
  --initial-cluster "default=http://127.0.0.1:$peer" >"$work/etcd.log" 2>&1 &
launchers+=("$!")

# One machine has no host names of its own, and tests no fixed port. Standbys of tests are impatient.
here() { # here LINE PORT FOLDER
  sed "s/0\.0\.0\.0:7117/127.0.0.1:$2/; s/head1:7117/127.0.0.1:$port1/g; s/head2:7117/127.0.0.1:$port2/g; s/http:\/\/etcd1:2379.*etcd3:2379/http:\/\/127.0.0.1:$client/
    s|~/.local/state/rubato|$3|g" <<<"${1% &}"
}
begin() { # begin VARIABLE FOLDER COMMAND: as a process of the test, whose id is in the variable
  cd "$2" || exit 1
  # shellcheck disable=SC2086 # words of a command line
  RUBATO_STATE=$2/state "$RUBATOD" ${3#rubatod } >>"$2/log" 2>&1 &
  printf -v "$1" %s "$!"
  launchers+=("$!")
}
status_of() { python3 -c 'import json,sys,urllib.request,urllib.error
try: text=urllib.request.urlopen("http://127.0.0.1:%s/healthz" % sys.argv[1], timeout=5).read()
except urllib.error.HTTPError as e: text=e.read()
print(json.loads(text)["status"], json.loads(text).get("behind", 0))' "$1"; }
has_status() { [ "$(status_of "$1" 2>/dev/null)" = "$2" ]; }

begin head1 "$work/head1" "$(here "${lines[0]}" "$port1" "") --take-over-after 1"
until_true has_status "$port1" "ok 0"
mkdir -m 700 "$work/head2/state"
scp() { cp "$1" "$2" "$work/head2/state/"; }
eval "$(here "${lines[1]}" "" "$work/head1/state")"
begin head2 "$work/head2" "$(here "${lines[2]}" "$port2" "") --take-over-after 1"
until_true has_status "$port2" "standby 0"
cp "$work/head1/state/join.token" "$work/gpu1/"
begin gpu1 "$work/gpu1" "$(here "${lines[3]}" "" "") --node gpu1 --cpu-slots 2 --leave"
eval "$(here "${lines[4]}" "" "$work/head2/state")"

cd "$work/project" || exit 1
until_true holds "[n['state'] for n in j['nodes']] == ['ready']" nodes
check "the job is taken" -- eval "$(here "${lines[5]}" "" "")"
until_true holds "(j.get('progress') or {}).get('step', 0) > 20" status j1
# One that is on no node when the machine is lost: its checkpoint is at the leader, and at the standby.
exits 0 -- pause j1
until_true holds "j['held'] == 0" status j1
copied() { [ -n "$(find "$work/head2/state/jobs/1/checkpoints" -type f)" ] && [ -n "$(find "$work/head2/state/uploads" -type f)" ]; }
until_true copied
exits 0 -- submit --upload --name second --devices 1 --logical-workers 4 -- ./train
until_true holds "(j.get('progress') or {}).get('step', 0) > 20" status second

refused "stands by; ask the leader" -- --server "http://127.0.0.1:$port2" queue
# shellcheck disable=SC2154 # begin sets it
kill -9 "$head1"
wait "$head1" 2>/dev/null
# The command finds out who leads now.
exits 0 "second" -- queue
check "the standby has taken over" -- grep -q "rubatod: leads since" "$work/head2/log"
grep -h "rubatod: leads since" "$work/head2/log"
begin head1 "$work/head1" "$(here "${lines[0]}" "$port1" "") --take-over-after 1"
cd "$work/project" || exit 1
until_true has_status "$port1" "standby 0"
exits 0 -- wait second
exits 0 -- resume j1
exits 0 -- wait j1
json_of status j1
cp "$work/json" "$work/first.json"
check "the first job has ended" -- test "$(field "$work/first.json" "j['phase']")" = finished
"$RUBATO" run --workers 1 --logical "$(field "$work/first.json" "j['result']['logical_workers']")" --dir "$work/alone" -- ./toy --steps 400 >"$work/out" 2>&1
check "the same bits as alone" -- test "$(field "$work/first.json" "j['result']['state_sha256']")" = "$(field "$work/alone/result.json" "j['state_sha256']")"
exits 0 "worker-" -- ls j1:logs
# Its second start found what the first had left.
steps_at_start() {
  "$RUBATO" events j1 --json | python3 -c 'import json,sys
bodies=[json.loads(line)["body"] for line in sys.stdin if "\"started\"" in line]
print(*[body["step"] > 0 for body in bodies if body.get("type") == "started"])'
}
check "it went on from its checkpoint" -- test "$(steps_at_start)" = "False True"

# A stopped leader leaves at once; the other one follows.
# shellcheck disable=SC2154
kill "$head2"
wait "$head2"
until_true has_status "$port1" "ok 0"
exits 0 "second" -- queue --all
# shellcheck disable=SC2154
kill -9 "$gpu1" # it would wait for a daemon before it leaves
kill "$head1"
wait "$gpu1" "$head1" 2>/dev/null
finish
