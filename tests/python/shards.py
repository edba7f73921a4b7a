"""Training on iterable data whose shards shuffle with a buffer and add noise."""

import os
import random

import rubato
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset


class Stream(IterableDataset):
    def __init__(self):
        self.epoch = 0

    def __iter__(self):  # newer versions of PyTorch ask for it
        return self.shard(0, 1)

    def __len__(self):
        return 301

    def set_epoch(self, epoch):
        self.epoch = epoch

    def shard(self, i, n):
        waiting = []
        for number in range(i, len(self), n):
            waiting.append(number)
            if len(waiting) > 8:
                yield self.sample(waiting.pop(random.randrange(len(waiting))))
        while waiting:
            yield self.sample(waiting.pop(random.randrange(len(waiting))))

    def sample(self, number):
        x = torch.full((6,), (number + self.epoch) / 300) + 0.1 * torch.randn(6)
        return x, x.sum(0, keepdim=True), number


torch.manual_seed(1)
model = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.Tanh(), nn.Linear(16, 1))
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
model, opt, loader = rubato.elastic(model, opt, DataLoader(Stream(), batch_size=6), logical=4)
for epoch in rubato.epochs(4):
    seen = []
    for x, y, numbers in loader:
        opt.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        opt.step()
        seen += numbers.tolist()
    if "RUBATO_WORKER" not in os.environ:  # it sees all of them
        assert sorted(seen) == list(range(301)), "a sample was lost or repeated"
print("finished", rubato.finished())
