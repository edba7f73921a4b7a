"""Python values as text: the same value always gives the same bytes, on every worker.

Pickle does not: its bytes depend on which objects are one and the same. Only values are accepted that
can be restored without running code of theirs.
"""

import base64
import collections
import json

import torch


class CannotKeep(TypeError):
    """A value that has no such text; the message says where it is."""


def encode(value):
    return json.dumps(_plain(value, ""), separators=(",", ":"), allow_nan=False)


def decode(text):
    return _value(json.loads(text))


def _plain(value, where):
    if value is None or isinstance(value, (bool, str)):
        return value
    if type(value) is int:
        return value
    if isinstance(value, float):
        return ["f", value.hex()]
    if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        name = "l" if type(value) is list else "t"
        return [name, [_plain(item, f"{where}[{i}]") for i, item in enumerate(value)]]
    if type(value) in (dict, collections.OrderedDict, collections.Counter, collections.defaultdict):
        name = "c" if isinstance(value, collections.Counter) else "d"
        pairs = [[_plain(k, where), _plain(v, f"{where}[{k!r}]")] for k, v in value.items()]
        return [name, pairs]
    if type(value) is set:
        return ["s", sorted((_plain(item, where) for item in value), key=json.dumps)]
    if isinstance(value, torch.Tensor):
        data = value.detach().cpu().contiguous()
        raw = bytes(data.reshape(-1).view(torch.uint8).tolist())
        return ["T", str(data.dtype)[6:], list(data.shape), base64.b64encode(raw).decode()]
    item = getattr(value, "item", None)  # numbers of NumPy
    if type(value).__module__ == "numpy" and callable(item) and getattr(value, "ndim", 1) == 0:
        return _plain(item(), where)
    raise CannotKeep(f"{where or 'it'} is a {type(value).__module__}.{type(value).__qualname__}")


def _value(plain):
    if not isinstance(plain, list):
        return plain
    name = plain[0]
    if name == "f":
        return float.fromhex(plain[1])
    if name == "l":
        return [_value(item) for item in plain[1]]
    if name == "t":
        return tuple(_value(item) for item in plain[1])
    if name == "d":
        return {_value(k): _value(v) for k, v in plain[1]}
    if name == "c":
        return collections.Counter({_value(k): _value(v) for k, v in plain[1]})
    if name == "s":
        return {_value(item) for item in plain[1]}
    raw = bytearray(base64.b64decode(plain[3]))
    flat = torch.tensor(list(raw), dtype=torch.uint8).view(getattr(torch, plain[1]))
    return flat.reshape(plain[2])
