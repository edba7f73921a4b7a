#!/usr/bin/env bash
# usage: unlike_workers_test.sh RUBATO FOLDER_OF_EXAMPLES
# Workers with different instruction-set levels. Under d1, a worker that differs is refused and the
# trait is named. Under d2, all are forced to the common subset, and the bits equal those of any
# other run.
set -euo pipefail
rubato=$1
examples=$2
folder=$(mktemp -d)
export RUBATO_HOME=$folder/home
trap 'rm -rf "$folder"' EXIT

fail() {
  echo "FAILED: $*" >&2
  exit 1
}
hash_of() { sed -n 's/.*"state_sha256": "\([0-9a-f]*\)".*/\1/p' "$1/result.json"; }

# Worker 1 requests another level of every library after the launcher has set its variables.
unlike() { # ATEN ONEDNN OPENBLAS PROGRAM [STEPS]
  echo "if [ \"\$RUBATO_WORKER\" = 1 ]; then export ATEN_CPU_CAPABILITY=$1 DNNL_MAX_CPU_ISA=$2 OPENBLAS_CORETYPE=$3; fi; exec $4 --epochs 1000 --steps ${5:-12}"
}

for name in cnn mlp; do
  program=$examples/train_$name
  [ -x "$program" ] || continue
  "$rubato" run --quiet --workers 1 --logical 4 --consistency d2 --dir "$folder/$name.alone" -- \
    "$program" --epochs 1000 --steps 12 >/dev/null 2>"$folder/log" || fail "$name alone: $(cat "$folder/log")"
  "$rubato" run --quiet --workers 2 --logical 4 --consistency d2 --dir "$folder/$name.d2" -- \
    bash -c "$(unlike avx2 AVX2 Haswell "$program")" >/dev/null 2>"$folder/log" ||
    fail "$name d2: $(cat "$folder/log")"
  [[ $(hash_of "$folder/$name.alone") == $(hash_of "$folder/$name.d2") ]] ||
    fail "$name: different workers give different bits under d2"
  grep -q '"members":\[0,1\]' "$folder/$name.d2/events.jsonl" ||
    fail "$name: worker 1 did not train: $(cat "$folder/$name.d2/events.jsonl")"
done

# d1: worker 0 founds the job; worker 1 differs and is refused; worker 2 matches and joins.
"$rubato" run --quiet --workers 1 --logical 4 --dir "$folder/d1" -- \
  bash -c "$(unlike default SSE41 Nehalem "$examples/train_cnn" 4000)" >/dev/null 2>"$folder/log" &
launcher=$!
until [[ -s $folder/d1/events.jsonl ]]; do
  kill -0 $launcher 2>/dev/null || fail "d1 did not start: $(cat "$folder/log")"
  sleep 0.1
done
"$rubato" scale "$folder/d1" 2 >/dev/null
refusal() { grep '"type":"refused"' "$folder/d1/events.jsonl"; }
until refusal >/dev/null; do
  kill -0 $launcher 2>/dev/null || fail "d1 ended before worker 1 was refused: $(cat "$folder/d1/events.jsonl")"
  sleep 0.1
done
refusal | grep -q '"worker":1' || fail "another worker was refused: $(refusal)"
refusal | grep -Eq "(aten|blas|onednn|kernels|instruction|capability)[a-z_. ]* is '[^']*' there and '[^']*' in the job" ||
  fail "the refusal does not name a trait: $(refusal)"
until grep -q '"members":\[0,2\]' "$folder/d1/events.jsonl"; do
  kill -0 $launcher 2>/dev/null || fail "worker 2 did not join: $(cat "$folder/d1/events.jsonl")"
  sleep 0.1
done
"$rubato" stop "$folder/d1" >/dev/null
wait $launcher || fail "d1: $(cat "$folder/log")"
echo "passed: $(refusal | sed 's/.*"reason":"\([^"]*\)".*/\1/')"
