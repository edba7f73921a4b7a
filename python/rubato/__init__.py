"""Elastic training: a PyTorch program whose model is the same, bit for bit, whatever number of workers
it had on the way.

    import rubato
    model, opt, loader = rubato.elastic(model, opt, loader, logical=8)
    for epoch in rubato.epochs(30):
        for x, y in loader:
            opt.zero_grad(); loss = loss_fn(model(x), y); loss.backward(); opt.step()

`rubato run -- python3 train.py` starts it with any number of workers; `python3 train.py` alone gives
the same model.
"""

from . import _environment

_environment.pin_variables()  # before PyTorch is loaded, where possible

from . import _library, _warm  # noqa: E402
from ._errors import RefusedError, RubatoError  # noqa: E402
from ._session import Session, save_model  # noqa: E402

_warm.leave_copy()
_library.library.rubato_hello()  # now the launcher starts the other workers

__all__ = [
    "RefusedError",
    "RubatoError",
    "elastic",
    "epochs",
    "finished",
    "leads",
    "report",
    "save",
    "step",
    "train",
    "updates",
    "workers",
]
__version__ = _library.version()

_session = None


class _Loader:
    """Hands out the mini-batches that this worker computes, one epoch per loop."""

    def __init__(self, session):
        self._session = session
        self.dataset = session.source.dataset
        self.batch_size = session.source.batch_size

    def __iter__(self):
        return self

    def __next__(self):
        return self._session.next_batch()

    def __len__(self):
        return self._session.steps_per_epoch()


class _Epochs:
    def __init__(self, session, count):
        self._session, self._count = session, count

    def __iter__(self):
        return self

    def __next__(self):
        if self._session.worker is None and not self._session.finished:
            self._session.open(self._count)
        epoch = self._session.next_epoch()
        if epoch is None:
            raise StopIteration
        return epoch

    def __len__(self):
        return self._count


def elastic(
    model,
    optimizer,
    loader,
    scheduler=None,
    *,
    logical=1,
    scaler=None,
    extra=None,
    seed=0,
    steps=None,
    stop_at_nan=True,
):
    """Makes a training program elastic. Returns what it was given, ready for the loop.

    A step consists of `logical` mini-batches of the loader's batch size, whatever number of workers
    computes them. Every sample is used once per epoch, in an order that `seed` decides.
    `scheduler`, `scaler` and the tensors of `extra` (a moving average, for example) are kept with
    the model. `steps` ends the job before its epochs do. A loss that is not a number ends the job
    with a message, unless `stop_at_nan` is false.
    """
    global _session
    if _session is not None:
        raise RefusedError(
            "rubato.elastic() was called twice; a process trains one model with one optimizer"
        )
    if not isinstance(logical, int) or logical < 1:
        raise RefusedError(f"logical={logical!r}; expected the number of logical workers, 1 or more")
    _session = Session(
        model, optimizer, loader, scheduler, scaler, extra, logical, seed, steps, stop_at_nan
    )
    if scheduler is None:
        return model, optimizer, _Loader(_session)
    return model, optimizer, _Loader(_session), scheduler


def epochs(count):
    """The epochs to train, for the outer loop. It ends when the job is finished. A worker that leaves
    the job earlier exits inside, so what stands after the loop runs with the trained model only."""
    if _session is None:
        raise RubatoError("rubato.epochs() before rubato.elastic(); call that first")
    if not isinstance(count, int) or count < 0:
        raise RubatoError(f"rubato.epochs({count!r}): expected the number of epochs")
    return _Epochs(_session, count)


def leads():
    """Whether this is the one worker that evaluates, logs and saves."""
    return True if _session is None else _session.leads


def finished():
    """Whether the job is finished and the model holds its final state."""
    return _session is not None and _session.finished


def step():
    """The step of the job, from 0: the same on every worker, unlike a counter of one's own."""
    return _session.step if _session is not None else 0


def updates():
    """Whether this pass of the loop makes the update of its step: True after backward() of the last
    mini-batch. For what must happen once per step and is none of the things elastic() was given."""
    return _session.updates if _session is not None else True


def workers():
    """The number of workers at present; 0 while this one prepares."""
    return _session.workers if _session is not None else 1


def report(metrics=None, /, **more):
    """Reports numbers about the training: rubato.report(accuracy=0.97), or a dictionary for names that
    are no Python names. `rubato status` and the API show the newest value of each. Only the worker that
    leads reports; the others may call it, too."""
    if _session is not None:
        _session.report({**(metrics or {}), **more})


def save(path):
    """Writes the model's state_dict to a file, on the worker that leads."""
    if _session is None:
        raise RubatoError("rubato.save() before rubato.elastic(); call that first")
    if _session.leads:
        save_model(_session.model, path)


def train(model, optimizer, dataset, *, loss, batch_size=32, epochs=1, logical=1, after_step=None, **options):
    """Trains with loss(model, batch) -> tensor. The options are those of elastic()."""
    import torch

    loader = torch.utils.data.DataLoader(dataset, batch_size=batch_size, shuffle=True)
    loader = elastic(model, optimizer, loader, logical=logical, **options)[2]
    scheduler = options.get("scheduler")
    for _ in globals()["epochs"](epochs):
        for batch in loader:
            loss(model, batch).backward()
            optimizer.step()
            if scheduler is not None:
                scheduler.step()
            if after_step is not None:
                after_step()
    return model
