"""Tells the runtime where the model's tensors are, so that it can write them to a file by itself."""

import ctypes

import torch

from . import _library as c

_TYPES = {
    torch.float32: b"F32",
    torch.float16: b"F16",
    torch.bfloat16: b"BF16",
    torch.float64: b"F64",
    torch.int64: b"I64",
    torch.int32: b"I32",
    torch.int16: b"I16",
    torch.int8: b"I8",
    torch.uint8: b"U8",
    torch.bool: b"BOOL",
}


def tensors_of(model, *sources):
    """The entries of the model's state_dict, as structs; none if the state does not hold them all."""
    places = {}
    for source in sources:
        for tensor, unit, offset in source.places():
            places[id(tensor)] = (unit, offset)
    found = []
    for name, tensor in model.state_dict(keep_vars=True).items():
        place = places.get(id(tensor))
        if place is None or tensor.dtype not in _TYPES:
            return (c.Tensor * 0)()
        numbers = ctypes.c_int64 * tensor.dim()
        found.append(
            c.Tensor(
                name=name.encode(),
                type=_TYPES[tensor.dtype],
                shape=numbers(*tensor.shape),
                strides=None if tensor.is_contiguous() else numbers(*tensor.stride()),
                dimensions=tensor.dim(),
                unit=place[0],
                offset=place[1],
            )
        )
    return (c.Tensor * len(found))(*found)
