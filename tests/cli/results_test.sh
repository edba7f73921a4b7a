#!/usr/bin/env bash
# rubato cp and ls: what a job keeps in its outputs reaches its owner, whole or not at all.
source "$RUBATO_SOURCE/tests/cli/helpers.sh"
needs RUBATOD
start_daemon 1

writes='cd "$RUBATO_OUTPUT_DIR" && mkdir -p model/deep && echo weights >model/w.bin && echo deep >model/deep/d && : >empty &&
  head -c 3000000 /dev/urandom >large && printf "#!/bin/sh\n" >run.sh && chmod +x run.sh && ln -s /etc/passwd link && mkfifo pipe &&
  echo "some text"'
exits 0 -- submit --wait --mode opaque --name kept -- sh -c "$writes"
outputs=$RUBATO_STATE/jobs/1/outputs

exits 0 "outputs/" "logs/" "result.json" -- ls kept
exits 0 "3.0 MB" "model/" "link (a link)" "pipe (not a file)" "0 B" -- ls kept:
exits 0 "w.bin" -- ls j1:model
check "ls --json" -- holds "sorted(e['name'] for e in j['entries']) == ['deep', 'w.bin']" ls kept:outputs/model

exits 0 "5 files, 3.0 MB" "left out: outputs/link: a link" "left out: outputs/pipe: not a file" -- cp kept: "$work/all"
rm "$outputs/link" "$outputs/pipe"
check "all outputs are the same" -- diff -r "$outputs" "$work/all"
check "a program stays one" -- test -x "$work/all/run.sh"
check "other files do not become one" -- test ! -x "$work/all/model/w.bin"
check "nothing temporary is left" -- test -z "$(find "$work/all" -name '.rubato-*')"

exits 0 "1 file, 8 B" -- cp j1:model/w.bin "$work/one/two"
check "one file" -- cmp "$outputs/model/w.bin" "$work/one/two/w.bin"
exits 0 "2 files" -- cp kept:outputs/model "$work/one"
check "a folder comes with its name" -- diff -r "$outputs/model" "$work/one/model"
exits 0 -- cp kept:logs "$work"
check "logs" -- grep -q "some text" "$work"/logs/worker-*.log
check "cp --json" -- holds "[f['path'] for f in j['files']] == ['result.json'] and j['left_out'] == []" cp kept:result.json "$work/one"
check "result.json" -- cmp "$RUBATO_STATE/jobs/1/result.json" "$work/one/result.json"

# An older copy is replaced at once; what is in the way is said.
echo old >"$work/one/two/w.bin"
exits 0 -- cp kept:model/w.bin "$work/one/two"
check "replaced" -- cmp "$outputs/model/w.bin" "$work/one/two/w.bin"
mkdir -p "$work/way/w.bin/x"
exits 1 "w.bin: cannot replace" -- cp kept:model/w.bin "$work/way"
check "nothing temporary is left after a failure" -- test -z "$(find "$work/way" -name '.rubato-*')"

exits 1 "expected JOB:PATH" -- cp kept "$work/x"
exits 1 "there is no job nobody" -- cp nobody: "$work/x"
exits 1 "outputs/nothing: no such file" -- cp kept:nothing "$work/x"
exits 1 "without '.', '..'" -- cp kept:../2 "$work/x"
exits 1 "outputs/secret: no such file" -- cp kept:secret "$work/x"

# A folder of another name, and outputs of a job that runs
exits 1 "--outputs" "something else of that name" -- submit --outputs logs -- true
exits 0 -- submit --mode opaque --name runs --outputs work/res -- sh -c 'echo early >"$RUBATO_OUTPUT_DIR/early"; sleep 1000'
until_true "$RUBATO" cp runs:early "$work/early"
check "outputs of a job that runs" -- grep -q early "$work/early/early"
check "they are where they should be" -- test -e "$RUBATO_STATE/jobs/2/work/res/early"
exits 0 -- cancel runs

# A daemon that is restarted while a file comes: it goes on. The reader is slow because it is stopped.
head -c 150000000 /dev/zero >"$outputs/huge"
"$RUBATO" cp kept:huge "$work/huge" >"$work/copied" 2>&1 &
copier=$!
begun() { [ -n "$(find "$1" -name '.rubato-*' -size +0)" ] || [ -e "$1/huge" ]; }
until_true begun "$work/huge"
kill -STOP $copier
stop_daemon
start_daemon 1
kill -CONT $copier
wait $copier
check "it was copied across the restart" -- cmp "$outputs/huge" "$work/huge/huge"
check "huge: nothing temporary" -- test -z "$(find "$work/huge" -name '.rubato-*')"

# Interrupted: nothing that looks complete
"$RUBATO" cp kept:huge "$work/stopped" >"$work/copied" 2>&1 &
copier=$!
until_true begun "$work/stopped"
kill -INT $copier
wait $copier
whole_or_not() { [ ! -e "$work/stopped/huge" ] || cmp "$outputs/huge" "$work/stopped/huge"; }
check "nothing or the whole file" -- whole_or_not
check "and nothing temporary" -- test -z "$(find "$work/stopped" -name '.rubato-*')"
finish
