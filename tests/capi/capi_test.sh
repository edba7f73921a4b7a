#!/usr/bin/env bash
# A program in C, in both forms of its loop, alone and with workers: the same bits.
#   capi_test.sh RUBATO PROGRAM
set -euo pipefail
rubato=$1 program=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export RUBATO_HOME=$work/home
fail() { echo "FAILED: $*"; exit 1; }
hash_in() { sed -n 's/.*"state_sha256": "\(.*\)".*/\1/p' "$1"; }

"$program" >"$work/asks" || fail "alone: exit code $?"
"$program" called >"$work/called" || fail "called: exit code $?"
grep -q '^weights 1.000 .. 5.000$' "$work/asks" || fail "it did not learn: $(cat "$work/asks")"
cmp <(sort "$work/asks") <(sort "$work/called") || fail "the two forms differ"
expected=$(hash_in "$work/asks")
[[ $expected ]] || fail "no hash in $(cat "$work/asks")"
for form in asks called; do
  for workers in 1 3; do
    "$rubato" run --quiet --workers $workers --dir "$work/$form$workers" -- "$program" $form >"$work/log" 2>&1 ||
      fail "$form, $workers workers: $(cat "$work/log")"
    found=$(hash_in "$work/$form$workers/result.json")
    [[ $found == "$expected" ]] || fail "$form, $workers workers: other bits"
  done
done

"$program" wrong >"$work/log" 2>&1 && fail "a batch of 0 was accepted"
grep -qx 'regression: rubato_job.batch: expected at least 1' "$work/log" || fail "$(cat "$work/log")"
"$program" failing >"$work/log" 2>&1 && fail "a task that failed did not matter"
grep -q 'no more ink' "$work/log" || fail "the reason is missing: $(cat "$work/log")"
echo "same bits $expected"
