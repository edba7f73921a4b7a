"""What a pass of an audit sees, so that a difference can be named.

An audit computes the same mini-batch twice, on every worker, and the runtime compares the gradients.
Here is what it is told besides: hashes of the input and of the random generators afterwards, and where a
difference probably comes from.
"""

import ctypes
import os
import random
import sys
import time
import zlib

import torch

from . import _library as c

_CLOCKS = ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns")
_LIBRARIES = (os.path.dirname(torch.__file__), os.path.dirname(os.__file__), os.path.dirname(__file__))
_MOST_ENTRIES = 1000


def _hash_tensor(tensor, before=0):
    flat = tensor.detach().cpu().contiguous().flatten()
    if flat.numel() == 0:
        return before
    size = flat.numel() * flat.element_size()
    return zlib.crc32((ctypes.c_uint8 * size).from_address(flat.data_ptr()), before)


def hash_of(value, before=0):
    """Of tensors, numbers and texts in lists and dictionaries; other objects count as equal."""
    if isinstance(value, torch.Tensor):
        return _hash_tensor(value, before)
    if isinstance(value, (list, tuple)):
        for item in value:
            before = hash_of(item, before)
    elif isinstance(value, dict):
        for key, item in value.items():
            before = hash_of(item, hash_of(key, before))
    elif isinstance(value, (bool, int, float, str, bytes)):
        before = zlib.crc32(repr(value).encode(), before)
    return before


def _generators(device):
    states = {
        "state of torch's generator": _hash_tensor(torch.get_rng_state()),
        "state of Python's generator": zlib.crc32(repr(random.getstate()).encode()),
    }
    if device.type == "cuda":
        states["state of the GPU's generator"] = _hash_tensor(torch.cuda.get_rng_state(device))
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        states["state of NumPy's generator"] = zlib.crc32(repr(numpy.random.get_state()).encode())
    return states


def _attributes(model):
    """The state of its own that a model has: (module, attribute) -> a value to compare."""
    found = {}
    for name, module in model.named_modules():
        for key, value in vars(module).items():
            if key.startswith("_") or key == "training":
                continue
            if isinstance(value, torch.Tensor):
                found[name, key] = ("a tensor", _hash_tensor(value))
            elif isinstance(value, (bool, int, float, str)):
                found[name, key] = (repr(value)[:60], value)
            elif isinstance(value, (list, tuple, dict)) and len(value) <= _MOST_ENTRIES:
                found[name, key] = (f"a {type(value).__name__} of {len(value)}", hash_of(value, len(value)))
    return found


class Audit:
    """One pass at a time: begin(), then the pass, then end()."""

    def __init__(self, model, device):
        self._model, self._device = model, device
        self._originals = None

    def begin(self):
        self._seen = {}
        self._attributes = _attributes(self._model)
        self._originals = [(time, name, getattr(time, name)) for name in _CLOCKS]
        self._originals.append((os, "urandom", os.urandom))
        for module, name, original in self._originals:
            setattr(module, name, self._watched(original, f"{module.__name__}.{name}()"))

    def _watched(self, original, what):
        def call(*args, **kwargs):
            frame = sys._getframe(1)
            place = frame.f_code.co_filename
            if not place.startswith(_LIBRARIES) and not place.startswith("<"):
                self._seen.setdefault(what, f"{os.path.basename(place)}:{frame.f_lineno}")
            return original(*args, **kwargs)

        return call

    def end(self, worker, batch_hash):
        for module, name, original in self._originals:
            setattr(module, name, original)
        hashes = _generators(self._device)
        hashes["input"] = batch_hash
        for name, value in hashes.items():
            c.library.rubato_witness(worker, name.encode(), value, None)
        suspicion = self._suspicion()
        if suspicion:
            c.library.rubato_witness(worker, None, 0, suspicion.encode())

    def _suspicion(self):
        for (module, key), (text, value) in _attributes(self._model).items():
            before = self._attributes.get((module, key))
            if before is not None and before[1] != value:
                name = f"{module}.{key}" if module else key
                return (
                    f"the model's attribute '{name}' changes in the forward pass ({before[0]}, then {text}), "
                    "and the runtime does not know it; make it a buffer (register_buffer), or compute it "
                    "from rubato.step()"
                )
        for what, place in self._seen.items():
            if what.startswith("os."):
                return f"{place} draws random numbers from the system ({what}), which no seed decides"
        for what, place in self._seen.items():
            return f"{place} reads a clock ({what})"
        return ""
