"""Lightning modules, trained by Rubato.

    from rubato.lightning import Trainer    # in place of Lightning's

    Trainer(max_epochs=30, logical=8, precision="bf16-mixed", gradient_clip_val=1.0).fit(module, loader)

The module keeps its training_step(), validation_step(), configure_optimizers(), log() and hooks. The
loop is Rubato's: Lightning's own counts batches and epochs in each process, and a worker that joins
later would count from 0. What has no meaning here (manual optimization, several optimizers) is refused.
"""

import contextlib

import torch

from . import elastic, epochs, leads, report, step, updates
from ._errors import RefusedError

_PRECISIONS = {"32-true": None, "32": None, 32: None, "bf16-mixed": torch.bfloat16}


class Trainer:
    """`logical`, `seed` and `extra` are those of rubato.elastic(), the others are Lightning's."""

    def __init__(
        self,
        *,
        max_epochs,
        logical=1,
        max_steps=None,
        precision="32-true",
        gradient_clip_val=None,
        gradient_clip_algorithm="norm",
        accelerator="auto",
        seed=0,
        extra=None,
    ):
        if precision not in _PRECISIONS:
            raise RefusedError(f"precision={precision!r}; expected '32-true' or 'bf16-mixed'")
        if gradient_clip_algorithm not in ("norm", "value"):
            raise RefusedError(
                f"gradient_clip_algorithm={gradient_clip_algorithm!r}; expected 'norm' or 'value'"
            )
        cuda = accelerator in ("gpu", "cuda") or (accelerator == "auto" and torch.cuda.is_available())
        self.device = torch.device("cuda" if cuda else "cpu")
        self.max_epochs = max_epochs
        self.current_epoch = 0
        self.logger, self.loggers = None, []
        self.callback_metrics = {}
        self.sanity_checking = False
        self._type = _PRECISIONS[precision]
        self._clip, self._clips_value = gradient_clip_val, gradient_clip_algorithm == "value"
        self._elastic = {"logical": logical, "seed": seed, "steps": max_steps, "extra": extra}

    # --- what a module asks its trainer for

    @property
    def global_step(self):
        return step()

    @property
    def is_global_zero(self):
        return leads()

    def log_dict(self, metrics, step=None):
        if leads():
            numbers = {name.replace(" ", "_"): _number(value) for name, value in metrics.items()}
            self.callback_metrics.update(numbers)
            report(numbers)

    def backward(self, loss, *args, **kwargs):
        loss.backward(*args, **kwargs)

    # --- training

    def fit(self, module, train_dataloaders=None, val_dataloaders=None, datamodule=None):
        if datamodule is not None:
            datamodule.prepare_data()
            datamodule.setup("fit")
            train_dataloaders = datamodule.train_dataloader()
            val_dataloaders = _made(datamodule, "val_dataloader")
        if not module.automatic_optimization:
            raise RefusedError("automatic_optimization=False: the runtime makes the updates; leave it True")
        module.to(self.device)
        module._fabric = module._trainer = self  # as Lightning's Fabric does it for loops of one's own
        module.prepare_data()
        module.setup("fit")
        loader = train_dataloaders if train_dataloaders is not None else module.train_dataloader()
        if val_dataloaders is None:
            val_dataloaders = _made(module, "val_dataloader")
        optimizer, schedule, every_step = _optimizer_of(module)
        loader = elastic(module, optimizer, loader, schedule, **self._elastic)[2]
        module.on_fit_start()
        module.train()
        module.on_train_start()
        for epoch in epochs(self.max_epochs):
            self.current_epoch = epoch
            module.on_train_epoch_start()
            for number, batch in enumerate(loader):
                self._train_on(module, optimizer, batch, number)
                if schedule is not None and every_step:
                    schedule.step()
            if schedule is not None and not every_step:
                schedule.step()
            if val_dataloaders is not None and leads():
                self._validate(module, val_dataloaders)
            module.on_train_epoch_end()
        module.on_train_end()
        module.on_fit_end()
        return module

    def _train_on(self, module, optimizer, batch, number):
        batch = module.transfer_batch_to_device(batch, self.device, 0)
        module.on_train_batch_start(batch, number)
        with self._autocast():
            output = module.training_step(batch, number)
        loss = output["loss"] if isinstance(output, dict) else output
        optimizer.zero_grad()
        if loss is not None:  # None skips the mini-batch
            module.on_before_backward(loss)
            loss.backward()
            module.on_after_backward()
        if updates():
            if self._clip:
                clip = torch.nn.utils.clip_grad_value_ if self._clips_value else torch.nn.utils.clip_grad_norm_
                clip(module.parameters(), self._clip)
            module.on_before_optimizer_step(optimizer)
        optimizer.step()
        module.on_train_batch_end(output, batch, number)

    def _validate(self, module, loaders):
        module.eval()
        module.on_validation_epoch_start()
        with torch.no_grad():
            for loader in loaders if isinstance(loaders, (list, tuple)) else [loaders]:
                for number, batch in enumerate(loader):
                    batch = module.transfer_batch_to_device(batch, self.device, 0)
                    with self._autocast():
                        module.validation_step(batch, number)
        module.on_validation_epoch_end()
        module.train()

    def _autocast(self):
        if self._type is None:
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, dtype=self._type)


def _number(value):
    return value.item() if isinstance(value, torch.Tensor) else float(value)


def _made(thing, name):
    """What a hook of the module or its data gives, or None if it is not overridden."""
    try:
        return getattr(thing, name)()
    except Exception as error:
        if type(error).__name__ == "MisconfigurationException":
            return None
        raise


def _optimizer_of(module):
    """The optimizer, its schedule or None, and whether that steps with every step."""
    made = module.configure_optimizers()
    schedules = []
    if isinstance(made, dict):
        schedules = [made["lr_scheduler"]] if made.get("lr_scheduler") is not None else []
        made = made["optimizer"]
    elif isinstance(made, tuple) and len(made) == 2 and isinstance(made[0], (list, tuple)):
        made, schedules = made
    if isinstance(made, (list, tuple)):
        if len(made) != 1:
            raise RefusedError(f"configure_optimizers() returns {len(made)} optimizers; expected one")
        made = made[0]
    if len(schedules) > 1:
        raise RefusedError(f"configure_optimizers() returns {len(schedules)} schedules; expected one at most")
    if not schedules:
        return made, None, False
    schedule, every_step = schedules[0], False
    if isinstance(schedule, dict):
        if schedule.get("frequency", 1) != 1:
            raise RefusedError("lr_scheduler: frequency other than 1; let the schedule itself wait")
        every_step = schedule.get("interval", "epoch") == "step"
        schedule = schedule["scheduler"]
    return made, schedule, every_step
