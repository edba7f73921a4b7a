"""Gradients of mini-batches on their way to one update.

A gradient is a list of tensors, one per trained parameter, as autograd made them, and a float per
parameter that says whether it had one. They are laid side by side only for other workers. Sums are
float32, whatever the parameters are, in the order that the runtime asks for.
"""

import torch

from ._memory import floats_at

_MOST_KNOWN = 64


class _Gradient:
    def __init__(self, parts, had):
        self.parts, self.had = parts, had


class Gradients:
    def __init__(self, parameters):
        self._parameters = parameters
        self._sizes = [p.numel() for p in parameters]
        # Those whose gradients need no other type and no other device.
        self._as_they_are = [p.dtype == torch.float32 and p.device.type == "cpu" for p in parameters]
        self.floats = sum(self._sizes) + len(parameters)
        self._buffers = {}
        self._known = {}

    def take(self, buffer, accumulate):
        """Takes the parameters' gradients into a buffer."""
        parts, had = [], []
        for p in self._parameters:
            grad = p.grad
            had.append(0.0 if grad is None else 1.0)
            if grad is None:
                grad = torch.zeros(p.shape, device=p.device)
            elif grad.dtype != torch.float32:
                grad = grad.float()
            parts.append(grad)
        if accumulate:
            self._add(self._buffers[buffer], _Gradient(parts, had))
        else:
            self._buffers[buffer] = _Gradient(parts, had)

    def take_nothing(self, buffer, accumulate):
        """The gradient of an empty mini-batch."""
        if not accumulate:
            parts = [torch.zeros(p.shape, device=p.device) for p in self._parameters]
            self._buffers[buffer] = _Gradient(parts, [0.0] * len(parts))

    @staticmethod
    def _add(into, other):
        with torch.no_grad():
            torch._foreach_add_(into.parts, other.parts)
        into.had = [a + b for a, b in zip(into.had, other.had)]

    def merge(self, into, source):
        self._add(self._buffers[into], self._buffers.pop(source))

    def publish(self, buffer, address):
        gradient = self._buffers.pop(buffer)
        flat = self._flat(address)
        with torch.no_grad():
            torch.cat(
                [part.reshape(-1).cpu() for part in gradient.parts] + [torch.tensor(gradient.had)],
                out=flat,
            )

    def give_buffer(self, buffer, scale):
        """Makes scale * buffer the parameters' gradients."""
        gradient = self._buffers.pop(buffer)
        if scale != 1.0:
            with torch.no_grad():
                torch._foreach_mul_(gradient.parts, scale)
        self._give(gradient.parts, gradient.had)

    def give(self, address):
        """Makes what another worker or this one has summed up the parameters' gradients."""
        # A copy: clipping changes gradients, and these belong to all workers.
        flat = self._flat(address).clone()
        *parts, had = flat.split(self._sizes + [len(self._sizes)])
        parts = [part.view(p.shape) for part, p in zip(parts, self._parameters)]
        self._give(parts, had.tolist())

    def _give(self, parts, had):
        for p, part, any_had, as_it_is in zip(self._parameters, parts, had, self._as_they_are):
            if not any_had:
                p.grad = None
            else:
                p.grad = part if as_it_is else part.to(p.device, p.dtype)

    def forget(self):
        for p in self._parameters:
            p.grad = None

    def _flat(self, address):
        found = self._known.get(address)
        if found is None:
            if len(self._known) >= _MOST_KNOWN:  # an audit has memory of its own each time
                self._known.clear()
            found = self._known[address] = floats_at(address, self.floats)
        return found
