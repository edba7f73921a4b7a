#!/usr/bin/env bash
# A Python program as a job of the daemon: it is taken for what it is, its metrics and its audit reach
# status and API, and its model can be fetched and exported.
# usage: daemon_test.sh PYTHON   (RUBATO, RUBATOD, RUBATO_SOURCE and PYTHONPATH as for the other tests)
source "$RUBATO_SOURCE/tests/cli/helpers.sh"
python=$1

cat >"$work/train.py" <<'PYTHON'
import sys, torch, rubato
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 1))
opt = torch.optim.Adam(model.parameters(), 1e-2)
x = torch.randn(256, 4)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True)), batch_size=8)
model, opt, loader = rubato.elastic(model, opt, loader, logical=2)
for epoch in rubato.epochs(4):
    for a, b in loader:
        opt.zero_grad()
        loss = ((model(a) - b) ** 2).mean()
        if "nan" in sys.argv and rubato.step() == 7:
            loss = loss * float("nan")
        loss.backward()
        opt.step()
    rubato.report({"val/error": 1 / (1 + epoch)}, epoch=epoch)
rubato.report(final=3)
PYTHON

start_daemon 2
exits 0 -- submit --name good --env "PYTHONPATH=$PYTHONPATH" -- "$python" "$work/train.py"
exits 0 -- wait good --timeout 280
check "its metrics are in the API" -- holds \
  "j['phase'] == 'finished' and j['progress']['metrics'] == {'epoch': 3, 'final': 3, 'val/error': 0.25}" status good
exits 0 "metrics      epoch 3, final 3, val/error 0.25" -- status good
exits 0 "all bits equal" "metrics  step 64: final 3" -- events good
(cd "$work" && "$RUBATO" cp good:model.pt fetched && "$RUBATO" export good -o exported.pt &&
  "$RUBATO" export good --format safetensors) >"$work/out" 2>&1 || failure "cp and export" "$work/out"
check "all are the same model" -- "$python" - "$work" <<'PYTHON'
import os, sys, torch
os.chdir(sys.argv[1])
a, b = torch.load("fetched/model.pt"), torch.load("exported.pt")
assert list(a) == list(b) and all(torch.equal(a[k], b[k]) for k in a)
assert a["1.num_batches_tracked"].item() == 64 and os.path.getsize("model.safetensors") > 300
PYTHON

# As one whose daemon is on another machine does it.
exits 0 -- cp good:checkpoints "$work/far"
exits 0 -- cp good:tensors.json "$work/far"
exits 0 "after 64 steps" -- export "$work/far" -o "$work/far.pt"
check "the same model" -- cmp "$work/far.pt" "$work/exported.pt"
exits 0 -- submit --name bad --env "PYTHONPATH=$PYTHONPATH" -- "$python" "$work/train.py" nan
exits 1 -- wait bad --timeout 280
exits 0 "step 7, logical worker" "the loss is nan" -- status bad
check "it was not tried again" -- holds "j['restarts'] == 0" status bad
stop_daemon
finish
