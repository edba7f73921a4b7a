"""Trains the models of tests/train/models.h with PyTorch's DistributedDataParallel: gloo, two
processes, one thread each. Initial weights, data, sample order and the seeds of each step come from
files written by ddp_check.cpp. The final parameters are written as raw float32.

usage: ddp_reference.py FOLDER mlp|cnn STEPS BATCH
"""
import os
import sys

import numpy
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

WORLD = 2


def make_model(kind):
    if kind == "mlp":
        return nn.Sequential(nn.Linear(20, 33), nn.ReLU(), nn.Dropout(0.25), nn.Linear(33, 5))
    return nn.Sequential(nn.Conv2d(1, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(),
                         nn.MaxPool2d(2), nn.Flatten(), nn.Linear(6 * 4 * 4, 5))


def worker(rank, folder, kind, steps, batch):
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/{kind}.store", rank=rank,
                            world_size=WORLD)

    def load(name, dtype):
        return torch.from_numpy(numpy.fromfile(f"{folder}/{kind}.{name}", dtype=dtype))

    model = make_model(kind)
    initial = load("initial", numpy.float32)
    at = 0
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(initial[at:at + parameter.numel()].view_as(parameter))
            at += parameter.numel()
    shape = (-1, 20) if kind == "mlp" else (-1, 1, 8, 8)
    inputs = load("inputs", numpy.float32).view(shape)
    labels = load("labels", numpy.int64)
    order = load("order", numpy.int64).view(steps, WORLD, batch)
    seeds = numpy.fromfile(f"{folder}/{kind}.seeds", dtype=numpy.uint64).reshape(steps, WORLD)

    # Each process keeps the statistics of its own batches, as a logical worker does.
    model = nn.parallel.DistributedDataParallel(model, broadcast_buffers=False)
    if kind == "mlp":
        optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    else:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for step in range(steps):
        optimizer.zero_grad()
        torch.manual_seed(int(seeds[step, rank]))
        ids = order[step, rank]
        nn.functional.cross_entropy(model(inputs[ids]), labels[ids]).backward()
        optimizer.step()

    if rank == 0:
        with open(f"{folder}/{kind}.final", "wb") as out:
            for parameter in model.parameters():
                out.write(parameter.detach().numpy().tobytes())
    if kind == "cnn":
        with open(f"{folder}/{kind}.statistics{rank}", "wb") as out:
            for name, buffer in model.named_buffers():
                if "running" in name:
                    out.write(buffer.numpy().tobytes())
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(worker, args=(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])),
             nprocs=WORLD)
