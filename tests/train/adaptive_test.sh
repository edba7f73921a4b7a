#!/usr/bin/env bash
# usage: adaptive_test.sh RUBATO FOLDER_OF_EXAMPLES
# Runs the examples as adaptive jobs: workers and batch change while they train. Each must end with
# the loss of the consistent run (at most a twentieth of the initial loss above it), use each sample
# once per epoch, and have the bits of its replay.
set -euo pipefail
rubato=$1
examples=$2
folder=$(mktemp -d)
export RUBATO_HOME=$folder/home
launcher=
cleanup() {
  [ -z "$launcher" ] || kill -9 "$launcher" 2>/dev/null || true # its workers die with it
  wait
  rm -rf "$folder"
}
trap cleanup EXIT

fail() {
  echo "FAILED: $*" >&2
  exit 1
}
# until_view JOB WORKERS [BATCH]: waits while the job runs. The job keeps training meanwhile, so
# this reads the event file, which is fast even on a busy machine, and the jobs are long compared to
# the start of a worker.
until_view() {
  local view="\"batch\":${3:-.*},.*\"type\":\"view\".*\"workers\":$2}"
  until grep -q "$view" "$1/events.jsonl" 2>/dev/null; do
    if ! kill -0 "$launcher" 2>/dev/null; then
      grep -q "$view" "$1/events.jsonl" && return # it appeared with the end of the job
      fail "$1: ended before there were $2 workers: $(cat "$1/launcher.log" "$1/events.jsonl")"
    fi
    sleep 0.02
  done
}

# name, approximate loss before training, rule, epochs, twice the first batch
while read -r name start rule epochs batch; do
  program=("$examples/train_$name" --epochs "$epochs")
  "$rubato" run --quiet --workers 2 --dir "$folder/$name-consistent" -- "${program[@]}" >/dev/null
  job=$folder/$name
  mkdir -p "$job"
  "$rubato" run --quiet --mode adaptive --batch-range 8..256 --lr-rule "$rule" --workers 2 \
    --max-workers 4 --spares 1 --failure-timeout 60 --ledger "$folder/ledger" --dir "$job" -- "${program[@]}" >"$job/launcher.log" 2>&1 &
  launcher=$!
  until_view "$job" 2
  "$rubato" scale "$job" 3 >/dev/null
  until_view "$job" 3
  "$rubato" scale "$job" 1 --batch "$batch" >/dev/null
  until_view "$job" 1 "$batch"
  wait "$launcher" || fail "$name: $(cat "$job/launcher.log")"
  launcher=
  "$rubato" replay "$job" >/dev/null || fail "$name: the replay gives different bits"
  python3 - "$name" "$start" "$folder/$name-consistent/result.json" "$job/result.json" "$folder/ledger" "$epochs" <<'PYTHON' || fail "$name"
import json, sys
name, start = sys.argv[1], float(sys.argv[2])
consistent, adaptive = (json.load(open(path)) for path in sys.argv[3:5])
epochs = {}
for line in map(json.loads, open(sys.argv[5])):
    epochs.setdefault(line["epoch"], []).extend(sum(line["samples"], []))
everything = list(range(adaptive["samples"]))
assert len(epochs) == adaptive["epochs"] == int(sys.argv[6]), epochs.keys()
assert all(sorted(used) == everything for used in epochs.values()), "a sample was lost or used twice"
allowed = consistent["final_loss"] + start / 20
print(f"{name}: consistent {consistent['final_loss']:.4f}, adaptive {adaptive['final_loss']:.4f}, "
      f"allowed {allowed:.4f}, {adaptive['steps']} steps instead of {consistent['steps']}")
assert adaptive["final_loss"] <= allowed
PYTHON
  rm "$folder/ledger"
done <<END
mlp 2.3 sqrt 16 128
cnn 2.0 linear 24 64
lm 4.8 sqrt 2 32
END
echo "passed"
