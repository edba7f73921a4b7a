#!/usr/bin/env bash
# Recorded simulations as a user sees them: rubato sim --open, rubato report, and what both say when
# something is missing or damaged.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*"; exit 1; }
cd "$work"
unset DISPLAY WAYLAND_DISPLAY

# refused WHAT WORDS...: the command fails and says WHAT
refused() {
  local what=$1
  shift
  if "$RUBATO" "$@" >stdout 2>stderr; then fail "accepted: rubato $*"; fi
  grep -qF -- "$what" stderr || fail "rubato $* does not say '$what': $(cat stderr)"
  [ ! -s stdout ] || fail "rubato $* printed to standard output"
}

"$RUBATO" workload generate --jobs 8 --hours 1 --seed 7 --out "a b.jsonl" 2>/dev/null
"$RUBATO" sim --cluster 4x4 --policy fifo,srtf --workload "a b.jsonl" --out one --quiet >sim 2>stderr
grep -q "written to one: report.html, summary.json, jobs.csv, timeline.csv, devices.csv, report.json" stderr || fail "the files are not named"
grep -qF '"command": "rubato sim --cluster 4x4 --policy fifo,srtf --workload '"'a b.jsonl'"' --out one --quiet"' one/summary.json ||
  fail "the command in summary.json is not one for a shell: $(grep command one/summary.json)"

if ! grep -q "<script" one/report.html; then
  "$RUBATO" report one >table 2>stderr || fail "report one without Node: $(cat stderr)"
  head -3 sim | cmp - <(head -3 table) || fail "the table is another one"
  refused "this rubato was built without Node and cannot make the page" report one --open
  echo "1 passed, 0 failed (a build without Node: the rest needs the page)"
  exit 0
fi

# The page again, beside its data or elsewhere, with the same table.
"$RUBATO" report one >table 2>stderr || fail "report one: $(cat stderr)"
grep -q "^written to one/report.html$" stderr || fail "it does not say where the page is"
head -3 sim | cmp - <(head -3 table) || fail "the table is another one"
"$RUBATO" sim --cluster 4x4 --policy fifo --round 60 --workload "a b.jsonl" --out two --quiet >/dev/null 2>&1
"$RUBATO" report one two/ >table 2>stderr
[ -s report.html ] || fail "no report.html of several folders"
grep -q "^fifo (one) " table && grep -q "^fifo (two) " table || fail "the folders are not told apart: $(cat table)"
"$RUBATO" report two --out page.html >/dev/null 2>&1
[ -s page.html ] || fail "--out is not obeyed"

refused "nowhere: no such folder; expected one that 'rubato sim --out DIR' wrote" report nowhere
mkdir empty
refused "empty: has no report.json" report one empty
refused "--out one: is a folder; expected a file to write" report one --out one
refused "page" report one --out missing/page.html
cp -r one old
rm old/report.json
refused "an earlier version of rubato wrote the folder. Its report.html still works; to see it beside others, repeat rubato sim" report old
cp -r one damaged
head -c 1000 one/report.json >damaged/report.json
refused "damaged/report.json:1:" report one damaged
refused "the file is damaged: repeat the simulation with --out" report damaged
sed 's/"t":\[/"t":["x",/' one/report.json >damaged/report.json
refused "unexpected \"x\"; the file is damaged" report damaged
printf '{"version": 2}' >damaged/report.json
refused "version: is 2; this rubato reads version 1" report damaged
refused "--port" report one --port 7000
refused "--open" report one --serve --open

# The browser: none without a display, else what xdg-open says.
"$RUBATO" report one --open >/dev/null 2>stderr
grep -q "^there is no display here: open file://$work/one/report.html in a browser, or run 'rubato report DIR --serve'$" stderr ||
  fail "without a display: $(cat stderr)"
mkdir bin
PATH=$work/bin DISPLAY=:1 "$RUBATO" report one --open >/dev/null 2>stderr
grep -q "^xdg-open is not installed: open file://" stderr || fail "without xdg-open: $(cat stderr)"
printf '#!/bin/sh\nexit 3\n' >bin/xdg-open
chmod +x bin/xdg-open
PATH=$work/bin DISPLAY=:1 "$RUBATO" report one --open >/dev/null 2>stderr
grep -q "^xdg-open found no browser: open file://" stderr || fail "without a browser: $(cat stderr)"
printf '#!/bin/sh\necho "$1" >%s/opened\n' "$work" >bin/xdg-open
PATH=$work/bin:$PATH DISPLAY=:1 "$RUBATO" report one --open >/dev/null 2>stderr
[ "$(cat opened)" = "$work/one/report.html" ] || fail "opened $(cat opened)"
PATH=$work/bin:$PATH DISPLAY=:1 TMPDIR=$work "$RUBATO" sim --cluster 4x4 --policy fifo --workload "a b.jsonl" --quiet --open >/dev/null 2>stderr
case $(cat opened) in
  "$work"/rubato-sim-*/report.html) [ -s "$(cat opened)" ] || fail "there is no $(cat opened)" ;;
  *) fail "sim --open opened $(cat opened)" ;;
esac
echo "1 passed, 0 failed"
