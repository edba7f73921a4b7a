#!/usr/bin/env bash
# usage: examples_test.sh FOLDER_OF_EXAMPLES
set -euo pipefail
examples=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

for name in mlp cnn lm; do
  program=$examples/train_$name
  "$program" --steps 6 --dump "$folder/$name.1" >"$folder/log" 2>&1
  [[ $(grep -c 'step 6/6' "$folder/log") == 1 ]] || fail "$name: the last line is missing: $(cat "$folder/log")"
  "$program" --steps 6 --dump "$folder/$name.2" >/dev/null 2>&1
  cmp "$folder/$name.1" "$folder/$name.2" || fail "$name: two runs differ"
  "$program" --steps 6 --seed 2 --dump "$folder/$name.3" >/dev/null 2>&1
  ! cmp -s "$folder/$name.1" "$folder/$name.3" || fail "$name: the seed has no effect"

  # d2 overrides any instruction set that the environment requests.
  "$program" --steps 3 --consistency d2 --dump "$folder/$name.d2" >/dev/null 2>&1
  ATEN_CPU_CAPABILITY=avx2 DNNL_MAX_CPU_ISA=AVX2 OPENBLAS_CORETYPE=Haswell \
    "$program" --steps 3 --consistency d2 --dump "$folder/$name.d2b" >/dev/null 2>&1
  cmp "$folder/$name.d2" "$folder/$name.d2b" || fail "$name: d2 depends on the environment"
done

# Wrong input gives exit code 2 and one line that names it.
code=0
message=$("$examples/train_mlp" --batch none 2>&1) || code=$?
[[ $code == 2 && $message == *"--batch: 'none'"* ]] || fail "wrong input: $code $message"
"$examples/train_mlp" --help | grep -- --logical >/dev/null || fail "no help text"
echo "passed"
