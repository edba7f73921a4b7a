#!/usr/bin/env bash
# The commands of docs/cluster.md, on one machine: a daemon and two nodes, which have state folders of their own.
source "$RUBATO_SOURCE/tests/cli/helpers.sh" || exit 1
needs RUBATOD RUBATO_TOY
PATH=$(dirname "$RUBATO"):$PATH
export HOME=$work/home RUBATO_ISOLATION=none
mkdir -p "$HOME" "$work/gpu1" "$work/gpu2" "$work/project"
cp "$RUBATO_TOY" "$work/project/toy"
printf '#!/bin/sh\nexec ./toy --steps 400 --compute-us 10000\n' >"$work/project/train"
chmod +x "$work/project/train"

# The five lines of the document, by the host on which they are.
mapfile -t lines < <(sed -n '/^<!-- cluster:/,/^<!-- \/cluster/p' "$RUBATO_SOURCE/docs/cluster.md" | sed -n 's/^\(head\|gpu1\)\$  //p')
check "the document has five commands" -- test "${#lines[@]}" = 5

port=$(python3 -c 'import socket; s=socket.socket(); s.bind(("127.0.0.1",0)); print(s.getsockname()[1])')
# One machine has no host names of its own, and tests no fixed port.
here() { sed "s/0\.0\.0\.0:7117/127.0.0.1:$port/; s/head:7117/127.0.0.1:$port/; s|~/.local/state/rubato|$RUBATO_STATE|" <<<"${1% &}"; }
# Begins the command as a process of the test and puts its id into the variable.
begin() { # begin VARIABLE FOLDER COMMAND
  cd "$2" || exit 1
  # shellcheck disable=SC2086 # words of a command line
  RUBATO_STATE=$2/state "$RUBATOD" ${3#rubatod } >>"$2/log" 2>&1 &
  printf -v "$1" %s "$!"
  launchers+=("$!")
}
export RUBATO_STATE=$work/head/state
mkdir -p "$work/head"
begin head "$work/head" "$(here "${lines[0]}")"
until_true test -e "$RUBATO_STATE/server.url"
scp() { cp "$1" "$work/${2%:}/"; }
eval "$(here "${lines[1]}")"
check "the join token is private" -- test "$(stat -c %a "$RUBATO_STATE/join.token")" = 600
begin gpu1 "$work/gpu1" "$(here "${lines[2]}") --node gpu1 --cpu-slots 2"
cp "$work/gpu1/join.token" "$work/gpu2/"
begin gpu2 "$work/gpu2" "$(here "${lines[2]}") --node gpu2 --cpu-slots 2"

cd "$work/project" || exit 1
until_true holds "[n['state'] for n in j['nodes']] == ['ready', 'ready']" nodes
check "the nodes are listed" -- bash -c "${lines[3]} | grep -q gpu2"
check "the job is taken" -- eval "${lines[4]}"
until_true holds "j['held'] > 0" status j1

# A tool of people: a node is drained, and its job goes on elsewhere.
node=$(json_of status j1 && field "$work/json" "j['held_nodes'][0]['node']")
exits 0 -- drain "$node"
until_true holds "all(p['node'] != '$node' for p in j['held_nodes'])" status j1
until_true holds "[n['state'] for n in j['nodes'] if n['name'] == '$node'] == ['drained']" nodes
exits 0 -- undrain "$node"
exits 0 -- wait j1
exits 0 "worker-0.log" -- ls j1:logs
json_of status j1
cp "$work/json" "$work/cluster.json"
"$RUBATO" run --workers 1 --logical "$(field "$work/cluster.json" "j['result']['logical_workers']")" --dir "$work/alone" -- ./toy --steps 400 >"$work/out" 2>&1
check "the same bits as alone" -- test "$(field "$work/cluster.json" "j['result']['state_sha256']")" = "$(field "$work/alone/result.json" "j['state_sha256']")"

# A job on both nodes, whose workers encrypt what they send each other.
exits 0 -- submit --upload --encrypt --devices 4 --name encrypted -- ./train
until_true holds "len(j['held_nodes']) == 2" status encrypted
on_both() { [[ $(grep -ls '"encrypt": true' "$work"/gpu[12]/state/jobs/*/job.json | wc -l) == 2 ]]; }
until_true on_both
exits 0 -- wait encrypted
json_of status encrypted
check "the same bits when encrypted" -- test "$(field "$work/json" "j['result']['state_sha256']")" = "$(field "$work/cluster.json" "j['result']['state_sha256']")"

# One whose checkpoints are in a folder that all nodes see: they are not copied, and it continues from them elsewhere.
mkdir "$work/shared"
exits 0 -- submit --upload --checkpoints "file:$work/shared" --devices 2 --name apart -- ./train
until_true holds "j['progress'].get('step', 0) > 20" status apart
exits 0 -- pause apart
until_true holds "j['phase'] == 'paused' and j['held'] == 0" status apart
number=$(json_of status apart && field "$work/json" "j['number']")
check "its checkpoints are there" -- compgen -G "$work/shared/j$number-*/checkpoint-*.rubato"
check "and nowhere else" -- test -z "$(find "$work" -path "$work/shared" -prune -o -path "*/jobs/$number/checkpoints/checkpoint-*" -print)"
node=$(field "$work/json" "j['nodes'][0]['node'] if j['nodes'] else 'gpu1'")
exits 0 -- drain "$node"
exits 0 -- resume apart
exits 0 -- wait apart
"$RUBATO" events apart --json >"$work/events" 2>&1
check "it went on where it had stopped" -- python3 -c "
import json, sys
views = [e['body'] for e in map(json.loads, open('$work/events')) if e['type'] == 'view' and e['body'].get('members')]
sys.exit(not (views and max(v['step'] for v in views) > 20))"
json_of status apart
check "the same bits with checkpoints elsewhere" -- test "$(field "$work/json" "j['result']['state_sha256']")" = "$(field "$work/cluster.json" "j['result']['state_sha256']")"
exits 0 -- undrain "$node"

# Who does not know the token does not join, and an agent that leaves is forgotten.
printf 'wrong\n' >"$work/wrong"
checks=$((checks + 1))
RUBATO_STATE=$work/stranger "$RUBATOD" agent --join "http://127.0.0.1:$port" --token-file "$work/wrong" --node stranger --cpu-slots 1 >"$work/out" 2>&1 \
  && failure "a stranger joined" "$work/out"
# shellcheck disable=SC2154 # begin sets it
kill -USR2 "$gpu2"
until_true holds "[n['name'] for n in j['nodes']] == ['gpu1']" nodes
# An agent started with --leave takes with it what runs on its node, even if it is killed.
mkdir "$work/gpu3" && cp "$work/gpu1/join.token" "$work/gpu3/"
begin gpu3 "$work/gpu3" "$(here "${lines[2]}") --node gpu3 --cpu-slots 1 --leave"
until_true holds "len(j['nodes']) == 2" nodes
exits 0 -- drain gpu1
readonly nap=9$$.5 # seconds that nobody else sleeps
exits 0 -- submit --mode opaque --name sleeper -- sleep "$nap"
until_true pgrep -f "sleep $nap"
# shellcheck disable=SC2154
kill -9 "$gpu3"
gone() { ! pgrep -f "sleep $nap" && ! pgrep -f "supervise $work/gpu3"; }
until_true gone
# shellcheck disable=SC2154
kill "$gpu1" "$head"
wait "$gpu1" "$gpu2" "$gpu3" "$head" 2>/dev/null
finish
