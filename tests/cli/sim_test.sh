#!/usr/bin/env bash
# The simulator as a user sees it: output files, JSON keys, determinism with several threads, complete help.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*"; exit 1; }

run=(sim --cluster 4x4 --policy fifo,tiresias,pollux --set pollux.generations=5 --round 60 --quiet)
"$RUBATO" workload generate --jobs 20 --hours 1 --seed 7 --out "$work/w.jsonl" 2>"$work/stderr"
grep -q "next: rubato sim" "$work/stderr" || fail "no hint after generating"
[ "$(wc -l <"$work/w.jsonl")" = 20 ] || fail "expected 20 jobs"
"$RUBATO" workload generate --jobs 20 --hours 1 --seed 7 | cmp - "$work/w.jsonl" || fail "the same seed gives different bytes"

"$RUBATO" "${run[@]}" --workload "$work/w.jsonl" --jobs 1 --out "$work/one" >"$work/table" 2>/dev/null
"$RUBATO" "${run[@]}" --workload "$work/w.jsonl" --jobs 4 --out "$work/four" >/dev/null 2>&1
for file in jobs.csv timeline.csv; do
  cmp "$work/one/$file" "$work/four/$file" || fail "$file depends on the number of threads"
done
for file in report.html summary.json; do [ -s "$work/one/$file" ] || fail "no $file"; done
[ "$(wc -L <"$work/table")" -le 100 ] || fail "the table is wider than 100 columns"

"$RUBATO" "${run[@]}" --workload "$work/w.jsonl" --json >"$work/json" 2>/dev/null
for key in mean_jct_s p50_jct_s p90_jct_s p99_jct_s mean_queue_s makespan_s allocated_ratio useful_ratio resizes \
  decision_ms_mean decision_ms_p99 wall_s policy workload jobs_finished runs; do
  grep -q "\"$key\"" "$work/json" || fail "no key $key in the JSON"
done

"$RUBATO" sim --help >"$work/help"
for option in cluster workload format profiles policy set round resize-cost seed jobs json out; do
  grep -q -- "--$option" "$work/help" || fail "--$option is not in the help"
done
"$RUBATO" policies >"$work/policies"
for policy in fifo fifo-backfill srtf srsf tiresias gittins optimus afs pollux; do
  grep -q "^$policy " "$work/policies" || fail "$policy is not listed"
done
{ "$RUBATO" policies --markdown; cat "$RUBATO_SOURCE/docs/results/ablation.md"; } | cmp - "$RUBATO_SOURCE/docs/policies.md" ||
  fail "docs/policies.md is stale: make docs"
echo "1 passed, 0 failed"
