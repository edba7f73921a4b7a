"""What a job keeps: parameters, the optimizer's state, and the numbers beside them.

Unit 0 holds the numbers that every update depends on: the options of the parameter groups, the
learning-rate schedule, the gradient scaler, the tensors of extra={...}. The other units are one per
parameter, in the order of model.named_parameters() (a tensor with two names counts once):

    offset 0    u64  1 once the optimizer has state for the parameter
    offset 8    the numbers of that state, 8 bytes each
    then        the parameter and the tensors of the state, each at a multiple of 64

With extra={...} there is one unit only: such tensors may depend on all parameters, so they must
travel together. On the CPU the model's tensors are views of that memory; on a GPU they are copied.
"""

import collections
import copy
import struct

import torch

from . import _text
from ._errors import RefusedError
from ._memory import aligned, bytes_at, nbytes, tensor_at

_HEADER = 64


class _Parameter:
    def __init__(self, name, tensor, layout):
        self.name = name
        self.tensor = tensor
        self.tensors = layout.tensors  # [(key, example)]
        self.numbers = layout.numbers  # [(key, type)]
        self.constants = layout.constants  # [(key, value)]
        self.offsets = []
        at = aligned(_HEADER + 8 * len(self.numbers))
        for part in [tensor] + [example for _, example in self.tensors]:
            self.offsets.append(at)
            at = aligned(at + nbytes(part))
        self.bytes = at
        self.header = None  # int64: whether there is state, then its numbers
        self.home = None  # where the parameter belongs
        self.views = []  # where the optimizer's tensors belong
        self.places = []  # the same, with their keys
        self.state = None  # what the optimizer keeps, once it does
        self.has_state = False  # as the header says


class _Layout:
    def __init__(self):
        self.tensors, self.numbers, self.constants = [], [], []


def _shadow_step(optimizer, group, tensor):
    """The state that one update gives a parameter, found by an update of a copy."""
    shadow = copy.copy(optimizer)
    shadow.__dict__ = dict(optimizer.__dict__)
    for name in list(shadow.__dict__):
        if name.startswith("_optimizer_step_p"):  # hooks of the user
            shadow.__dict__[name] = collections.OrderedDict()
    shadow.state = collections.defaultdict(dict)
    twin = torch.nn.Parameter(tensor.detach().clone())
    twin.grad = torch.zeros_like(twin)
    shadow.param_groups = [{**group, "params": [twin]}]
    type(optimizer).step(shadow)
    return shadow.state.get(twin, {})


def _layout_of(optimizer, group, name, tensor):
    layout = _Layout()
    try:
        state = _shadow_step(optimizer, group, tensor)
    except Exception as error:
        raise RefusedError(
            f"{type(optimizer).__name__} cannot update the parameter '{name}' on its own ({error}); "
            "use an optimizer whose step() needs only gradients"
        ) from error
    for key, value in state.items():
        if isinstance(value, torch.Tensor):
            if value.is_sparse:
                raise RefusedError(f"{type(optimizer).__name__} keeps the sparse tensor '{key}'")
            layout.tensors.append((key, value.detach()))
        elif isinstance(value, (bool, int, float)):
            layout.numbers.append((key, type(value)))
        elif value is None:
            layout.constants.append((key, None))
        else:
            raise RefusedError(
                f"{type(optimizer).__name__} keeps '{key}' of type {type(value).__name__} for "
                f"'{name}'; only tensors and numbers can be kept"
            )
    return layout


class State:
    def __init__(self, model, optimizer, scheduler, scaler, extra):
        self.model, self.optimizer = model, optimizer
        self.scheduler, self.scaler = scheduler, scaler
        self.extra = dict(extra or {})
        self._parameters = []
        self._written = self._written_options = None
        self.rest_changed = True  # by the schedule or the scaler
        self._refuse_sparse()
        self._find_parameters()
        text = self._rest()
        self._rest_bytes = aligned(2 * len(text) + 4096)
        self._extra_offsets = []
        at = self._rest_bytes
        for name, tensor in self.extra.items():
            if not isinstance(tensor, torch.Tensor):
                raise RefusedError(f"extra['{name}'] is a {type(tensor).__name__}; expected a tensor")
            self._extra_offsets.append(at)
            at = aligned(at + nbytes(tensor))
        self._first_bytes = at
        self.together = bool(self.extra)
        self.host = all(p.tensor.device.type == "cpu" for p in self._parameters)

    # --- shape

    def _refuse_sparse(self):
        for name, module in self.model.named_modules():
            if getattr(module, "sparse", False) is True:
                raise RefusedError(
                    f"'{name}' has sparse gradients, which cannot be summed in a fixed order; create it "
                    "with sparse=False"
                )

    def _find_parameters(self):
        groups = {}
        for group in self.optimizer.param_groups:
            for tensor in group["params"]:
                groups[tensor] = group
        known = {}
        found = set()
        for name, tensor in self.model.named_parameters():
            found.add(tensor)
            if tensor.dtype not in (torch.float32, torch.bfloat16, torch.float16):
                raise RefusedError(
                    f"the parameter '{name}' is {tensor.dtype}; float32, bfloat16 and float16 can be "
                    "trained: model.float()"
                )
            group = groups.get(tensor)
            layout = _Layout()
            if group is not None and tensor.requires_grad:
                key = (id(group), tensor.shape, tensor.stride(), tensor.dtype, tensor.device)
                if key not in known:
                    known[key] = _layout_of(self.optimizer, group, name, tensor)
                layout = known[key]
            self._parameters.append(_Parameter(name, tensor, layout))
        strangers = [t for t in groups if t not in found]
        if strangers:
            raise RefusedError(
                f"the optimizer updates {len(strangers)} tensors that are not parameters of the model; "
                "make them parameters of one module that holds all that is trained"
            )
        if not self._parameters:
            raise RefusedError("the model has no parameters")

    def trained(self):
        """The parameters that have a gradient, in order."""
        return [p.tensor for p in self._parameters if p.tensor.requires_grad]

    def names(self):
        return [p.name for p in self._parameters if p.tensor.requires_grad]

    def unit_bytes(self):
        sizes = [p.bytes for p in self._parameters]
        return [self._first_bytes + sum(sizes)] if self.together else [self._first_bytes] + sizes

    def places(self):
        """Where each parameter is: (parameter, unit, offset)."""
        at = self._first_bytes
        for i, p in enumerate(self._parameters):
            yield p.tensor, 0 if self.together else i + 1, p.offsets[0] + (at if self.together else 0)
            at += p.bytes

    # --- memory

    def bind(self, addresses):
        """Moves the state to the units' memory."""
        first, addresses = addresses[0], addresses[1:]
        self._first = bytes_at(first, self._rest_bytes)
        if self.together:
            at = first + self._first_bytes
            for p in self._parameters:
                addresses.append(at)
                at += p.bytes
        with torch.no_grad():
            for p, address in zip(self._parameters, addresses):
                header = bytes_at(address, 8 + 8 * len(p.numbers))
                p.header = header.view(torch.int64)
                p.home = tensor_at(address + p.offsets[0], p.tensor)
                p.home.copy_(p.tensor)
                if self.host:
                    p.tensor.data = p.home
                p.views = [
                    tensor_at(address + offset, example)
                    for offset, (_, example) in zip(p.offsets[1:], p.tensors)
                ]
                p.places = [(key, view) for (key, _), view in zip(p.tensors, p.views)]
                self._adopt(p)
            self._extra_views = []
            for offset, tensor in zip(self._extra_offsets, self.extra.values()):
                home = tensor_at(first + offset, tensor)
                home.copy_(tensor)
                if self.host:
                    tensor.data = home
                self._extra_views.append(home)
        self._note_extra()
        self._write_rest()

    def _adopt(self, p):
        """Brings what the optimizer keeps for a parameter to its place."""
        state = p.state
        if not state:
            state = self.optimizer.state.get(p.tensor)
            if not state or not self.host:
                return
            p.state = state
        for key, view in p.places:
            value = state.get(key)
            if value is not view and value is not None:
                with torch.no_grad():
                    view.copy_(value)
                state[key] = view
        if not p.has_state or p.numbers:
            self._note_state(p, state)

    def _note_state(self, p, state):
        if not p.has_state:
            p.header[0] = 1
            p.has_state = True
        self._pack_numbers(p, state)

    def _pack_numbers(self, p, state):
        for i, (key, kind) in enumerate(p.numbers):
            raw = struct.pack("<d" if kind is float else "<q", state[key])
            p.header[1 + i] = struct.unpack("<q", raw)[0]

    def _note_extra(self):
        """Remembers the extra tensors as they are between updates."""
        with torch.no_grad():
            self._extra_kept = [
                (tensor, tensor.clone(), tensor._version) for tensor in self.extra.values()
            ]

    def restore_extra(self):
        """Undoes what the loop did to the extra tensors where no update was made."""
        for i, (tensor, kept, version) in enumerate(self._extra_kept):
            if tensor._version != version:
                with torch.no_grad():
                    tensor.copy_(kept)
                self._extra_kept[i] = (tensor, kept, tensor._version)

    def updated(self, mask):
        """After an update of the units with mask[unit] != 0; None: of all."""
        if self.host:
            if mask is None or self.together:
                for p in self._parameters:
                    self._adopt(p)
            else:
                for i, p in enumerate(self._parameters):
                    if mask[i + 1]:
                        self._adopt(p)
        if mask is None or mask[0]:
            self._write_rest()
        if self.extra:
            self._note_extra()

    def hide_gradients(self, mask):
        """Keeps units with mask[unit] == 0 from being updated."""
        for i, p in enumerate(self._parameters):
            if not mask[i + 1]:
                p.tensor.grad = None

    def replaced(self, unit):
        """The memory of a unit has new content."""
        if unit == 0:
            self._read_rest()
            with torch.no_grad():
                for view, tensor in zip(self._extra_views, self.extra.values()):
                    if not self.host:
                        tensor.copy_(view)
            self._note_extra()
            if self.together:
                for p in self._parameters:
                    self._load(p)
        else:
            self._load(self._parameters[unit - 1])

    def _load(self, p):
        with torch.no_grad():
            if not self.host:
                p.tensor.copy_(p.home)
            p.has_state = bool(p.header[0])
            p.state = None  # found again
            if not p.has_state:
                self.optimizer.state.pop(p.tensor, None)
                return
            state = self.optimizer.state[p.tensor]
            for (key, example), view in zip(p.tensors, p.views):
                state[key] = view if self.host else view.to(example.device, copy=True)
            for key, value in p.constants:
                state[key] = value
            for i, (key, kind) in enumerate(p.numbers):
                raw = struct.pack("<q", int(p.header[1 + i]))
                value = struct.unpack("<d" if kind is float else "<q", raw)[0]
                state[key] = kind(value)

    def store(self, unit):
        """Writes a unit that lives on a device to its memory."""
        if unit > 0:
            parts = [self._parameters[unit - 1]]
        else:
            parts = self._parameters if self.together else []
        with torch.no_grad():
            if unit == 0:
                self._write_rest()
                for view, tensor in zip(self._extra_views, self.extra.values()):
                    view.copy_(tensor)
            for p in parts:
                p.home.copy_(p.tensor)
                state = self.optimizer.state.get(p.tensor)
                if not state:
                    continue
                for (key, _), view in zip(p.tensors, p.views):
                    view.copy_(state[key])
                self._note_state(p, state)

    # --- the numbers of unit 0

    def _rest(self):
        groups = [
            {k: v for k, v in group.items() if k != "params"} for group in self.optimizer.param_groups
        ]
        parts = [("the optimizer's options", groups)]
        if self.scheduler is not None:
            state = self.scheduler.state_dict()  # a function in it is a part of the program
            state = {key: value for key, value in state.items() if not callable(value)}
            parts.append((type(self.scheduler).__name__, state))
        if self.scaler is not None:
            parts.append((type(self.scaler).__name__, self.scaler.state_dict()))
        texts = []
        for what, value in parts:
            try:
                texts.append(_text.encode(value))
            except _text.CannotKeep as error:
                raise RefusedError(f"{what} cannot be kept: {error}") from None
        return "\n".join(texts).encode()

    def _options(self):
        """What tells whether the groups' options changed, cheaper than their text; None: nothing does."""
        options = [
            value
            for group in self.optimizer.param_groups
            for key, value in group.items()
            if key != "params"
        ]
        return None if any(isinstance(value, torch.Tensor) for value in options) else options

    def _write_rest(self):
        options = self._options()
        if not self.rest_changed and options is not None and options == self._written_options:
            return
        self.rest_changed = False
        self._written_options = options
        text = self._rest()
        if text == self._written:
            return
        if len(text) + 8 > self._rest_bytes:
            raise RefusedError(
                f"the state of optimizer options, schedule and scaler has grown to {len(text)} bytes; "
                f"there is room for {self._rest_bytes - 8}"
            )
        raw = struct.pack("<q", len(text)) + text
        self._first[: len(raw)] = torch.frombuffer(bytearray(raw), dtype=torch.uint8)
        self._first[len(raw) : self._rest_bytes] = 0
        self._written = text

    def _read_rest(self):
        length = int(self._first[:8].view(torch.int64))
        text = bytes(self._first[8 : 8 + length].tolist())
        self._written = self._written_options = None
        parts = [_text.decode(line) for line in text.decode().split("\n")]
        for group, options in zip(self.optimizer.param_groups, parts[0]):
            group.update(options)
        if self.scheduler is not None:
            self.scheduler.load_state_dict(parts[1])
        if self.scaler is not None:
            self.scaler.load_state_dict(parts[-1])
