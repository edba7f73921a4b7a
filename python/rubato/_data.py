"""Mini-batches of a data set, by this process or by child processes that fetch ahead.

A mini-batch is a function of its samples and its seed, so it does not matter who fetches it, when,
or how often. Iterable data have no samples to choose from: there, the mini-batch of a logical worker is
the next part of its shard, and who has not read the parts before reads them first.
"""

import collections
import ctypes
import itertools
import os
import signal

import torch

from ._errors import RefusedError, RubatoError
from ._seeds import mix, seed_all

_DATA = 1  # salts: augmentation draws other numbers than the model
_SHARD = 4


class Source:
    """What a torch.utils.data.DataLoader was told, without its sampler."""

    def __init__(self, loader):
        data = torch.utils.data
        if not isinstance(loader, data.DataLoader):
            raise RefusedError(
                f"the loader is a {type(loader).__name__}; expected a torch.utils.data.DataLoader"
            )
        self.iterable = isinstance(loader.dataset, data.IterableDataset)
        if self.iterable:
            _check_iterable(loader)
        if loader.batch_size is None:
            raise RefusedError(
                "the DataLoader has a batch_sampler or no batch size; give it batch_size=..., and the "
                "runtime decides which samples make a mini-batch"
            )
        if self.iterable:
            self.shuffle = False  # its shards may
        elif isinstance(loader.sampler, data.RandomSampler):
            self.shuffle = True
        elif isinstance(loader.sampler, data.SequentialSampler):
            self.shuffle = False
        else:
            raise RefusedError(
                f"the DataLoader has a {type(loader.sampler).__name__}; the runtime chooses the samples "
                "itself, so that none is lost or repeated: use shuffle=True or shuffle=False"
            )
        if loader.drop_last:
            raise RefusedError(
                "drop_last=True: every sample is used once per epoch; the last step is shared out "
                "evenly, so drop_last is not needed"
            )
        self.dataset = loader.dataset
        self.batch_size = loader.batch_size
        self.collate = loader.collate_fn
        self.workers = loader.num_workers
        self.pin_memory = loader.pin_memory and torch.cuda.is_available()
        self.init = loader.worker_init_fn
        self.ahead = max(1, (loader.prefetch_factor or 2)) * max(1, loader.num_workers)

    def fetch(self, samples, seed):
        seed_all(mix(seed, _DATA))
        many = getattr(self.dataset, "__getitems__", None)
        items = many(samples) if many is not None else [self.dataset[i] for i in samples]
        return self.collate(items)

    def deliver(self, batch):
        return torch.utils.data._utils.pin_memory.pin_memory(batch) if self.pin_memory else batch


def _check_iterable(loader):
    if not hasattr(loader.dataset, "shard") or not hasattr(loader.dataset, "__len__"):
        raise RefusedError(
            "an IterableDataset needs two more methods: shard(i, n) iterates over the samples of logical worker "
            "i of n, the same ones every time, and __len__() is the number of samples in an epoch"
        )
    if loader.num_workers:
        raise RefusedError(
            f"num_workers={loader.num_workers} with an IterableDataset: only the worker itself knows where it "
            "stands in a shard; use num_workers=0, and let shard() read ahead"
        )


class Shards:
    """The mini-batches of iterable data. Each iterator over a shard stays where it was left."""

    seeds_generators = True

    def __init__(self, source, count, parts):
        """`parts(logical, first, step)` yields (samples, seed) of a logical worker in the steps
        first, ..., step - 1."""
        self._source, self._count, self._parts = source, count, parts
        self._iterators = {}  # logical worker -> (iterator, its next step)
        self._last = {}  # logical worker -> (step, samples): a step may be interrupted and begin again

    def get(self, epoch, first, step, logical, samples, seed):
        """Of a step in the epoch that began with step `first`."""
        known, items = self._last.get(logical, (-1, None))
        if known != step:
            items = self._read(epoch, first, step, logical, samples, seed)
        # What was drawn for the samples must not show.
        seed_all(mix(seed, _DATA))
        return self._source.deliver(self._source.collate(items))

    def _read(self, epoch, first, step, logical, samples, seed):
        iterator, at = self._iterators.get(logical, (None, -1))
        if at != step or step == first:
            iterator = self._open(epoch, logical, next(self._parts(logical, first, first + 1))[1])
            for some, earlier in self._parts(logical, first, step):
                self._take(iterator, logical, some, earlier)
        items = self._take(iterator, logical, samples, seed)
        self._iterators[logical] = (iterator, step + 1)
        self._last[logical] = (step, items)
        return items

    def _open(self, epoch, logical, seed):
        dataset = self._source.dataset
        if hasattr(dataset, "set_epoch"):
            dataset.set_epoch(epoch)
        seed_all(mix(seed, _SHARD))
        return iter(dataset.shard(logical, self._count))

    def _take(self, iterator, logical, samples, seed):
        seed_all(mix(seed, _DATA))
        items = list(itertools.islice(iterator, samples))
        if len(items) < samples:
            raise RubatoError(
                f"shard({logical}, {self._count}) of the data set ended before the epoch did; together, shards "
                "have as many samples as len() says, the first ones one more than the others if need be"
            )
        return items

    def close(self):
        pass


class Here:
    """Fetches when asked."""

    seeds_generators = True  # Python's and NumPy's, of this process

    def __init__(self, source):
        self._source = source

    def get(self, key, samples, seed, upcoming):
        return self._source.deliver(self._source.fetch(samples, seed))

    def close(self):
        pass


def _die_with_parent(parent):
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        os._exit(0)


def _child(source, number, connection, parent):
    _die_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    torch.set_num_threads(1)
    if source.init is not None:
        source.init(number)
    while True:
        try:
            samples, seed = connection.recv()
        except EOFError:
            return
        try:
            answer = (True, source.fetch(samples, seed))
        except Exception as error:
            answer = (False, f"{type(error).__name__}: {error}")
        connection.send(answer)


class Children:
    """Child processes that fetch ahead.

    They are started before the worker joins its job, so they inherit neither its sockets and locks
    nor its memory, and they end with it, however it ends.
    """

    seeds_generators = False

    def __init__(self, source):
        self._source = source
        context = torch.multiprocessing.get_context("fork")
        self._connections, self._processes, self._queues = [], [], []
        for number in range(source.workers):
            mine, theirs = context.Pipe()
            process = context.Process(
                target=_child, args=(source, number, theirs, os.getpid()), daemon=True
            )
            process.start()
            theirs.close()
            self._connections.append(mine)
            self._processes.append(process)
            self._queues.append(collections.deque())  # keys in the order in which it was asked
        self._where = {}  # key -> number of the child
        self._arrived = {}

    def get(self, key, samples, seed, upcoming):
        """`upcoming` yields (key, samples, seed) of what will probably be asked for next."""
        self._ask(key, samples, seed)
        wanted = {key}
        for next_key, next_samples, next_seed in upcoming(self._source.ahead):
            wanted.add(next_key)
            self._ask(next_key, next_samples, next_seed)
        while key not in self._arrived:
            self._receive(self._where[key])
        fine, batch = self._arrived.pop(key)
        self._where.pop(key)
        for late in [k for k in self._arrived if k not in wanted]:  # after a change of membership
            del self._arrived[late], self._where[late]
        if not fine:
            raise RubatoError(f"the data set failed in a child process: {batch}")
        return self._source.deliver(batch)

    def _ask(self, key, samples, seed):
        if key in self._where:
            return
        number = min(range(len(self._queues)), key=lambda i: len(self._queues[i]))
        self._where[key] = number
        self._queues[number].append(key)
        try:
            self._connections[number].send((samples, seed))
        except OSError:
            self._died(number)

    def _receive(self, number):
        try:
            answer = self._connections[number].recv()
        except (EOFError, OSError):
            self._died(number)
        self._arrived[self._queues[number].popleft()] = answer

    def _died(self, number):
        process = self._processes[number]
        process.join(1)
        raise RubatoError(
            f"child process {number} of the data loader (pid {process.pid}) died with exit code "
            f"{process.exitcode}; this worker ends; a launcher starts another one"
        )

    def close(self):
        for connection in self._connections:
            connection.close()
        for process in self._processes:
            process.terminate()
            process.join()


def open_source(source):
    if source.iterable:
        return None  # needs the worker
    return Children(source) if source.workers > 0 else Here(source)
