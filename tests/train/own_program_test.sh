#!/usr/bin/env bash
# What a C++ program can have of its own: flags, an optimizer class, clipping, an evaluation, metrics,
# a model file, a warm start, and a stop at a NaN.
# usage: own_program_test.sh RUBATO PROGRAM PYTHON
set -euo pipefail
rubato=$1 program=$2 python=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

fail() {
  echo "FAILED: $*" >&2
  exit 1
}
field() { "$python" -c 'import json,sys; print(json.load(open(sys.argv[1]))[sys.argv[2]])' "$1" "$2"; }
# refused CODE TEXT COMMAND...: ends with this code, and its output has the text
refused() {
  local expected=$1 text=$2 code=0 output
  shift 2
  output=$("$@" 2>&1) || code=$?
  [[ $code == "$expected" && $output == *"$text"* ]] || fail "$* gave $code, $output"
}

# --- flags
"$program" --help >help
grep -q -- "--width .*neurons of the hidden layer (default 16)" help || fail "no help for --width: $(cat help)"
refused 2 "--width: 'wide' is not a whole number" "$program" --width wide
refused 2 "--clip: 'x' is not a number" "$program" --clip=x
refused 2 "--reports: 'maybe'; expected true or false" "$program" --reports=maybe
refused 2 "--notes: a value is missing" "$program" --notes
refused 2 "unknown option '--depth'" "$program" --depth 3

# --- the same bits alone, on one worker, on three, and with workers that come and go
"$program" --width 12 --notes alone.notes --dump alone.bin >alone.json
bits=$(sed -n 's/.*"state_sha256": "\(.*\)".*/\1/p' alone.json)
[[ -n $bits ]] || fail "no result: $(cat alone.json)"
for workers in 1 3; do
  "$rubato" run --dir "w$workers" --workers "$workers" -- "$program" --width 12 --notes "$folder/w$workers.notes" >log 2>&1 ||
    fail "$workers workers: $(cat log)"
  [[ $(field "w$workers/result.json" state_sha256) == "$bits" ]] || fail "$workers workers have other bits"
  cmp alone.notes "w$workers.notes" || fail "$workers workers evaluated something else"
done
[[ $(cat w3/logs/*.log | grep -c "main begins") == 1 ]] || fail "workers were not forked: $(tail -n +1 w3/logs/*.log)"
RUBATO_WARM=0 "$rubato" run --dir cold --workers 3 -- "$program" --width 12 >log 2>&1 || fail "executed workers: $(cat log)"
[[ $(cat cold/logs/*.log | grep -c "main begins") == 3 ]] || fail "workers were forked: $(tail -n +1 cold/logs/*.log)"
[[ $(field cold/result.json state_sha256) == "$bits" ]] || fail "executed workers have other bits"
[[ $(grep -c epoch alone.notes) == 4 && $(tail -1 alone.notes) == finished* ]] || fail "$(cat alone.notes)"
"$rubato" run --dir moved --workers 2 -- "$program" --width 12 --pace 10 >log 2>&1 &
launcher=$!
for ((i = 0; i < 600; i++)); do
  [[ -f moved/events.jsonl ]] && grep -q '"view":2' moved/events.jsonl && break
  sleep 0.05
done
"$rubato" scale moved 4 >/dev/null
"$rubato" scale moved 1 >/dev/null
"$rubato" scale moved 3 >/dev/null
wait $launcher || fail "moved: $(cat log)"
[[ $(field moved/result.json state_sha256) == "$bits" ]] || fail "a resized job has other bits"

# --- metrics and the model
grep '"type":"metrics"' w3/events.jsonl | tail -1 | grep -q '"final"' || fail "no metrics: $(cat w3/events.jsonl)"
"$rubato" export w3 -o exported.pt >/dev/null
"$rubato" export w3 --format safetensors -o exported.safetensors >/dev/null
"$python" - <<'PYTHON' || fail "the model files differ"
import json, struct, torch
model = torch.load("w3/model.pt")
names = ["0.weight", "0.bias", "1.weight", "1.bias", "3.weight", "3.bias"]
buffers = ["1.running_mean", "1.running_var", "1.num_batches_tracked"]
assert sorted(model) == sorted(names + buffers), list(model)
flat = torch.cat([model[name].flatten() for name in names])
assert flat.numpy().tobytes() == open("alone.bin", "rb").read()
assert model["1.num_batches_tracked"].dtype == torch.int64 and model["1.num_batches_tracked"].item() == 32
exported = torch.load("exported.pt")
assert all(torch.equal(exported[name], model[name]) for name in model)
raw = open("exported.safetensors", "rb").read()
length = struct.unpack("<Q", raw[:8])[0]
header = json.loads(raw[8 : 8 + length])
for name, tensor in model.items():
    begin, end = header[name]["data_offsets"]
    assert raw[8 + length + begin : 8 + length + end] == tensor.numpy().tobytes(), name
other = dict(model); other["3.bias"] = torch.zeros(2)
torch.save(other, "other.pt")
torch.save([1, 2], "list.pt")
PYTHON

# --- warm start
"$program" --width 12 --steps 0 --init w3/model.pt --dump warm.bin >/dev/null
cmp warm.bin alone.bin || fail "--init loads something else"
refused 2 "has the shape [2]; the model's is [1]" "$program" --width 12 --init other.pt
refused 2 "not a state_dict" "$program" --width 12 --init list.pt
refused 2 "missing.pt" "$program" --init missing.pt
refused 1 "there is no job" "$rubato" export "$folder"

# --- a NaN ends the job at once, and says where
refused 1 "step 5, logical worker 1: the loss is nan" "$rubato" run --dir nan --workers 2 -- "$program" --nan-at 5
[[ $(grep -c '"type":"failed"' nan/events.jsonl) -le 2 ]] || fail "tried again after a NaN: $(cat nan/events.jsonl)"
refused 1 "step 5, logical worker 1: the loss is nan" "$program" --nan-at 5
refused 1 "there is no checkpoint yet" "$rubato" export nan
echo "passed"
