#!/usr/bin/env bash
# rubato submit --upload: the working folder travels to the daemon, and only what the daemon does not have.
source "$RUBATO_SOURCE/tests/cli/helpers.sh"
needs RUBATOD
start_daemon 1

mkdir -p "$work/project/src" "$work/project/.git" "$work/project/data/raw" "$work/project/__pycache__"
cd "$work/project" || exit 1
printf '#!/bin/sh\ncat src/part.txt && test -h link && cat link && test ! -e .git && test ! -e data && test ! -e notes.tmp && pwd >"$RUBATO_OUTPUT_DIR/where"\n' >run.sh
chmod +x run.sh
echo one >src/part.txt
echo same >src/same1
echo same >src/same2
ln -s src/part.txt link
echo x >.git/config
echo x >notes.tmp
head -c 2000000 /dev/urandom >large.bin
head -c 1000 /dev/urandom >data/raw/huge
printf '# not for the daemon\n*.tmp\n/data/\n' >.rubatoignore

exits 0 "7 files, 5 sent (2.0 MB)" -- submit --wait --mode opaque --name first --upload -- ./run.sh
exits 0 "one" -- logs first
check "it ran in its own copy" -- test "$("$RUBATO" cp first:where "$work" >/dev/null && cat "$work/where")" = "$RUBATO_STATE/jobs/1/work"
check "the copy is the folder" -- cmp large.bin "$RUBATO_STATE/jobs/1/work/large.bin"
exits 0 "7 files, 0 sent (0 B)" -- submit --wait --mode opaque --name again --upload -- ./run.sh
echo two >src/part.txt
exits 0 "7 files, 1 sent (4 B)" -- submit --wait --mode opaque --name changed --upload -- ./run.sh
exits 0 "two" -- logs changed
cd "$work" || exit 1
exits 0 "7 files, 0 sent" -- submit --wait --mode opaque --name elsewhere --upload "$work/project" -- ./run.sh

# What cannot travel, or cannot run, is said before anything is submitted.
ln -s /etc/passwd project/out
exits 1 "out: a link to an absolute path" ".rubatoignore" -- submit --upload project -- ./run.sh
ln -sfn ../.. project/out
exits 1 "out: a link that leads out of the folder" -- submit --upload project -- ./run.sh
rm project/out
mkfifo project/pipe
exits 1 "pipe: is neither a file nor a folder" -- submit --upload project -- ./run.sh
rm project/pipe
exits 1 "'./nothing' is not among the uploaded files" -- submit --upload project -- ./nothing
exits 1 "'./large.bin' is not executable" -- submit --upload project -- ./large.bin
exits 1 "is not a folder" -- submit --upload nowhere -- ./run.sh
echo '!keep' >>project/.rubatoignore
exits 1 ".rubatoignore:4" "'!' is not supported" -- submit --upload project -- ./run.sh
sed -i '$d' project/.rubatoignore
check "nothing was submitted" -- holds "len(j['jobs']) == 4" queue --all

# A daemon that dies while jobs with uploads wait and start: every job runs, in a whole copy.
exits 0 -- submit --mode opaque --name holds -- sleep 1000
for i in 1 2 3; do exits 0 -- submit --mode opaque --name "later$i" --upload project -- ./run.sh; done
exits 0 -- cancel holds
for i in 1 2 3; do
  kill -9 "$daemon"
  wait "$daemon" 2>/dev/null
  rm -f "$RUBATO_STATE/server.url"
  start_daemon 1
done
for i in 1 2 3; do exits 0 "later$i finished" -- wait "later$i"; done
check "nothing half is left" -- test -z "$(find "$RUBATO_STATE/jobs" -maxdepth 2 -name 'work.new.*')"
finish
