"""accelerate_program.py plain|accelerate OUT: the same training with and without Accelerate."""

import sys

import rubato
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

kind, out = sys.argv[1:]
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(1)
x = torch.randn(512, 20)
data = TensorDataset(x, (x.sum(1) > 0).long())
model = nn.Sequential(nn.Linear(20, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 2)).to(device)
opt = torch.optim.AdamW(model.parameters(), lr=1e-2)
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 24)
loader = DataLoader(data, batch_size=16, shuffle=True)
test = DataLoader(data, batch_size=256)
if kind == "accelerate":
    from rubato.accelerate import Accelerator

    accelerator = Accelerator(logical=4, mixed_precision="bf16")
    model, opt, loader, sched, test = accelerator.prepare(model, opt, loader, sched, test)
else:
    model, opt, loader, sched = rubato.elastic(model, opt, loader, sched, logical=4)
for epoch in rubato.epochs(3):
    model.train()
    for x, y in loader:
        if kind == "accelerate":
            loss = nn.functional.cross_entropy(model(x), y)
            opt.zero_grad()
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
        else:
            with torch.autocast(device, dtype=torch.bfloat16):
                scores = model(x.to(device))
            loss = nn.functional.cross_entropy(scores.float(), y.to(device))
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
if rubato.leads():
    model.eval()
    with torch.no_grad():
        right = sum((model(x.to(device)).argmax(1) == y.to(device)).sum().item() for x, y in test)
    print(f"{kind}: {right} of 512 right")
rubato.save(out)
