#!/usr/bin/env bash
# Two nodes in two network namespaces, connected by a cable (veth) that is cut and repaired: the job
# has the bits of one worker, and of two halves that cannot reach each other, one continues. RUBATO
# is the program, RUBATO_TOY the toy training program. Skipped (exit 77) if namespaces cannot be
# created.
set -uo pipefail
work=$(mktemp -d)
a="rbta$$"
b="rbtb$$"
started=()
cleanup() {
  for pid in "${started[@]}"; do kill -9 "$pid" 2>/dev/null; done # their workers die with them
  for pid in "${started[@]}"; do wait "$pid" 2>/dev/null; done
  ip netns del "$a" 2>/dev/null
  ip netns del "$b" 2>/dev/null
  rm -rf "$work"
}
trap cleanup EXIT
export RUBATO_HOME="$work/home"

if ! ip netns add "$a" 2>"$work/why" || ! ip netns add "$b" 2>>"$work/why" ||
  ! ip link add "${a}v" netns "$a" type veth peer name "${b}v" netns "$b" 2>>"$work/why" ||
  ! ip netns exec "$a" true 2>>"$work/why"; then
  echo "SKIPPED: cannot create or enter network namespaces here: $(tail -1 "$work/why")"
  exit 77
fi
ip -n "$a" addr add 10.77.0.1/24 dev "${a}v" && ip -n "$a" link set "${a}v" up && ip -n "$a" link set lo up
ip -n "$b" addr add 10.77.0.2/24 dev "${b}v" && ip -n "$b" link set "${b}v" up && ip -n "$b" link set lo up

fail() {
  echo "FAILED: $*"
  cat "$work"/*.log "$work"/job/logs/* 2>/dev/null | grep -v '^epoch' | tail -60
  exit 1
}
# Evaluates a Python condition on the newest view (v).
view_is() {
  python3 - "$work/job/registry" "$1" <<'PY'
import json, os, sys
numbers = [int(n.split('.')[1]) for n in os.listdir(sys.argv[1]) if n.startswith('view.')] if os.path.isdir(sys.argv[1]) else []
if not numbers: sys.exit(1)
v = json.load(open(f'{sys.argv[1]}/view.{max(numbers)}'))
nodes = [m['node'] for m in v['members']]
sys.exit(0 if eval(sys.argv[2]) else 1)
PY
}
until_view() {
  local end=$((SECONDS + 200))
  while [ "$SECONDS" -lt "$end" ]; do
    view_is "$1" && return 0
    sleep 0.1
  done
  fail "no view with: $1"
}
sha() { python3 -c 'import json,sys; print(json.load(open(sys.argv[1]))["state_sha256"])' "$1"; }

# Long enough for all of this on a busy machine; it hurries once the file exists.
export TOY_HURRY_FILE="$work/hurry"
program=("$RUBATO_TOY" --steps 1500 --compute-us 20000)
"$RUBATO" run --workers 1 --logical 4 --quiet --dir "$work/one" -- "$RUBATO_TOY" --steps 1500 >/dev/null || fail "the run on one worker"

ip netns exec "$a" "$RUBATO" run --node a --listen 10.77.0.1 --workers 2 --logical 4 --failure-timeout 1 \
  --ledger "$work/ledger" --dir "$work/job" -- "${program[@]}" >"$work/a.log" 2>&1 &
started+=($!)
until_view 'nodes.count("a") == 2'
ip netns exec "$b" "$RUBATO" join "$work/job" --node b --listen 10.77.0.2 --workers 2 >"$work/b.log" 2>&1 &
started+=($!)
until_view 'nodes.count("a") == 2 and nodes.count("b") == 2'
echo "both namespaces train"

ip -n "$b" link set "${b}v" down
until_view 'v["cause"] == "failure" and len(set(nodes)) == 1'
echo "the cable is cut: one half continues"
ip -n "$b" link set "${b}v" up
until_view 'nodes.count("a") == 2 and nodes.count("b") == 2'
echo "the cable is repaired: both train"
touch "$TOY_HURRY_FILE"

wait "${started[0]}" || fail "the job"
wait "${started[1]}" || fail "the node that joined"
[ "$(sha "$work/job/result.json")" = "$(sha "$work/one/result.json")" ] || fail "the bits differ"
python3 - "$work/ledger" <<'PY' || fail "the ledger"
import json, sys
steps = [json.loads(line)["step"] for line in open(sys.argv[1])]
assert steps == list(range(1500)), "every step once, in order"
PY
echo "same bits"
