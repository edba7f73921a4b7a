"""Mini-batches of a data set, by this process or by child processes that fetch ahead.

A mini-batch is a function of its samples and its seed, so it does not matter who fetches it, when,
or how often.
"""

import collections
import ctypes
import os
import signal

import torch

from ._errors import RefusedError, RubatoError
from ._seeds import mix, seed_all

_DATA = 1  # salt: augmentation draws other numbers than the model


class Source:
    """What a torch.utils.data.DataLoader was told, without its sampler."""

    def __init__(self, loader):
        data = torch.utils.data
        if not isinstance(loader, data.DataLoader):
            raise RefusedError(
                f"the loader is a {type(loader).__name__}; expected a torch.utils.data.DataLoader"
            )
        if isinstance(loader.dataset, data.IterableDataset):
            raise RefusedError(
                "an IterableDataset has no samples that can be counted and handed out again; give the "
                "data set __len__ and __getitem__"
            )
        if loader.batch_size is None:
            raise RefusedError(
                "the DataLoader has a batch_sampler or no batch size; give it batch_size=..., and the "
                "runtime decides which samples make a mini-batch"
            )
        if isinstance(loader.sampler, data.RandomSampler):
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
    return Children(source) if source.workers > 0 else Here(source)
