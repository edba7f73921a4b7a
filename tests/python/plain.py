"""Runs a plain PyTorch program as a reference: with the samples, seeds and sums that Rubato promises,
but without any of its code.

    plain.py accumulate N SCRIPT OUT          one process, N mini-batches per step
    plain.py ddp RANK N PORT SCRIPT OUT       one of N processes under DistributedDataParallel (gloo)

The script is not changed: its DataLoader hands out the right samples, and its optimizer acts after
the last mini-batch of a step. OUT is the state_dict that it ends with.
"""

import os
import random
import runpy
import sys

import torch

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15


# --- the order of samples (src/elastic/data/data_order.h)


def mix(x):
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def key(seed, stream, number):
    return mix((mix((seed + GOLDEN * stream) & MASK) + GOLDEN * (number + 1)) & MASK)


def sample_at(seed, samples, epoch, position):
    half = max(1, ((samples - 1).bit_length() + 1) // 2)
    mask = (1 << half) - 1
    value = position
    while True:
        left, right = value >> half, value & mask
        for turn in range(1, 9):
            f = mix((key(seed, 1, epoch) + GOLDEN * (right * 8 + turn)) & MASK) & mask
            left, right = right, left ^ f
        value = (left << half) | right
        if value < samples:
            return value


def share(seed, samples, batch, count, steps, step, logical):
    """(samples, weight, seed) of a logical worker."""
    in_step = min(batch * count, samples - step % steps * batch * count)
    first = step % steps * batch * count
    each, larger = divmod(in_step, count)
    begin = first + logical * each + min(logical, larger)
    size = each + (logical < larger)
    chosen = [sample_at(seed, samples, step // steps, begin + i) for i in range(size)]
    return chosen, size * count / in_step, key(key(seed, 2, step), 2, logical)


def seed_all(seed, salt, everything=True):
    seed = mix((seed + (salt + 1) * GOLDEN) & MASK)
    torch.manual_seed(seed & 0x7FFFFFFFFFFFFFFF)
    if not everything:
        return
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed & 0xFFFFFFFF)


def tree_sum(gradients):
    """The sum over logical workers: pairs, then pairs of pairs (src/elastic/data/reduction_tree.h)."""
    if len(gradients) == 1:
        return gradients[0]
    half = 1 << (len(gradients) - 1).bit_length() - 1
    left, right = tree_sum(gradients[:half]), tree_sum(gradients[half:])
    return [
        b if a is None else a if b is None else a + b for a, b in zip(left, right)
    ]  # a missing gradient counts as nothing


class Loop:
    """What the patched parts of PyTorch share."""

    def __init__(self, count, hosted):
        self.count, self.hosted = count, hosted
        self.model = self.ddp = None
        self.step = 0
        self.acts = False  # after the last mini-batch of a step
        self.inside = False
        self.buffers = {}
        self.gradients = {}
        self.weight = 1.0
        self.logical = 0

    def parameters(self):
        return [p for p in self.model.parameters() if p.requires_grad]

    def found(self, model):
        self.model = model
        first = [b.clone() for b in model.buffers()]
        self.buffers = {logical: [b.clone() for b in first] for logical in self.hosted}
        self.load()

    def load(self):
        if self.model is not None:
            for buffer, value in zip(self.model.buffers(), self.buffers[self.logical]):
                buffer.data.copy_(value)

    def keep(self):
        self.buffers[self.logical] = [b.clone() for b in self.model.buffers()]


loop = None


class Loader:
    def __init__(self, dataset, batch_size=1, num_workers=0, collate_fn=None):
        self.dataset, self.batch = dataset, batch_size
        self.collate = collate_fn or torch.utils.data.default_collate
        self.steps = -(-len(dataset) // (batch_size * loop.count))
        self.children = num_workers > 0  # that draw from Python's and NumPy's generators of their own

    def __iter__(self):
        for _ in range(self.steps):
            for logical in loop.hosted:
                chosen, weight, seed = share(
                    0, len(self.dataset), self.batch, loop.count, self.steps, loop.step, logical
                )
                if not chosen:
                    continue
                loop.logical, loop.weight, loop.acts = logical, weight, False
                seed_all(seed, 1)
                batch = self.collate([self.dataset[i] for i in chosen])
                for p in loop.parameters() if loop.model else []:
                    p.grad = None
                loop.load()
                seed_all(seed, 2, everything=self.children)
                yield batch
            loop.step += 1


def patch():
    call, backward = torch.nn.Module.__call__, torch.Tensor.backward

    def outermost(module, *args, **kwargs):
        if loop.inside or not module.training or isinstance(module, torch.nn.modules.loss._Loss):
            return call(module, *args, **kwargs)
        if loop.model is None:
            loop.found(module)
        if loop.ddp is None and torch.distributed.is_initialized():
            loop.ddp = torch.nn.parallel.DistributedDataParallel(module, broadcast_buffers=False)
        loop.inside = True
        try:
            return call(loop.ddp or module, *args, **kwargs)
        finally:
            loop.inside = False

    def accumulate(loss, *args, **kwargs):
        backward(loss * loop.weight if loop.weight != 1.0 else loss, *args, **kwargs)
        loop.keep()
        if loop.ddp is None:
            loop.gradients[loop.logical] = [p.grad for p in loop.parameters()]
            for p in loop.parameters():
                p.grad = None
            if loop.logical != max(loop.hosted):
                return
            sums = tree_sum([loop.gradients[i] for i in sorted(loop.gradients)])
            for p, total in zip(loop.parameters(), sums):
                p.grad = None if total is None else total * (1 / loop.count)
        loop.acts = True

    def only_when_it_acts(original):
        return lambda self, *args, **kwargs: original(self, *args, **kwargs) if loop.acts else None

    original = torch.utils.data.DataLoader
    torch.utils.data.DataLoader = lambda *args, shuffle=False, **kwargs: (
        Loader(*args, **kwargs) if shuffle else original(*args, **kwargs)  # the latter: a test set
    )
    torch.nn.Module.__call__ = outermost
    torch.Tensor.backward = accumulate
    for kind in (torch.optim.SGD, torch.optim.AdamW):
        kind.step = only_when_it_acts(kind.step)
    schedules = torch.optim.lr_scheduler
    schedule = getattr(schedules, "LRScheduler", None) or schedules._LRScheduler  # PyTorch 2 or 1
    advance = schedule.step
    schedule.step = lambda self: advance(self) if loop.acts or self.last_epoch < 0 else None


def main(arguments):
    global loop
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    if arguments[0] == "ddp":
        rank, count, port, script, out = arguments[1:]
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
        torch.distributed.init_process_group("gloo", rank=int(rank), world_size=int(count))
        loop = Loop(int(count), [int(rank)])
    else:
        count, script, out = arguments[1:]
        loop = Loop(int(count), range(int(count)))
    patch()
    runpy.run_path(script, run_name="__main__")
    loop.logical = loop.hosted[0]
    loop.load()
    torch.save(loop.model.state_dict(), out)


main(sys.argv[1:])
