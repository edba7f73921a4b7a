#!/usr/bin/env bash
# Bad input gets a message that says where, what and what to do, and exit code 1. Nothing is written.
set -uo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
checks=0

# refused WORDS -- ARGUMENTS: the program must exit with 1, print all the words on standard error and nothing on standard
# output, and not create $work/out.
refused() {
  local words=()
  while [ "$1" != -- ]; do words+=("$1"); shift; done
  shift
  checks=$((checks + 1))
  "$RUBATO" "$@" --out "$work/out" >"$work/stdout" 2>"$work/stderr"
  local code=$?
  local problem=""
  [ "$code" = 1 ] || problem="exit code $code, expected 1"
  [ -s "$work/stdout" ] && problem="$problem; printed on standard output"
  [ -e "$work/out" ] && problem="$problem; wrote $work/out" && rm -rf "$work/out"
  for word in "${words[@]}"; do
    grep -qF -- "$word" "$work/stderr" || problem="$problem; no '$word' in the message"
  done
  if [ -n "$problem" ]; then
    echo "FAILED: rubato $*: $problem"
    sed 's/^/    /' "$work/stderr" | cut -c1-200
    failed=$((failed + 1))
  fi
}

cp -r "$RUBATO_SOURCE/share/profiles" "$work/profiles"
w() { printf "$1" >"$work/w.csv"; }
head='name,time,application,num_replicas,batch_size\n'
q=(--profiles "$work/profiles" --workload "$work/w.csv")
p=("${q[@]}" --format pollux --policy fifo)

w 'name,time,application,num_replicas\na,0,speech,1\n'
refused "w.csv:1" "batch_size" -- sim "${p[@]}"
w "${head}a,-1,resnet-small,1,128\n"
refused "w.csv:2:3" "time" "'-1'" -- sim "${p[@]}"
w "${head}a,nan,resnet-small,1,128\n"
refused "w.csv:2:3" "'nan'" "number" -- sim "${p[@]}"
w "${head}a,0,resnet-small,1,128\na,5,resnet-small,1,128\n"
refused "w.csv:3:1" "'a'" -- sim "${p[@]}"
w "${head}a,0,resnet-smal,1,128\n"
refused "w.csv:2:5" "resnet-smal" "did you mean 'resnet-small'" -- sim "${p[@]}"
w "${head}a,0,resnet-small,1,128\nb,5,res"
refused "w.csv:3" "truncated" -- sim "${p[@]}"
w "${head}a,0,resnet-small,65,4096\n"
refused "w.csv:2:18" "65" "cluster" -- sim "${p[@]}"
{ printf "$head"; head -c 10485760 /dev/zero | tr '\0' 'x'; echo; } >"$work/w.csv"
refused "w.csv:2:1" "10485760 characters" -- sim "${p[@]}"
w ''
refused "w.csv" "empty" -- sim "${p[@]}"
head -c 4096 /dev/urandom >"$work/w.csv"
refused "w.csv:" -- sim "${p[@]}"
refused "missing.csv" "No such file" -- sim --workload "$work/missing.csv" --policy fifo
refused "is a directory" -- sim --workload "$work" --policy fifo
w "${head}a,0,resnet-small,1,128\n"
refused "unknown policy 'fifoo'" "did you mean 'fifo'" -- sim "${q[@]}" --policy fifoo
refused "tiresias.treshold" "did you mean 'threshold'" -- sim "${q[@]}" --policy tiresias --set tiresias.treshold=5
refused "tiresias.threshold=-5" "1 to" -- sim "${q[@]}" --policy tiresias --set tiresias.threshold=-5
refused "POLICY.PARAMETER=VALUE" -- sim "${p[@]}" --set nonsense
refused "not among --policy" -- sim "${p[@]}" --set tiresias.threshold=5
refused "cluster '16x'" "16x4" -- sim "${p[@]}" --cluster 16x
refused "--round -5" "event" -- sim "${p[@]}" --round -5
refused "--format xml" "pollux" -- sim "${q[@]}" --policy fifo --format xml
refused "--quirks sideways" "whole-second-epochs" -- sim "${p[@]}" --quirks sideways
refused "no-such-folder" -- sim --workload "$work/w.csv" --profiles "$work/no-such-folder" --policy fifo
printf 'time,node,event\n5,99,down\n' >"$work/failures.csv"
refused "failures.csv:2:3" "0 to 15" -- sim "${p[@]}" --failures "$work/failures.csv"
printf 'time,devices\n5,65\n' >"$work/serving.csv"
refused "serving.csv:2:3" "0 to 64" -- sim "${p[@]}" --serving "$work/serving.csv"

# An impossible output folder is refused before anything is simulated.
touch "$work/file"
"$RUBATO" sim "${p[@]}" --out "$work/file" >/dev/null 2>"$work/stderr"
if [ $? != 1 ] || ! grep -q "expected a directory" "$work/stderr"; then
  echo "FAILED: --out FILE is not refused"
  failed=$((failed + 1))
fi

# The same workload without a mistake is accepted.
if ! "$RUBATO" sim "${p[@]}" --json >"$work/ok.json" 2>"$work/stderr"; then
  echo "FAILED: the good workload is refused"
  cat "$work/stderr"
  failed=$((failed + 1))
fi
echo "$((checks + 2 - failed)) passed, $failed failed"
[ "$failed" = 0 ]
