"""A small GPT that learns to continue made-up sentences: a schedule with warm-up, clipping, and bfloat16
where it is safe."""

import math

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
LENGTH, WORDS, WIDTH, HEADS, LAYERS = 32, 64, 48, 4, 2


class Sentences(Dataset):
    """Every word follows from the one before it, by a rule that the model has to find."""

    def __len__(self):
        return 8 * WORDS

    def __getitem__(self, index):
        words = [index % WORDS]
        while len(words) < LENGTH + 1:
            words.append((5 * words[-1] + index // WORDS % 2 + 1) % WORDS)
        words = torch.tensor(words)
        return words[:-1], words[1:]


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.ask, self.say = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.think = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH), nn.Dropout(0.1)
        )

    def forward(self, x):
        batch, length, _ = x.shape
        parts = self.ask(self.norm1(x)).view(batch, length, 3, HEADS, WIDTH // HEADS)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        scores = query @ key.transpose(-2, -1) / math.sqrt(WIDTH // HEADS)
        future = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        mixed = scores.masked_fill(future, float("-inf")).softmax(-1) @ value
        x = x + self.say(mixed.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.think(self.norm2(x))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        nn.init.normal_(self.words.weight, std=0.1)
        self.blocks = nn.Sequential(*[Block() for _ in range(LAYERS)])
        self.norm, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)
        self.out.weight = self.words.weight  # tied

    def forward(self, words):
        places = torch.arange(words.shape[1], device=words.device)
        return self.out(self.norm(self.blocks(self.words(words) + self.places(places))))


def rate(step):
    return min(1.0, (step + 1) / 10) * 0.5 * (1 + math.cos(math.pi * min(1.0, step / 200)))


def main():
    torch.manual_seed(1)
    model = Gpt().to(DEVICE)
    decayed = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() <= 1]
    opt = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}], lr=3e-3
    )
    sched = torch.optim.lr_scheduler.LambdaLR(opt, rate)
    loader = DataLoader(Sentences(), batch_size=4, shuffle=True, num_workers=1)

    for epoch in range(4):
        for x, y in loader:
            x, y = x.to(DEVICE), y.to(DEVICE)
            with torch.autocast(DEVICE, dtype=torch.bfloat16):
                scores = model(x)
            loss = nn.functional.cross_entropy(scores.float().flatten(0, 1), y.flatten())
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            sched.step()
        print(f"epoch {epoch + 1}: loss {loss.item():.3f}", flush=True)


main()
