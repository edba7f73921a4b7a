"""A small program with one planted way to break the promise of equal bits, or none.

    planted.py KIND
"""

import os
import sys
import time

import torch

import rubato

KIND = sys.argv[1]


class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 256

    def __getitem__(self, i):
        x = torch.full((8,), float(i)) / 256
        if KIND == "data":
            x = x + int.from_bytes(os.urandom(1), "little") / 1000
        return x, x.sum(0, keepdim=True)


class Noise(torch.autograd.Function):
    """Stands for an operation whose sum has no fixed order."""

    @staticmethod
    def forward(context, x):
        return x.clone()

    @staticmethod
    def backward(context, grad):
        generator = torch.Generator()
        generator.seed()
        return grad * (1 + 1e-6 * torch.rand(grad.shape, generator=generator))


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(8, 16)
        self.second = torch.nn.Linear(16, 1)
        self.passes = 0
        if KIND == "worker":  # as a file or a variable of the machine would
            self.scale = 1 + int(os.environ.get("RUBATO_WORKER", 0)) / 8

    def forward(self, x):
        x = torch.tanh(self.first(x))
        if KIND == "operation":
            x = Noise.apply(x)
        if KIND == "attribute":
            self.passes += 1
            x = x * (1 + 1e-3 * self.passes)
        if KIND == "worker":
            x = x * self.scale
        return self.second(x)


torch.manual_seed(1)
model = Model()
optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
loader = torch.utils.data.DataLoader(Data(), batch_size=8, shuffle=True)
model, optimizer, loader = rubato.elastic(model, optimizer, loader, logical=4)
for epoch in rubato.epochs(3):
    for x, y in loader:
        optimizer.zero_grad()
        loss = ((model(x) - y) ** 2).mean()
        if KIND == "clock":
            loss = loss * (1 + 1e-3 * (time.time() % 1))
        loss.backward()
        optimizer.step()
        if KIND == "leader" and rubato.leads() and rubato.updates():
            with torch.no_grad():
                model.second.bias.add_(1e-3)
        if KIND == "slow":
            time.sleep(0.02)
