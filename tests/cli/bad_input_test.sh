#!/usr/bin/env bash
# Bad input to the program: a message that says where, what and what to do; exit code 1; nothing written.
source "$RUBATO_SOURCE/tests/cli/helpers.sh"

# refused_sim WORDS -- ARGUMENTS: refused, and $work/out is not created.
refused_sim() {
  refused "$@" --out "$work/out"
  [ ! -e "$work/out" ] || { failure "rubato $*: wrote $work/out"; rm -rf "$work/out"; }
}

cp -r "$RUBATO_SOURCE/share/profiles" "$work/profiles"
w() { printf "$1" >"$work/w.csv"; }
head='name,time,application,num_replicas,batch_size\n'
q=(--profiles "$work/profiles" --workload "$work/w.csv")
p=("${q[@]}" --format pollux --policy fifo)

w 'name,time,application,num_replicas\na,0,speech,1\n'
refused_sim "w.csv:1" "batch_size" -- sim "${p[@]}"
w "${head}a,-1,resnet-small,1,128\n"
refused_sim "w.csv:2:3" "time" "'-1'" -- sim "${p[@]}"
w "${head}a,nan,resnet-small,1,128\n"
refused_sim "w.csv:2:3" "'nan'" "number" -- sim "${p[@]}"
w "${head}a,0,resnet-small,1,128\na,5,resnet-small,1,128\n"
refused_sim "w.csv:3:1" "'a'" -- sim "${p[@]}"
w "${head}a,0,resnet-smal,1,128\n"
refused_sim "w.csv:2:5" "resnet-smal" "did you mean 'resnet-small'" -- sim "${p[@]}"
w "${head}a,0,resnet-small,1,128\nb,5,res"
refused_sim "w.csv:3" "truncated" -- sim "${p[@]}"
w "${head}a,0,resnet-small,65,4096\n"
refused_sim "w.csv:2:18" "65" "cluster" -- sim "${p[@]}"
{ printf "$head"; head -c 10485760 /dev/zero | tr '\0' 'x'; echo; } >"$work/w.csv"
refused_sim "w.csv:2:1" "10485760 characters" -- sim "${p[@]}"
w ''
refused_sim "w.csv" "empty" -- sim "${p[@]}"
head -c 4096 /dev/urandom >"$work/w.csv"
refused_sim "w.csv:" -- sim "${p[@]}"
refused_sim "missing.csv" "No such file" -- sim --workload "$work/missing.csv" --policy fifo
refused_sim "is a directory" -- sim --workload "$work" --policy fifo
w "${head}a,0,resnet-small,1,128\n"
refused_sim "unknown policy 'fifoo'" "did you mean 'fifo'" -- sim "${q[@]}" --policy fifoo
refused_sim "tiresias.treshold" "did you mean 'threshold'" -- sim "${q[@]}" --policy tiresias --set tiresias.treshold=5
refused_sim "tiresias.threshold=-5" "1 to" -- sim "${q[@]}" --policy tiresias --set tiresias.threshold=-5
refused_sim "POLICY.PARAMETER=VALUE" -- sim "${p[@]}" --set nonsense
refused_sim "not among --policy" -- sim "${p[@]}" --set tiresias.threshold=5
refused_sim "cluster '16x'" "16x4" -- sim "${p[@]}" --cluster 16x
refused_sim "--round -5" "event" -- sim "${p[@]}" --round -5
refused_sim "--format xml" "pollux" -- sim "${q[@]}" --policy fifo --format xml
refused_sim "--quirks sideways" "whole-second-epochs" -- sim "${p[@]}" --quirks sideways
refused_sim "no-such-folder" -- sim --workload "$work/w.csv" --profiles "$work/no-such-folder" --policy fifo
printf 'time,node,event\n5,99,down\n' >"$work/failures.csv"
refused_sim "failures.csv:2:3" "0 to 15" -- sim "${p[@]}" --failures "$work/failures.csv"
printf 'time,devices\n5,65\n' >"$work/serving.csv"
refused_sim "serving.csv:2:3" "0 to 64" -- sim "${p[@]}" --serving "$work/serving.csv"

# An impossible output folder is refused before anything is simulated.
touch "$work/file"
"$RUBATO" sim "${p[@]}" --out "$work/file" >/dev/null 2>"$work/stderr"
if [ $? != 1 ] || ! grep -q "expected a directory" "$work/stderr"; then failure "--out FILE is not refused"; fi

# And the same workload without a mistake is accepted.
exits 0 -- sim "${p[@]}" --json
finish
