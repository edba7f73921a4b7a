"""Tensors over memory that the runtime owns."""

import ctypes

import torch

ALIGNMENT = 64


def aligned(size):
    return (size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT


def bytes_at(address, size):
    """A uint8 tensor over `size` bytes at `address`, which must stay mapped."""
    if size == 0:
        return torch.empty(0, dtype=torch.uint8)
    return torch.frombuffer((ctypes.c_uint8 * size).from_address(address), dtype=torch.uint8)


def floats_at(address, count):
    if count == 0:
        return torch.empty(0)
    return torch.frombuffer((ctypes.c_float * count).from_address(address), dtype=torch.float32)


def nbytes(tensor):
    return tensor.numel() * tensor.element_size()


def tensor_at(address, example):
    """A tensor at `address` with the type, shape and order of elements of `example`.

    It has a storage of its own, so torch.save() writes nothing beside it.
    """
    return part_of(bytes_at(address, nbytes(example)), 0, example)


def part_of(block, offset, example):
    """The same in a block of bytes."""
    if example.numel() == 0:
        return torch.empty_like(example, device=block.device)
    flat = block[offset : offset + nbytes(example)].view(example.dtype)
    if _dense(example):
        return flat.as_strided(example.shape, example.stride(), flat.storage_offset())
    return flat.view(example.shape)


def _dense(tensor):
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape)):
        if size == 1:
            continue
        if stride != expected:
            return False
        expected *= size
    return True
