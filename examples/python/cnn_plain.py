"""A small CNN with BatchNorm and dropout that tells noisy stripes apart. The data are made up here, so
that nothing has to be downloaded."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def stripes(count, seed):
    generator = torch.Generator().manual_seed(seed)
    angles = torch.arange(count) % 10
    rows, columns = torch.meshgrid(torch.arange(16.0), torch.arange(16.0), indexing="ij")
    turn = angles.view(-1, 1, 1) * torch.pi / 10
    waves = torch.sin(rows * torch.cos(turn) + columns * torch.sin(turn))
    noise = torch.randn(count, 16, 16, generator=generator)
    return TensorDataset((waves + 2.5 * noise).unsqueeze(1), angles)


def main():
    torch.manual_seed(1)
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1),
        nn.BatchNorm2d(12),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(12, 24, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.1),
        nn.Linear(24 * 16, 10),
    ).to(DEVICE)
    loss_fn = nn.CrossEntropyLoss()
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    loader = DataLoader(stripes(2048, seed=1), batch_size=32, shuffle=True)
    test = [tensor.to(DEVICE) for tensor in stripes(512, seed=2).tensors]

    for epoch in range(4):
        model.train()
        for x, y in loader:
            opt.zero_grad()
            loss = loss_fn(model(x.to(DEVICE)), y.to(DEVICE))
            loss.backward()
            opt.step()

        model.eval()
        right = (model(test[0]).argmax(1) == test[1]).float().mean()
        print(f"epoch {epoch + 1}: {right:.1%} right", flush=True)


main()
