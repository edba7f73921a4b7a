#!/usr/bin/env bash
# The commands on running jobs, with the toy program (RUBATO_TOY): what they print, and what they
# say to bad input.
source "$RUBATO_SOURCE/tests/cli/helpers.sh"
needs RUBATO_TOY
ps_is() { # ps_is EXPRESSION of j
  "$RUBATO" ps long --json >"$work/ps.json" && [ "$(field "$work/ps.json" "$1")" = True ]
}

# --- Bad input to run -----------------------------------------------------------------------------
refused "workers" "logical" "--logical 4" -- run --workers 4 --logical 2 --dir "$work/none" -- "$RUBATO_TOY"
refused "max-workers" -- run --workers 3 --max-workers 2 --dir "$work/none" -- "$RUBATO_TOY"
refused "--batch-range needs --mode adaptive" "consistent" -- run --batch-range 8..64 --dir "$work/none" -- "$RUBATO_TOY"
refused "--lr-rule needs --mode adaptive" -- run --lr-rule sqrt --dir "$work/none" -- "$RUBATO_TOY"
refused "--mode adaptive needs --batch-range" -- run --mode adaptive --dir "$work/none" -- "$RUBATO_TOY"
refused "LOW..HIGH" "'64'" -- run --mode adaptive --batch-range 64 --dir "$work/none" -- "$RUBATO_TOY"
refused "LOW..HIGH" "'0..8'" -- run --mode adaptive --batch-range 0..8 --dir "$work/none" -- "$RUBATO_TOY"
refused "did you mean 8..64" -- run --mode adaptive --batch-range 64..8 --dir "$work/none" -- "$RUBATO_TOY"
refused "linear, sqrt or none" "'cubic'" -- run --mode adaptive --batch-range 8..64 --lr-rule cubic --dir "$work/none" -- "$RUBATO_TOY"
refused "--logical is for consistent jobs" -- run --mode adaptive --batch-range 8..64 --logical 4 --dir "$work/none" -- "$RUBATO_TOY"
refused "max-workers" -- run --mode adaptive --batch-range 8..64 --workers 3 --max-workers 2 --dir "$work/none" -- "$RUBATO_TOY"
refused "--registry" "https is not supported" -- run --registry etcd:https://localhost/x --dir "$work/none" -- "$RUBATO_TOY"
refused "--registry" "file:/FOLDER or etcd:http://HOST:PORT/PREFIX" -- run --registry here --dir "$work/none" -- "$RUBATO_TOY"
check "nothing was created" -- test ! -e "$work/none"

# --- A finished job -------------------------------------------------------------------------------
check "a short job succeeds" -- "$RUBATO" run --workers 2 --logical 4 --dir "$work/short" -- "$RUBATO_TOY" --steps 20
check "it left a result" -- test "$(field "$work/short/result.json" 'j["steps"] == 20 and len(j["state_sha256"]) == 64')" = True
"$RUBATO" ps short --json >"$work/ps.json"
check "ps shows the last step of a finished job" -- test "$(field "$work/ps.json" 'j["step"] == 20')" = True
refused "short" "not running" "finished" -- scale short 2
refused "short" "not running" "finished" -- migrate short 0
refused "short" "not running" "finished" -- stop short
refused "short" "not running" "finished" -- profile short --min 1 --max 2
refused "short" "consistent" "run it again" -- replay short
refused "finished job" "--dir" -- run --workers 2 --logical 4 --dir "$work/short" -- "$RUBATO_TOY" --steps 20

# --- A registry elsewhere -------------------------------------------------------------------------
place=file:$work/registries
check "a job with a registry elsewhere" -- "$RUBATO" run --registry "$place" --workers 2 --logical 4 --dir "$work/apart" -- "$RUBATO_TOY" --steps 20
check "has the same bits" -- test "$(field "$work/apart/result.json" 'j["state_sha256"]')" = "$(field "$work/short/result.json" 'j["state_sha256"]')"
check "its views are there" -- compgen -G "$work/registries/apart.*/view.1"
check "and not in its folder" -- test ! -e "$work/apart/registry"
rm "$work/apart/result.json"
refused "apart" "--registry" "choose another folder" -- run --registry file:/tmp/x --workers 2 --logical 4 --dir "$work/apart" -- "$RUBATO_TOY" --steps 20
check "continuing it finds its registry" -- "$RUBATO" run --workers 2 --logical 4 --dir "$work/apart" -- "$RUBATO_TOY" --steps 20
check "ps too" -- test "$("$RUBATO" ps apart --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["view"] > 1)')" = True

# --- Checkpoints elsewhere ------------------------------------------------------------------------
mkdir "$work/checkpoints"
place=file:$work/checkpoints
check "a job with checkpoints elsewhere" -- "$RUBATO" run --checkpoints "$place" --workers 2 --logical 4 --dir "$work/away" -- "$RUBATO_TOY" --steps 20
check "has the same bits again" -- test "$(field "$work/away/result.json" 'j["state_sha256"]')" = "$(field "$work/short/result.json" 'j["state_sha256"]')"
check "its checkpoints are there" -- compgen -G "$work/checkpoints/away-*/checkpoint-*.rubato"
rm "$work/away/result.json"
refused "away" "--checkpoints" "choose another" -- run --checkpoints file:/tmp --workers 2 --logical 4 --dir "$work/away" -- "$RUBATO_TOY" --steps 20
check "continuing it finds them" -- "$RUBATO" run --workers 2 --logical 4 --dir "$work/away" -- "$RUBATO_TOY" --steps 20
check "without doing anything again" -- grep -q '"first_step":20\|"step":20' "$work/away/events.jsonl"
refused "$work/none-such" "mount it" -- run --checkpoints "file:$work/none-such" --dir "$work/none" -- "$RUBATO_TOY"
refused "--checkpoints" "file:/FOLDER" -- run --checkpoints s3://x/y --dir "$work/none" -- "$RUBATO_TOY"

# --- A running job --------------------------------------------------------------------------------
# A worker that a busy machine does not schedule for a while must not count as lost.
"$RUBATO" run --workers 2 --logical 4 --max-workers 3 --spares 1 --failure-timeout 60 --dir "$work/long" --quiet -- \
  "$RUBATO_TOY" --steps 1000000 --compute-us 5000 >"$work/long.out" 2>&1 &
launchers+=($!)
until_true ps_is 'j["state"] == "running" and len(j["workers"]) == 2 and j["step"] > 5'
until_true ps_is 'j["ready_newcomers"] == 1'
until_true ps_is 'j["spares"] == 1 and len(j["newcomers"]) == 1 and j["newcomers"][0]["pid"] > 0'
check "workers have all fields" -- ps_is 'all(set(w) >= {"id", "pid", "logical", "leader", "step", "step_ms"} for w in j["workers"])'
check "there is one leader" -- ps_is 'sum(w["leader"] for w in j["workers"]) == 1'
check "all logical workers are hosted" -- ps_is 'sorted(sum((w["logical"] for w in j["workers"]), [])) == [0, 1, 2, 3]'
check "no connection was refused" -- ps_is 'j["refused_connections"] == 0'
"$RUBATO" ps long >"$work/ps.txt"
check "ps names the newcomer" -- grep -q newcomer "$work/ps.txt"
"$RUBATO" ps --json >"$work/jobs.json"
check "ps lists all jobs" -- test "$(field "$work/jobs.json" 'sorted(x["name"] for x in j["jobs"]) == ["apart", "away", "long", "short"]')" = True

refused "1 to 3 workers" "not 4" -- scale long 4
refused "1 to 3 workers" "not 0" -- scale long 0
refused "'lomg'" "did you mean 'long'" -- scale lomg 2
refused "'lomg'" "did you mean 'long'" -- ps lomg
refused "'lomg'" "did you mean 'long'" -- events lomg
refused "long is consistent" "--mode adaptive" -- scale long 2 --batch 64
refused "no worker 99" "it has " -- migrate long 99
refused "--min is larger than --max" -- profile long --min 3 --max 2
refused "1 to 3 workers" "not 5" -- profile long --min 5 --max 6

check "scale" -- "$RUBATO" scale "$work/long" 3 # by folder
until_true ps_is 'len(j["workers"]) == 3 and j["target"] == 3'
check "scale back" -- "$RUBATO" scale long 2
until_true ps_is 'len(j["workers"]) == 2'
"$RUBATO" ps long --json >"$work/ps.json"
replaced=$(field "$work/ps.json" 'j["workers"][0]["id"]')
check "migrate" -- "$RUBATO" migrate long "$replaced"
until_true ps_is "len(j['workers']) == 2 and all(w['id'] != $replaced for w in j['workers'])"

"$RUBATO" profile long --min 1 --max 3 --json >"$work/profile.json"
check "profile has a row for each" -- test "$(field "$work/profile.json" '[r["workers"] for r in j["profile"]] == [1, 2, 3] and all(r["steps_per_s"] > 0 for r in j["profile"]) and j["profile"][0]["speedup"] == 1')" = True
until_true ps_is 'j["target"] == 2 and len(j["workers"]) == 2' # as before

"$RUBATO" events long --json >"$work/events.jsonl"
check "every event is an object with a type" -- python3 -c "
import json
events = [json.loads(line) for line in open('$work/events.jsonl')]
views = [e for e in events if e['type'] == 'view']
assert all('type' in e for e in events)
assert {e['cause'] for e in views} >= {'start', 'join', 'leave', 'migrate'}, views
for e in views:
    assert set(e) >= {'view', 'cause', 'workers', 'step', 'prepare_s', 'stall_ms', 'steps_redone'}, e
    assert e['steps_redone'] == 0, e
assert [e['view'] for e in views] == sorted({e['view'] for e in views}), 'views in order'
"
check "the same lines are in the folder" -- bash -c "head -n 3 '$work/long/events.jsonl' | cmp - <(head -n 3 '$work/events.jsonl')"
"$RUBATO" events long >"$work/events.txt"
check "events for people" -- grep -q "view .* migrate .* workers from step" "$work/events.txt"

check "stop" -- "$RUBATO" stop long
wait "${launchers[0]}"
check "the stopped launcher exits with 0" -- test $? = 0
refused "long" "not running" "stopped" -- scale long 2

# --- An adaptive job ------------------------------------------------------------------------------
"$RUBATO" run --mode adaptive --batch-range 4..60 --lr-rule sqrt --workers 2 --max-workers 4 --failure-timeout 60 --dir "$work/long2" \
  --name wide --quiet -- "$RUBATO_TOY" --steps 1000000 --compute-us 5000 --batch 5 >"$work/wide.out" 2>&1 &
launchers+=($!)
wide_is() {
  "$RUBATO" ps wide --json >"$work/ps.json" && [ "$(field "$work/ps.json" "$1")" = True ]
}
until_true wide_is 'j["state"] == "running" and len(j["workers"]) == 2 and j["step"] > 5'
check "ps shows mode and batch" -- wide_is 'j["mode"] == "adaptive" and j["batch"] == 10 and j["batch_range"] == "4..60" and j["lr_rule"] == "sqrt" and j["logical_workers"] == 2 and j["target_batch"] == 0'
"$RUBATO" ps wide >"$work/ps.txt"
check "ps for people has the batch" -- grep -q "batch 10 in 4..60" "$work/ps.txt"
refused "a batch of 61 is outside of 4..60" "wide" -- scale wide 2 --batch 61
refused "a batch of 3 is outside of 4..60" -- scale wide 2 --batch 3
refused "a batch of -5 is outside of 4..60" -- scale wide 2 --batch=-5
refused "1 to 4 workers" "not 5" -- scale wide 5 --batch 60
refused "has not finished" -- replay wide
check "scale with a batch" -- "$RUBATO" scale wide 3 --batch 33
until_true wide_is 'len(j["workers"]) == 3 and j["batch"] == 33 and j["logical_workers"] == 3 and j["target_batch"] == 33'
check "a batch alone" -- "$RUBATO" scale wide 3 --batch 12
until_true wide_is 'len(j["workers"]) == 3 and j["batch"] == 12'
check "back to the share of a worker" -- "$RUBATO" scale wide 3
until_true wide_is 'j["batch"] == 15'
"$RUBATO" profile wide --min 1 --max 2 --json >"$work/profile.json"
check "profile counts samples" -- test "$(field "$work/profile.json" '[round(r["samples_per_s"] / r["steps_per_s"]) for r in j["profile"]] == [5, 10]')" = True
"$RUBATO" events wide --json >"$work/events.jsonl"
check "view events have the batch" -- python3 -c "
import json
views = [e for e in map(json.loads, open('$work/events.jsonl')) if e['type'] == 'view']
assert all(e['batch'] > 0 and e['logical_workers'] == e['workers'] for e in views), views
assert {'start', 'batch'} <= {e['cause'] for e in views}, views
"
"$RUBATO" events wide >"$work/events.txt"
check "events for people have the batch" -- grep -q "view .* batch .* from step .*: batch 12" "$work/events.txt"
check "stop" -- "$RUBATO" stop wide
wait "${launchers[1]}"
check "the stopped launcher exits with 0" -- test $? = 0
refused "learning-rate rule sqrt" "--lr-rule sqrt" -- run --quiet --mode adaptive --batch-range 4..60 --workers 2 --dir "$work/long2" -- "$RUBATO_TOY"
refused "holds an adaptive job" "--mode adaptive" -- run --workers 2 --dir "$work/long2" -- "$RUBATO_TOY"
check "a short adaptive job succeeds" -- "$RUBATO" run --mode adaptive --batch-range 4..60 --workers 3 --dir "$work/fit" -- "$RUBATO_TOY" --steps 20
check "its replay has the same bits" -- "$RUBATO" replay "$work/fit"

finish
