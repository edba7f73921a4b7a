"""The examples give the bits of their plain versions: alone, with any number of workers, and, with two
logical workers, those of DistributedDataParallel.

    same_bits_test.py RUBATO EXAMPLES
"""

import difflib
import os
import socket
import subprocess
import sys
import tempfile
import unittest

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
RUBATO, EXAMPLES = sys.argv[1:3]
_folder = tempfile.TemporaryDirectory(prefix="rubato-python-")
FOLDER = _folder.name


ELSEWHERE = """
import runpy
from rubato._state import State
make = State.__init__
def make_elsewhere(self, *args):
    make(self, *args)
    self.host = False
State.__init__ = make_elsewhere
runpy.run_path({!r}, run_name="__main__")
"""


def path(name):
    return os.path.join(FOLDER, name)


def start(*command):
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=FOLDER
    )


def ended(process):
    output, _ = process.communicate(timeout=600)
    if process.returncode != 0:
        raise AssertionError(f"{' '.join(process.args)}: exit code {process.returncode}\n{output}")
    return output


def run(*command):
    return ended(start(*command))


def script(name):
    return os.path.join(EXAMPLES, f"{name}.py")


def accumulated(name, logical=4):
    """The model of the plain version, with the mini-batches of a step one after another."""
    out = path(f"{name}-{logical}-plain.pt")
    run(sys.executable, f"{HERE}/plain.py", "accumulate", str(logical), script(f"{name}_plain"), out)
    return torch.load(out, map_location="cpu")


def alone(program, out):
    run(sys.executable, f"{HERE}/run_and_save.py", program, path(out))
    return torch.load(path(out), map_location="cpu")


def with_workers(name, workers):
    return with_workers_of(script(name), workers)


def with_workers_of(program, workers):
    folder = path(f"{os.path.basename(program)}-{workers}")
    run(RUBATO, "run", "--workers", str(workers), "--dir", folder, "--", sys.executable, program)
    return torch.load(f"{folder}/model.pt", map_location="cpu")


class SameBits(unittest.TestCase):
    def assert_same(self, model, expected):
        self.assertEqual(list(model), list(expected))
        for name in expected:
            self.assertTrue(torch.equal(model[name], expected[name]), f"{name} has other bits")

    def test_cnn(self):
        expected = accumulated("cnn")
        self.assert_same(alone(script("cnn"), "cnn-alone.pt"), expected)
        self.assert_same(with_workers("cnn", 1), expected)
        self.assert_same(with_workers("cnn", 3), expected)
        # As on a GPU: the state is outside the runtime's memory and copied when somebody needs it.
        elsewhere = path("elsewhere.py")
        with open(elsewhere, "w") as file:
            file.write(ELSEWHERE.format(script("cnn")))
        self.assert_same(with_workers_of(elsewhere, 2), expected)

    def test_gpt(self):
        expected = accumulated("gpt")
        self.assert_same(alone(script("gpt"), "gpt-alone.pt"), expected)
        self.assert_same(with_workers("gpt", 2), expected)

    def test_resnet(self):
        self.assert_same(with_workers("resnet", 2), accumulated("resnet"))

    @unittest.skipUnless(torch.cuda.is_available(), "needs a GPU")
    def test_scaler(self):
        program = f"{HERE}/scaler.py"
        expected = with_workers_of(program, 1)
        self.assert_same(with_workers_of(program, 2), expected)

    def test_distributed_data_parallel(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        plain = script("cnn_plain")
        ranks = [
            start(sys.executable, f"{HERE}/plain.py", "ddp", str(rank), "2", port, plain, path(f"ddp{rank}.pt"))
            for rank in range(2)
        ]
        for rank in ranks:
            ended(rank)
        with open(script("cnn")) as file:
            text = file.read().replace("logical=4", "logical=2")
        with open(path("cnn2.py"), "w") as file:
            file.write(text)
        self.assert_same(alone(path("cnn2.py"), "cnn2.pt"), torch.load(path("ddp0.pt"), map_location="cpu"))

    def test_at_most_five_lines_differ(self):
        for name in ("cnn", "gpt", "resnet"):
            with open(script(name)) as elastic, open(script(f"{name}_plain")) as plain:
                lines = list(difflib.ndiff(plain.readlines(), elastic.readlines()))
            added = [line for line in lines if line.startswith("+ ")]
            self.assertLessEqual(len(added), 5, f"{name}.py:\n{''.join(added)}")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
