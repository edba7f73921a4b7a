#!/usr/bin/python3
"""The example CNN under torchrun elastic with checkpoint restore, for bench/elastic_changes.cpp.

  elastic_torchrun.py drive FOLDER REPETITIONS [--verbose]   prints a JSON array, one object per change
  elastic_torchrun.py agent ...                              torchrun itself (see run_agent)
  elastic_torchrun.py work FOLDER                            a worker, started by torchrun
  elastic_torchrun.py elastic FILE [STEPS]                   the same as a program of Rubato; notes how long imports took

Two agents on loopback with one worker each, gloo, `--nnodes=1:2` and torchrun's fastest settings. Model, data, batch and
augmentation are those of examples/train_cnn.cpp: a global batch of 64 out of 1,536 images, divided among the workers.
Worker 0 writes a checkpoint (model and optimizer) every ten steps.
"""
import json
import math
import os
import signal
import socket
import statistics
import subprocess
import sys
import time

BEGAN = time.monotonic()
CHECKPOINT_EVERY = 10
GLOBAL_BATCH = 64
TUNED = ["--monitor_interval=0.1", "--rdzv_conf=last_call_timeout=1,join_timeout=120"]
SETTLE = 40  # steps whose median is taken
WINDOW = 5


# --- The worker ----------------------------------------------------------------------------------------------------------

def note(folder, **what):
    """Appends one line to the log that the driver reads; O_APPEND keeps lines intact."""
    what.update(at=time.monotonic(), pid=os.getpid(), agent=int(os.environ["BENCH_AGENT"]))
    log = os.open(os.path.join(folder, "log.jsonl"), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(log, (json.dumps(what) + "\n").encode())
    os.close(log)


def parts():
    """Images, labels, augmentation, and the model with its optimizer."""
    import torch
    import torch.nn as nn

    def noise(index):  # as in examples/data.h; int64 wraps like uint64, shifts are made logical
        def shifted(x, bits):
            return (x >> bits) & ((1 << (64 - bits)) - 1)

        index = (index + 1) * -0x61C8864680B583EB
        index = (index ^ shifted(index, 30)) * -0x40A7B892E31B1A47
        index = (index ^ shifted(index, 27)) * -0x6B2FB644ECCEEE15
        return shifted(index ^ shifted(index, 31), 40).to(torch.float32) * 2.0**-24

    def stripes(count, size, classes):
        i = torch.arange(count).view(-1, 1, 1)
        y = torch.arange(size).view(1, -1, 1)
        x = torch.arange(size).view(1, 1, -1)
        width = 2 + i % classes // 2
        along = torch.where(i % classes % 2 == 0, x, y) + (noise(i) * 8).to(torch.int64)
        images = (along // width % 2) + noise((i * size + y) * size + x + 77) - 1.0
        return images.view(count, 1, size, size).to(torch.float32), torch.arange(count) % classes

    def augment(images, generator):
        shift = torch.randint(0, 5, (len(images), 2), generator=generator).tolist()
        mirror = torch.randint(0, 2, (len(images),), generator=generator).tolist()
        padded = nn.functional.pad(images, (2, 2, 2, 2))
        out = []
        for i, (dy, dx) in enumerate(shift):
            crop = padded[i].narrow(1, dy, 16).narrow(2, dx, 16)
            out.append(crop.flip([1, 2]) if mirror[i] else crop)
        return torch.stack(out)

    images, labels = stripes(1536, 16, 8)
    torch.manual_seed(1)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * 4 * 4, 8))
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9, weight_decay=5e-4)
    return images, labels, augment, model, optimizer


def work(folder):
    import torch
    import torch.distributed
    import torch.nn as nn

    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    rank, world = torch.distributed.get_rank(), torch.distributed.get_world_size()
    images, labels, augment, model, optimizer = parts()
    checkpoint = os.path.join(folder, "checkpoint.pt")
    step = 0
    if os.path.exists(checkpoint):
        saved = torch.load(checkpoint)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        step = saved["step"]
    parallel = nn.parallel.DistributedDataParallel(model)
    note(folder, what="restored", step=step, world=world)
    steps_per_epoch = len(labels) // GLOBAL_BATCH
    share = GLOBAL_BATCH // world
    while True:
        epoch, position = divmod(step, steps_per_epoch)
        order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(epoch))
        begin = position * GLOBAL_BATCH + rank * share
        ids = order[begin:begin + share]
        generator = torch.Generator().manual_seed(step * 2 + rank)
        optimizer.param_groups[0]["lr"] = 0.025 * (1 + math.cos(math.pi * min(step, 9999) / 10000))
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(parallel(augment(images[ids], generator)), labels[ids])
        loss.backward()
        optimizer.step()
        step += 1
        note(folder, what="step", step=step, world=world)
        if rank == 0 and step % CHECKPOINT_EVERY == 0:
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, checkpoint + ".new")
            os.rename(checkpoint + ".new", checkpoint)


def elastic(file, steps=None):
    import torch
    import torch.nn as nn

    import rubato

    with open(file, "a") as log:
        print(time.monotonic() - BEGAN, file=log)
    images, labels, augment, model, optimizer = parts()

    def collate(ids):
        ids = torch.tensor(ids)
        return augment(images[ids], torch.default_generator), labels[ids]

    loader = torch.utils.data.DataLoader(range(len(labels)), batch_size=GLOBAL_BATCH // 4, shuffle=True, collate_fn=collate)
    model, optimizer, loader = rubato.elastic(model, optimizer, loader, logical=4, steps=steps)
    for _ in rubato.epochs(100000):
        for x, y in loader:
            optimizer.param_groups[0]["lr"] = 0.025 * (1 + math.cos(math.pi * min(rubato.step(), 9999) / 10000))
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()


# --- torchrun ------------------------------------------------------------------------------------------------------------

def run_agent():
    """torchrun of PyTorch 1.13 fails immediately on Python 3.11: iterating a Flag no longer yields its zero member, so
    Std.from_str("0") is None. This is torchrun with that function replaced."""
    from torch.distributed.elastic.multiprocessing import Std

    def from_str(_, text):
        if text.isdigit():
            return Std(int(text))
        return {int(k): Std(int(v)) for k, v in (pair.split(":") for pair in text.split(","))}

    Std.from_str = classmethod(from_str)
    from torch.distributed.run import main
    main()


# --- The driver ----------------------------------------------------------------------------------------------------------

class Cluster:
    def __init__(self, folder, verbose):
        self.folder = folder
        self.verbose = verbose
        self.agents = {}
        self.read = 0
        self.lines = []
        os.makedirs(folder)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]

    def start_agent(self, number):
        environment = dict(os.environ, BENCH_AGENT=str(number), GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1",
                           OPENBLAS_NUM_THREADS="1")
        script = os.path.abspath(__file__)
        command = [sys.executable, script, "agent", "--nnodes=1:2", "--nproc_per_node=1", "--max_restarts=100",
                   "--rdzv_backend=c10d", f"--rdzv_endpoint=127.0.0.1:{self.port}", "--rdzv_id=bench", *TUNED,
                   script, "work", self.folder]
        with open(os.path.join(self.folder, f"agent{number}.log"), "a") as log:
            at = time.monotonic()
            self.agents[number] = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
        return at

    def log(self):
        path = os.path.join(self.folder, "log.jsonl")
        if os.path.exists(path):
            with open(path) as file:
                file.seek(self.read)
                text = file.read()
            whole = text.rfind("\n") + 1
            self.read += whole
            self.lines += [json.loads(line) for line in text[:whole].splitlines()]
        return self.lines

    def steps(self, agent, world, after=0.0, pid=None):
        return [e for e in self.log() if e["what"] == "step" and e["agent"] == agent and e["world"] == world and
                e["at"] > after and (pid is None or e["pid"] == pid)]

    def wait(self, condition, seconds=90):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            found = condition()
            if found:
                return found
            time.sleep(0.05)
        raise TimeoutError("torchrun made no progress; see " + self.folder)

    def worker_of(self, agent):
        return [e for e in self.log() if e["agent"] == agent][-1]["pid"]

    def change(self, case, world, act):
        """Makes the change and measures how it affected the worker of agent 0."""
        old = self.worker_of(0)
        settled = self.steps(0, 3 - world if case != "worker kill -9" else world, pid=old)
        usual_before = median_gap(settled[-SETTLE:])
        asked = act()

        def resumed():
            steps = [e for e in self.steps(0, world, after=asked) if e["pid"] != old]
            return steps if len(steps) > SETTLE else None

        steps = self.wait(resumed)
        first = steps[0]
        last = [e for e in self.log() if e["what"] == "step" and e["pid"] == old][-1]
        restored = [e for e in self.log() if e["what"] == "restored" and e["pid"] == first["pid"]][0]
        usual = median_gap(steps[len(steps) // 4:])
        full = steps[-1]["at"]
        for i in range(len(steps) - WINDOW):
            gaps = [b["at"] - a["at"] for a, b in zip(steps[i:i + WINDOW], steps[i + 1:i + WINDOW + 1])]
            if statistics.median(gaps) <= 1.2 * usual:
                full = steps[i]["at"]
                break
        result = dict(case=case, stall_s=first["at"] - last["at"] - usual, redone=last["step"] - restored["step"],
                      full_speed_s=full - asked, step_s=usual, step_before_s=usual_before)
        if self.verbose:
            print(json.dumps(result), file=sys.stderr, flush=True)
        return result

    def end(self):
        for agent in self.agents.values():
            if agent.poll() is None:
                agent.send_signal(signal.SIGTERM)
        for agent in self.agents.values():
            try:
                agent.wait(5)
            except subprocess.TimeoutExpired:
                os.killpg(agent.pid, signal.SIGKILL)
                agent.wait()
        for pid in {e["pid"] for e in self.log()}:  # a killed agent leaves its worker behind
            try:
                with open(f"/proc/{pid}/cmdline") as file:
                    if self.folder in file.read():
                        os.kill(pid, signal.SIGKILL)
            except (FileNotFoundError, ProcessLookupError):
                pass


def median_gap(steps):
    return statistics.median(b["at"] - a["at"] for a, b in zip(steps, steps[1:])) if len(steps) > 1 else 0.0


def one_round(folder, verbose):
    cluster = Cluster(folder, verbose)
    try:
        cluster.start_agent(0)
        cluster.wait(lambda: len(cluster.steps(0, 1)) > SETTLE)
        results = [cluster.change("join", 2, lambda: cluster.start_agent(1))]

        def kill_worker():
            at = time.monotonic()
            os.kill(cluster.worker_of(1), signal.SIGKILL)
            return at

        results.append(cluster.change("worker kill -9", 2, kill_worker))

        def leave():
            at = time.monotonic()
            cluster.agents[1].send_signal(signal.SIGTERM)
            return at

        results.append(cluster.change("leave", 1, leave))
        cluster.agents.pop(1).wait()
        results.append(cluster.change("join", 2, lambda: cluster.start_agent(2)))

        def kill_agent():  # with its worker, like a failing node; the agent that holds the store stays
            at = time.monotonic()
            worker = cluster.worker_of(2)
            os.killpg(cluster.agents[2].pid, signal.SIGKILL)
            try:
                os.kill(worker, signal.SIGKILL)
            except ProcessLookupError:
                pass
            return at

        results.append(cluster.change("agent kill -9", 1, kill_agent))
        cluster.agents.pop(2).wait()
        return results
    finally:
        cluster.end()


def drive(folder, repetitions, verbose):
    try:
        import torch.distributed  # noqa: F401
    except ImportError:
        return 3
    results = []
    for i in range(repetitions):
        results += one_round(os.path.join(folder, str(i)), verbose)
    print(json.dumps(results))
    return 0


if __name__ == "__main__":
    if sys.argv[1] == "work":
        work(sys.argv[2])
    elif sys.argv[1] == "elastic":
        elastic(sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else None)
    elif sys.argv[1] == "agent":
        sys.argv.pop(1)
        run_agent()
    else:
        os.makedirs(sys.argv[2])
        sys.exit(drive(sys.argv[2], int(sys.argv[3]), "--verbose" in sys.argv))
