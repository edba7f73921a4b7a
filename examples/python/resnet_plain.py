"""A ResNet on made-up pictures that are shifted and mirrored at random, with a learning rate that falls
after each epoch. Uses torchvision's resnet18 where it is installed, a smaller one otherwise."""

import random

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


class Pictures(Dataset):
    """Bright rectangles; the class is their shape."""

    def __init__(self, count, augment):
        self.count, self.augment = count, augment

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        label = index % 8
        noise = torch.randn(3, 24, 24, generator=torch.Generator().manual_seed(index))
        top, left = (random.randrange(8), random.randrange(8)) if self.augment else (4, 4)
        noise[label % 3, top : top + 4 + label, left : left + 12 - label] += 2
        if self.augment and random.random() < 0.5:
            noise = noise.flip(2)
        return noise, label


class Block(nn.Module):
    def __init__(self, before, after, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, padding=1, bias=False)
        self.conv2 = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(after), nn.BatchNorm2d(after)
        self.short = nn.Conv2d(before, after, 1, stride, bias=False)

    def forward(self, x):
        y = self.norm2(self.conv2(torch.relu(self.norm1(self.conv1(x)))))
        return torch.relu(y + self.short(x))


def resnet():
    try:
        from torchvision.models import resnet18

        return resnet18(num_classes=8)
    except ImportError:
        blocks = [Block(3, 16, 1), Block(16, 32, 2), Block(32, 64, 2)]
        return nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 8))


def main():
    torch.manual_seed(1)
    model = resnet().to(DEVICE)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    sched = torch.optim.lr_scheduler.StepLR(opt, step_size=1, gamma=0.5)
    loader = DataLoader(Pictures(1000, augment=True), batch_size=16, shuffle=True, num_workers=1)
    test = DataLoader(Pictures(128, augment=False), batch_size=128)

    for epoch in range(3):
        model.train()
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x.to(DEVICE)), y.to(DEVICE))
            opt.zero_grad()
            loss.backward()
            opt.step()
        sched.step()

        model.eval()
        with torch.no_grad():
            right = sum((model(x.to(DEVICE)).cpu().argmax(1) == y).sum().item() for x, y in test)
        print(f"epoch {epoch + 1}: {right} of 128 right", flush=True)


main()
