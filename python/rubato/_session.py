"""A worker of a job behind the user's own loop.

The runtime asks for tasks, one after another (include/rubato/rubato.h); the user's loop asks for
mini-batches. A body of the loop is run

  - for a mini-batch. What follows backward() does nothing, unless it was the last mini-batch that this
    worker computes for the step: then backward() returns with the reduced gradient in .grad.
  - only for an update. A worker that catches up with the others, or whose mini-batch was empty, gets
    some mini-batch again, whose gradient is thrown away; backward() gives it the reduced gradient.

Everything between backward() and the next mini-batch belongs to the update of the step (the window).
At the end of an epoch that includes what stands after the inner loop.
"""

import atexit
import ctypes
import functools
import itertools
import os
import sys
import threading
import types

import torch

from . import _environment
from . import _library as c
from ._audit import Audit, hash_of
from ._buffers import Buffers
from ._data import Shards, Source, open_source
from ._errors import RefusedError, RubatoError
from ._gradients import Gradients
from ._seeds import mix, seed_all, seed_torch
from ._state import State
from ._tensors import tensors_of

_MODEL = 2  # salts
_UPDATE = 3

_current = None  # the session whose loop runs


def current():
    return _current


class Session:
    def __init__(
        self, model, optimizer, loader, scheduler, scaler, extra, logical, seed, steps, stop_at_nan
    ):
        if not isinstance(model, torch.nn.Module):
            raise RefusedError(f"the model is a {type(model).__name__}; expected a torch.nn.Module")
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise RefusedError(
                f"the optimizer is a {type(optimizer).__name__}; expected one torch.optim.Optimizer"
            )
        if isinstance(optimizer, torch.optim.LBFGS):
            raise RefusedError("LBFGS evaluates the loss several times per step; use another optimizer")
        if isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
            raise RefusedError(
                "ReduceLROnPlateau needs a metric that only the worker that evaluates knows; use a "
                "schedule of the step or epoch"
            )
        _environment.pin_torch()
        self.model, self.optimizer = model, optimizer
        self.scheduler, self.scaler = scheduler, scaler
        self.source = Source(loader)
        self.logical, self.seed, self.steps, self.stop_at_nan = logical, seed, steps, stop_at_nan
        self.state = State(model, optimizer, scheduler, scaler, extra)
        self.buffers = Buffers(model)
        self.gradients = Gradients(self.state.trained())
        self.device = self.state.trained()[0].device
        self.epoch = -1
        self._step = 0
        self.finished = False
        self.worker = None
        self._ended = None  # the worker of a finished job
        self._thread = threading.get_ident()
        self._task = c.Task(size=ctypes.sizeof(c.Task))
        self._audit = Audit(model, self.device)
        self._auditing = False  # the mini-batch that is handed out belongs to an audit
        self._losses = {}  # address -> tensor on a device
        self._in_body = False  # a mini-batch is handed out
        self._computed = False  # and its backward() is done
        self._window = False  # an update is being made
        self._mask = None  # units that it updates; None: all
        self._dummy = None
        self._dummy_begin = 0
        self._output = None  # of the model for the dummy mini-batch
        self._restore_forward = None  # if the model's forward() is replaced
        self._rehearsed = False  # a backward pass was made
        self._patch()

    # --- what the user's loop calls

    def open(self, epochs):
        if self.worker is not None:
            raise RubatoError("rubato.epochs() was called twice; a process trains once")
        self.data = open_source(self.source)  # before the worker exists, see _data.Children
        if self.source.iterable and "RUBATO_WORKER" in os.environ:
            os.environ.setdefault("RUBATO_AUDIT", str(10**12))  # in the first steps: later it reads much again
        self.worker = self._open(epochs)
        atexit.register(self._forget)
        global _current
        _current = self
        self._advance()

    def next_epoch(self):
        """The epoch to train, or None at the end."""
        if self._in_body:
            raise RubatoError(
                "the loop over the loader ended before the epoch did; to train fewer steps: "
                "rubato.elastic(..., steps=N)"
            )
        if self._window:
            self._close_window()
            self._advance()
        if self.finished:
            return None
        self.epoch = self._task.epoch
        return self.epoch

    def next_batch(self):
        """A mini-batch, or StopIteration at the end of the epoch."""
        if self.worker is None:
            raise RubatoError("the loop over epochs must be: for epoch in rubato.epochs(n)")
        if self._in_body and not self._computed:
            self._skipped()
        self._in_body = False
        if self._restore_forward is not None:
            self._restore_forward()
        if not self._window:
            self.state.restore_extra()
        if self._window:
            if self._ends_epoch():
                raise StopIteration
            self._close_window()
            self._advance()
        if self.finished or self._task.epoch != self.epoch:
            raise StopIteration
        self._in_body, self._computed = True, False
        return self._hand_out()

    def report(self, metrics):
        worker = self.worker if self.worker is not None else self._ended
        if worker is None:
            raise RubatoError("rubato.report() before the loop over rubato.epochs(); call it inside or after")
        if not self._task.leads:
            return
        for name, value in metrics.items():
            value = value.item() if isinstance(value, torch.Tensor) else float(value)
            if c.library.rubato_report(worker, str(name).encode(), value) != c.OK:
                raise RubatoError(f"rubato.report(): {c.last_error()}")

    @property
    def leads(self):
        if self.worker is None and not self.finished:
            return "RUBATO_WORKER" not in os.environ
        return bool(self._task.leads)

    @property
    def updates(self):
        return self._window

    @property
    def step(self):
        return self._step

    @property
    def workers(self):
        return self._task.workers

    def steps_per_epoch(self):
        if self._task.steps_per_epoch > 0:  # the job's owner may have chosen other logical workers
            return self._task.steps_per_epoch
        per_step = self.logical * self.source.batch_size
        return -(-len(self.source.dataset) // per_step)

    # --- tasks

    def _open(self, epochs):
        sizes = self.state.unit_bytes()
        traits = _environment.traits(self.device)
        private = self.buffers.bytes_of_block()
        tensors = tensors_of(self.model, self.state, self.buffers)
        parts = [
            c.GradientPart(name.encode(), p.numel())
            for name, p in zip(self.state.names(), self.state.trained())
        ]
        name = os.path.basename(sys.argv[0]) or "python"
        job = c.Job(
            size=ctypes.sizeof(c.Job),
            name=os.path.splitext(name)[0].encode(),
            gradient_floats=self.gradients.floats,
            unit_bytes=(ctypes.c_uint64 * len(sizes))(*sizes),
            units=len(sizes),
            private_bytes=self.buffers.bytes,
            initial_private=private.data_ptr() if self.buffers.bytes else None,
            seed=self.seed,
            samples=len(self.source.dataset),
            batch=self.source.batch_size,
            shuffle=self.source.shuffle,
            logical_workers=self.logical,
            epochs=epochs,
            steps=self.steps if self.steps is not None else -1,
            state_in_host_memory=self.state.host,
            gradients_in_host_memory=0,
            wants_replaced=1,
            warms_up_by_update=1,
            quiet=1,
            saves_model=1,
            traits=(c.Trait * len(traits))(
                *[c.Trait(k.encode(), v.encode()) for k, v in traits.items()]
            ),
            trait_count=len(traits),
            tensors=tensors,
            tensor_count=len(tensors),
            allows_nan=not self.stop_at_nan,
            gradient_parts=(c.GradientPart * len(parts))(*parts),
            gradient_part_count=len(parts),
        )
        worker = c.library.rubato_open(ctypes.byref(job))
        if not worker:
            raise RubatoError(c.last_error())
        return worker

    def _advance(self):
        """Does what the runtime asks for until it needs the user's loop."""
        task = self._task
        while True:
            if c.library.rubato_next(self.worker, ctypes.byref(task)) != c.OK:
                raise RubatoError(c.last_error())
            kind = task.kind
            if kind == c.COMPUTE:
                if task.sample_count:
                    return
                self._no_gradient()
            elif kind in (c.APPLY, c.APPLY_BUFFER):
                return
            elif kind == c.END:
                self._end()
                return
            else:
                self._perform(task, kind)

    def _perform(self, task, kind):
        if kind == c.MERGE:
            self.gradients.merge(task.buffer, task.source)
        elif kind == c.PUBLISH:
            self.gradients.publish(task.buffer, task.gradient)
        elif kind == c.SETTLE:
            self._settle()
        elif kind == c.REPLACED:
            self.state.replaced(task.unit)
        elif kind == c.STORE:
            self.state.store(task.unit)
        elif kind == c.BIND:
            self.state.bind([task.unit_memory[i] for i in range(len(self.state.unit_bytes()))])
        elif kind == c.SAVE:
            self._settle()
            self.buffers.load(task.final_private)
            save_model(self.model, os.fsdecode(task.path))
        else:
            raise RubatoError(f"the runtime asked for task {kind}, which this version does not know")

    def _settle(self):
        self.buffers.settle()
        for address, loss in self._losses.items():
            ctypes.c_double.from_address(address).value = float(loss)
        self._losses.clear()

    def _end(self):
        end = self._task.end
        if end == c.FINISHED:
            if self.buffers.bytes:
                self.buffers.load(self._task.final_private)
            self.finished = True
            self._ended = self.worker  # it still takes reports about the trained model
        code = self._close()
        if self.data is not None:
            self.data.close()
        if end != c.FINISHED:
            raise SystemExit(code)  # the job goes on without this process, or its message is printed

    def _close(self):
        global _current
        if self.worker is None:
            return 0
        worker, self.worker = self.worker, None
        _current = None
        return 0 if worker is self._ended else c.library.rubato_close(worker)

    def _forget(self):
        self._close()
        if self._ended is not None:
            c.library.rubato_close(self._ended)
            self._ended = None

    # --- mini-batches

    def _hand_out(self):
        task = self._task
        self._step = task.step
        if task.kind != c.COMPUTE:
            return self._hand_out_dummy()
        if task.steps_per_epoch == 0:
            raise RefusedError(
                "mode adaptive: the batch of a Python program cannot change yet; use mode consistent"
            )
        seed = task.random_seed
        samples = task.samples[: task.sample_count]
        if self.source.iterable:
            batch = self._part_of_shard(task, seed)
        elif task.audit:  # nothing that was fetched before
            self._audit.begin()
            self._auditing = True
            batch = self.data.get((task.step, "audit", task.audit), samples, seed, lambda count: ())
            self._audit_input = hash_of(batch)
        else:
            batch = self.data.get((task.step, task.logical), samples, seed, self._upcoming)
        self.buffers.load(task.before)
        # Seeding Python's generator takes as long as a small layer.
        (seed_torch if self.data.seeds_generators else seed_all)(mix(seed, _MODEL))
        return batch

    def _part_of_shard(self, task, seed):
        if self.data is None:
            self.data = Shards(self.source, task.logical_workers, self._parts)
        shards = self.data
        if task.audit:
            self._audit.begin()
            self._auditing = True
            shards = Shards(self.source, task.logical_workers, self._parts)
        first = task.step - task.step % task.steps_per_epoch
        batch = shards.get(task.epoch, first, task.step, task.logical, task.sample_count, seed)
        if task.audit:
            self._audit_input = hash_of(batch)
        return batch

    def _parts(self, logical, first, step):
        samples = (ctypes.c_int64 * self.source.batch_size)()
        share = c.Share(size=ctypes.sizeof(c.Share))
        for earlier in range(first, step):
            got = c.library.rubato_get_share(
                self.worker, earlier, logical, samples, len(samples), ctypes.byref(share)
            )
            if got != c.OK:
                raise RubatoError(c.last_error())
            yield share.sample_count, share.random_seed

    def _hand_out_dummy(self):
        if self._dummy is None and self.source.iterable:
            begin = self._dummy_begin
            some = itertools.islice(self.source.dataset.shard(0, 1), begin, begin + self.source.batch_size)
            self._dummy = self.source.collate(list(some))
        if self._dummy is None:
            end = min(self._dummy_begin + self.source.batch_size, len(self.source.dataset))
            self._dummy = self.source.fetch(list(range(self._dummy_begin, end)), self.seed)
        seed_all(mix(self.seed, _MODEL))
        self._replace_forward()
        return self._dummy

    def _replace_forward(self):
        """The first time, remembers what the model returns; later, returns that."""
        model = self.model
        own = model.__dict__.get("forward")
        forward = model.forward

        def restore():
            self._restore_forward = None
            del model.forward
            if own is not None:
                model.forward = own

        def remembered(*args, **kwargs):
            restore()
            if self._output is None:
                self._output = forward(*args, **kwargs)
            return self._output

        model.forward = remembered
        self._restore_forward = restore

    def _upcoming(self, count):
        """The next mini-batches of this worker, if nothing changes."""
        task = self._task
        step, logical = task.step, task.logical + 1
        samples = (ctypes.c_int64 * self.source.batch_size)()
        share = c.Share(size=ctypes.sizeof(c.Share))
        while count > 0:
            if logical >= task.hosts_end:
                step, logical = step + 1, task.hosts_begin
            if task.hosts_end <= task.hosts_begin or step >= task.total_steps:
                return
            got = c.library.rubato_get_share(
                self.worker, step, logical, samples, len(samples), ctypes.byref(share)
            )
            if got != c.OK:
                return
            if share.sample_count:
                yield (step, logical), samples[: share.sample_count], share.random_seed
            logical += 1
            count -= 1

    def _skipped(self):
        """The body did not call backward()."""
        if self._task.kind == c.COMPUTE:
            self._no_gradient()
            self._end_audit()
            self._advance()
            return
        # The loop does not want this mini-batch, but must make an update: with another one.
        self._dummy = self._output = None
        self._dummy_begin += self.source.batch_size
        if self._dummy_begin >= len(self.source.dataset):
            raise RubatoError("the loop calls backward() for no mini-batch, so it cannot make an update")

    def _end_audit(self):
        if self._auditing:
            self._auditing = False
            self._audit.end(self.worker, self._audit_input)

    def _no_gradient(self):
        task = self._task
        self.gradients.take_nothing(task.buffer, task.accumulate)
        self.buffers.load(task.before)
        self.buffers.store(task.after)
        task.loss[0] = 0.0

    def backward(self, original, tensors, grad_tensors, arguments):
        loss = tensors if isinstance(tensors, torch.Tensor) else tensors[0]
        if self._computed:
            raise RubatoError(
                "backward() was called twice for one mini-batch; add the losses and call it once"
            )
        if loss.numel() != 1 or grad_tensors is not None:
            raise RubatoError("backward() of a tensor that is not one number; sum it up or take its mean")
        task = self._task
        if task.kind != c.COMPUTE:
            self._catch_up(original, loss, arguments)
            return
        weight = task.weight
        original(loss * weight if weight != 1.0 else loss, None, **arguments)
        self.gradients.take(task.buffer, task.accumulate)
        self.gradients.forget()
        self.buffers.store(task.after)
        self._note_loss(task, loss)
        self._computed = True
        self._end_audit()
        self._advance()
        if self._task.kind in (c.APPLY, c.APPLY_BUFFER):
            self._open_window()

    def _note_loss(self, task, loss):
        if self.scaler is not None:
            loss = loss / self.scaler.get_scale()
        if loss.is_cuda:
            self._losses[ctypes.addressof(task.loss.contents)] = loss.detach()
        else:
            task.loss[0] = loss.item()

    # --- updates

    def _catch_up(self, original, loss, arguments):
        if not self._rehearsed:
            original(loss, None, **arguments)  # loads what is loaded lazily
            self._rehearsed = True
        self._computed = True
        self._open_window()

    def _open_window(self):
        task = self._task
        self._step = task.step
        if task.kind == c.APPLY:
            self.gradients.give(task.gradient)
        else:
            self.gradients.give_buffer(task.buffer, task.scale)
        if task.final_private:  # as a job delivers it, for an evaluation
            self.buffers.load(task.final_private)
        self._mask = task.update[: len(self.state.unit_bytes())] if task.update else None
        seed_all(mix(mix(self.seed, task.step), _UPDATE))
        self._window = True

    def _close_window(self):
        self.state.updated(self._mask)
        self.gradients.forget()
        self._window = self._in_body = False

    def _ends_epoch(self):
        done = self._task.step + 1
        return done % self._task.steps_per_epoch == 0 or done == self._task.total_steps

    # --- what the user's objects do meanwhile

    def _patch(self):
        """Lets step() and update() act only when an update is made."""
        self._replace(self.optimizer, "step", self._optimizer_step)
        if self.scheduler is not None:
            self._replace(self.scheduler, "step", self._rest_step)
        if self.scaler is not None:
            for name in ("step", "update", "unscale_"):
                self._replace(self.scaler, name, self._rest_step)

    def _replace(self, thing, name, wrapper):
        original = getattr(thing, name)

        def call(_, *args, **kwargs):
            if _current is not self:
                return original(*args, **kwargs)
            return wrapper(original, args, kwargs)

        functools.update_wrapper(call, getattr(original, "__func__", original))
        if name in vars(thing) or thing is self.optimizer:
            setattr(thing, name, types.MethodType(call, thing))
        else:  # a scheduler's state_dict() holds all its attributes, so this must not be one
            kind = type(thing)
            thing.__class__ = type(kind.__name__, (kind,), {name: call, "__module__": kind.__module__})

    def _optimizer_step(self, original, args, kwargs):
        if args or kwargs:
            if (args and args[0] is not None) or kwargs.get("closure") is not None:
                raise RubatoError("step(closure) evaluates the loss again; call step() without it")
        if not self._window:
            return None
        mask = self._mask
        if mask is not None and not self.state.together:
            self.state.hide_gradients(mask)
        factor = self._task.rate_factor
        if factor == 1.0:
            return original(*args, **kwargs)
        rates = [group["lr"] for group in self.optimizer.param_groups]
        try:
            for group in self.optimizer.param_groups:
                group["lr"] = group["lr"] * factor
            return original(*args, **kwargs)
        finally:
            for group, rate in zip(self.optimizer.param_groups, rates):
                group["lr"] = rate

    def _rest_step(self, original, args, kwargs):
        if self._window and (self._mask is None or self._mask[0]):
            self.state.rest_changed = True
            return original(*args, **kwargs)
        return None

    def owns_backward(self):
        return self._in_body and threading.get_ident() == self._thread


def save_model(model, path):
    """Writes a state_dict that plain PyTorch loads; the file appears whole or not at all."""
    state = model.state_dict()
    for name, value in state.items():
        if isinstance(value, torch.Tensor):
            state[name] = value.detach().cpu().clone()  # not the memory around it
    other = f"{path}.{os.getpid()}.new"
    with open(other, "wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(other, path)


_backward = torch.autograd.backward


@functools.wraps(_backward)
def _elastic_backward(tensors, grad_tensors=None, *args, **kwargs):
    session = _current
    if session is None or not session.owns_backward():
        return _backward(tensors, grad_tensors, *args, **kwargs)
    for name, value in zip(("retain_graph", "create_graph", "grad_variables", "inputs"), args):
        kwargs.setdefault(name, value)
    return session.backward(_backward, tensors, grad_tensors, kwargs)


torch.autograd.backward = _elastic_backward
