"""Hugging Face Accelerate: `from rubato.accelerate import Accelerator` in place of accelerate's.

    accelerator = Accelerator(logical=8, mixed_precision="bf16")
    model, opt, loader, sched = accelerator.prepare(model, opt, loader, sched)
    for epoch in rubato.epochs(30):
        for batch in loader:
            ...
            accelerator.backward(loss)
"""

import accelerate
import torch

from . import elastic, leads
from ._errors import RefusedError


class Accelerator(accelerate.Accelerator):
    """`logical`, `seed`, `steps` and `extra` are those of rubato.elastic(); the rest are accelerate's."""

    def __init__(self, *args, logical=1, seed=0, steps=None, extra=None, **kwargs):
        super().__init__(*args, **kwargs)
        if self.gradient_accumulation_steps > 1:
            raise RefusedError(
                "gradient_accumulation_steps: logical workers accumulate gradients; use logical=..."
            )
        if self.mixed_precision == "fp16":
            raise RefusedError('mixed_precision="fp16" needs a scaler around each step; use "bf16"')
        self._elastic = {"logical": logical, "seed": seed, "steps": steps, "extra": extra}

    def prepare(self, *things, **kwargs):
        """Takes model, optimizer, training loader and perhaps a schedule, in any order, and loaders for
        evaluation, which do not shuffle."""
        kinds = [_kind(thing) for thing in things]
        for kind in ("model", "optimizer", "loader"):
            if kinds.count(kind) != 1:
                raise RefusedError(
                    f"prepare() got {kinds.count(kind)} of the kind '{kind}'; expected one model, one "
                    "optimizer and one loader that shuffles"
                )
        given = dict(zip(kinds, things))
        model = self.prepare_model(given["model"])
        loader = elastic(
            model, given["optimizer"], given["loader"], given.get("schedule"), **self._elastic
        )[2]
        ready = {
            "model": model,
            "optimizer": given["optimizer"],
            "loader": _OnDevice(loader, self.device),
            "schedule": given.get("schedule"),
        }
        results = [
            ready[kind] if kind in ready else self.prepare_data_loader(thing)
            for kind, thing in zip(kinds, things)
        ]
        return results[0] if len(results) == 1 else tuple(results)

    def backward(self, loss, **kwargs):
        loss.backward(**kwargs)

    @property
    def is_main_process(self):
        return leads()

    @property
    def is_local_main_process(self):
        return leads()


def _kind(thing):
    if isinstance(thing, torch.nn.Module):
        return "model"
    if isinstance(thing, torch.optim.Optimizer):
        return "optimizer"
    if isinstance(thing, torch.utils.data.DataLoader):
        shuffles = isinstance(thing.sampler, torch.utils.data.RandomSampler)
        return "loader" if shuffles else "evaluation"
    if hasattr(thing, "step") and hasattr(thing, "state_dict"):
        return "schedule"
    raise RefusedError(f"prepare() cannot prepare a {type(thing).__name__}")


class _OnDevice:
    """Moves mini-batches to the device, as accelerate's loaders do."""

    def __init__(self, loader, device):
        self._loader, self._device = loader, device
        self.dataset, self.batch_size = loader.dataset, loader.batch_size

    def __iter__(self):
        for batch in self._loader:
            yield accelerate.utils.send_to_device(batch, self._device)

    def __len__(self):
        return len(self._loader)
