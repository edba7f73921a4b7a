"""What Rubato costs a plain PyTorch loop in one process: seconds per step of the same program, plain and
elastic, by turns. Then the CNN of examples/train_cnn.cpp, in C++ and in Python, both elastic.

    bench/python_overhead.py [--rounds 5]        make bench-python
"""

import argparse
import os
import statistics
import subprocess
import sys
import time

SIZES = {"1 ms": (64, 176, 16), "10 ms": (384, 384, 16)}  # width, batch, samples / batch


def train(kind, width, batch, count):
    """Prints the median seconds of a step."""
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")
    if kind == "elastic":
        import rubato
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(1)
    data = TensorDataset(torch.randn(batch * count, width), torch.randint(10, (batch * count,)))
    model = nn.Sequential(
        nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10)
    )
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    loader = DataLoader(data, batch_size=batch, shuffle=True)
    epochs = range(24)
    if kind == "elastic":
        model, opt, loader = rubato.elastic(model, opt, loader)
        epochs = rubato.epochs(24)
    took = []
    for epoch in epochs:
        began = time.perf_counter()
        for x, y in loader:
            opt.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            opt.step()
            now = time.perf_counter()
            took.append(now - began)
            began = now
    print(statistics.median(took[len(took) // 4 :]))


def seconds_per_step(command):
    """Of a program that takes the number of steps as its last argument; without its start."""
    few, many = 48, 288
    times = []
    for steps in (few, many):
        began = time.perf_counter()
        subprocess.check_call([*command, str(steps)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        times.append(time.perf_counter() - began)
    return (times[1] - times[0]) / (many - few)


def against_cpp(rounds):
    here = os.path.dirname(os.path.abspath(__file__))
    cpp = os.path.join(here, "../build/bin/examples/train_cnn")
    if not os.path.exists(cpp):
        print(f"CNN: skipped, {os.path.relpath(cpp)} is not built")
        return
    commands = {
        "C++": [cpp, "--steps"],
        "Python": [sys.executable, os.path.join(here, "elastic_torchrun.py"), "elastic", os.devnull],
    }
    times = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            times[name].append(seconds_per_step(command))
    cpp, python = (statistics.median(times[name]) for name in ("C++", "Python"))
    ratio = statistics.median(p / c for p, c in zip(times["Python"], times["C++"]))
    print(f"\n{'':<8} {'C++':>10} {'PYTHON':>10} {'RATIO':>7} {'DIFFERENCE':>11}")
    print(
        f"{'CNN':<8} {cpp * 1e3:>7.3f} ms {python * 1e3:>7.3f} ms {ratio:>6.3f}x "
        f"{(python - cpp) * 1e6:>8.0f} us"
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--train", nargs=4)
    arguments = parser.parse_args()
    if arguments.train:
        kind, *numbers = arguments.train
        train(kind, *map(int, numbers))
        return
    print(f"{'STEP':<8} {'PLAIN':>10} {'ELASTIC':>10} {'RATIO':>7} {'DIFFERENCE':>11}")
    for name, size in SIZES.items():
        times = {"plain": [], "elastic": []}
        for _ in range(arguments.rounds):
            for kind in times:
                command = [sys.executable, __file__, "--train", kind, *map(str, size)]
                times[kind].append(float(subprocess.check_output(command)))
        plain, elastic = (statistics.median(times[kind]) for kind in ("plain", "elastic"))
        ratio = statistics.median(e / p for e, p in zip(times["elastic"], times["plain"]))
        print(
            f"{name:<8} {plain * 1e3:>7.3f} ms {elastic * 1e3:>7.3f} ms {ratio:>6.3f}x "
            f"{(elastic - plain) * 1e6:>8.0f} us"
        )
    against_cpp(arguments.rounds)


main()
