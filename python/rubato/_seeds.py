"""Every random source, seeded per mini-batch: a repeated step draws the same numbers anywhere."""

import random
import sys

import torch

_MASK = (1 << 64) - 1


def mix(seed, salt):
    """Another seed (splitmix64)."""
    z = (seed + (salt + 1) * 0x9E3779B97F4A7C15) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


def seed_all(seed):
    # Not torch.manual_seed(): before CUDA is used, that keeps a stack trace per call.
    torch.default_generator.manual_seed(seed & 0x7FFFFFFFFFFFFFFF)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(seed & 0x7FFFFFFFFFFFFFFF)
    random.seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed & 0xFFFFFFFF)
