"""The model's buffers (such as BatchNorm statistics): one set per logical worker.

They are parts of one block of memory, which is swapped around each mini-batch. On a GPU the block
stays there; its copies leave for the host in settle(), so that nobody waits for the device.
"""

import torch

from ._memory import aligned, bytes_at, nbytes, part_of


class Buffers:
    def __init__(self, model):
        self._places = []  # (module, name, offset, example)
        seen = {}
        at = 0
        for module in model.modules():
            for name, buffer in module._buffers.items():
                if buffer is None:
                    continue
                if buffer not in seen:
                    seen[buffer] = at
                    at = aligned(at + nbytes(buffer))
                self._places.append((module, name, seen[buffer], buffer))
        self.bytes = at
        device = self._places[0][3].device if self._places else torch.device("cpu")
        self.host = device.type == "cpu"
        self._block = torch.zeros(at, dtype=torch.uint8, device=device)
        self._views = []
        for module, name, offset, buffer in self._places:
            # .data: autograd counts changes of each buffer, not of the block.
            view = part_of(self._block, offset, buffer).data
            view.copy_(buffer)
            module._buffers[name] = view
            self._views.append(view)
        self._known = {}  # address -> bytes there
        self._pending = {}  # `after` -> block on the device

    def places(self):
        """Where each buffer is: (buffer, unit, offset)."""
        for (_, _, offset, _), view in zip(self._places, self._views):
            yield view, -1, offset

    def bytes_of_block(self):
        return self._block.cpu().clone()

    def _host(self, address):
        found = self._known.get(address)
        if found is None:
            found = self._known[address] = bytes_at(address, self.bytes)
        return found

    def load(self, address):
        if not self.bytes:
            return
        pending = self._pending.get(address)
        self._block.copy_(self._host(address) if pending is None else pending)

    def store(self, address):
        if not self.bytes:
            return
        # A module may have replaced a buffer by another tensor.
        for (module, name, _, _), view in zip(self._places, self._views):
            if module._buffers[name] is not view:
                view.copy_(module._buffers[name])
                module._buffers[name] = view
        if self.host:
            self._host(address).copy_(self._block)
        else:
            self._pending[address] = self._block.clone()

    def settle(self):
        for address, block in self._pending.items():
            self._host(address).copy_(block)
        self._pending.clear()
