"""float16 with a GradScaler, for the GPU: same_bits_test.py runs it beside the examples there."""

import rubato
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(1)
x = torch.randn(512, 20)
data = TensorDataset(x, (x.sum(1) > 0).long())
model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 2)).cuda()
opt = torch.optim.AdamW(model.parameters(), lr=1e-2)
scaler = torch.cuda.amp.GradScaler(init_scale=2.0**24, growth_interval=5)  # overflows at first
loader = DataLoader(data, batch_size=16, shuffle=True)
model, opt, loader = rubato.elastic(model, opt, loader, logical=4, scaler=scaler)
for epoch in rubato.epochs(4):
    for x, y in loader:
        with torch.autocast("cuda", dtype=torch.float16):
            loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(opt)
        scaler.update()
if rubato.leads():
    print(f"loss {loss.item():.3f}, scale {scaler.get_scale()}")
