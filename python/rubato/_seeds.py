"""Every random source, seeded per mini-batch: a repeated step draws the same numbers anywhere."""

import random
import sys

import torch

_MASK = (1 << 64) - 1
# Not torch.manual_seed(): before CUDA is used, that keeps a stack trace per call.
_seed_cpu = torch.default_generator.manual_seed


def mix(seed, salt):
    """Another seed (splitmix64)."""
    z = (seed + (salt + 1) * 0x9E3779B97F4A7C15) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


def seed_torch(seed):
    seed &= 0x7FFFFFFFFFFFFFFF
    _seed_cpu(seed)
    if torch.cuda._initialized:
        torch.cuda.manual_seed_all(seed)


def seed_all(seed):
    seed_torch(seed)
    random.seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed & 0xFFFFFFFF)
