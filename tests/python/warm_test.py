"""Workers that are forked from a copy of the first one: started once, children of the launcher, same bits;
and executed as before where a copy cannot be made or does not do what it should.

    warm_test.py RUBATO
"""

import glob
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
RUBATO = sys.argv.pop(1)
PROGRAM = os.path.join(HERE, "warm_program.py")
PATIENCE_S = 120
EPOCHS = "100"


def children(pid):
    """Process numbers of the living children."""
    found = []
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(path) as file:
                state, parent = file.read().rsplit(")", 1)[1].split()[:2]
        except OSError:
            continue
        if int(parent) == pid and state != "Z":
            found.append(int(path.split("/")[2]))
    return found


class Warm(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="rubato-warm-")
        self.addCleanup(folder.cleanup)
        self.job = os.path.join(folder.name, "job")
        self.slow = os.path.join(folder.name, "slow")
        open(self.slow, "w").close()

    def start(self, workers, *words, command=None, **environment):
        command = command or [sys.executable, PROGRAM, EPOCHS, self.slow, *words]
        self.process = subprocess.Popen(
            [RUBATO, "run", "--dir", self.job, "--workers", str(workers), "--", *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, **environment},
        )
        self.addCleanup(self.end, self.process)

    @staticmethod
    def end(process):
        process.kill()
        process.communicate()

    def finish(self):
        os.remove(self.slow)
        output, _ = self.process.communicate(timeout=PATIENCE_S)
        self.assertEqual(self.process.returncode, 0, output + self.logs_text())
        return output

    def until(self, condition, what):
        end = time.monotonic() + PATIENCE_S
        while not condition():
            self.assertLess(time.monotonic(), end, f"{what}\n{self.logs_text()}")
            self.assertIsNone(self.process.poll(), f"{what}\n{self.logs_text()}")
            time.sleep(0.01)

    def log(self, worker):
        try:
            with open(f"{self.job}/logs/worker-{worker}.log") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def logs_text(self):
        return "".join(f"--- worker {worker}\n{self.log(worker)}" for worker in range(8) if self.log(worker))

    def until_present(self, *workers):
        for worker in workers:
            self.until(lambda: "goes on" in self.log(worker), f"worker {worker} has not begun")
        self.until(lambda: self.members() == len(workers), f"{len(workers)} workers do not train")

    def members(self):
        """Of the newest view."""
        try:
            with open(f"{self.job}/events.jsonl") as file:
                views = [line for line in file if line.endswith("\n") and '"type":"view"' in line]
        except FileNotFoundError:
            return 0
        return json.loads(views[-1])["workers"] if views else 0

    def scale(self, workers):
        subprocess.run([RUBATO, "scale", self.job, str(workers)], check=True, capture_output=True)

    def warm_parent(self):
        """The one child of the launcher that is no worker."""
        def others():
            found = []
            for child in children(self.process.pid):
                try:
                    with open(f"/proc/{child}/comm") as file:
                        if file.read().strip() == "rubato-warm":
                            found.append(child)
                except OSError:
                    pass
            return found

        self.until(lambda: len(others()) == 1, "there is no warm parent")
        return others()[0]

    def check_warm(self, *workers):
        for worker in workers:
            self.assertNotIn("begins", self.log(worker))
            self.assertNotIn("buffered", self.log(worker))
            self.assertIn(f"goes on: worker {worker}, parent {self.process.pid}", self.log(worker))

    def check_cold(self, *workers):
        for worker in workers:
            self.assertIn("begins", self.log(worker))
            self.assertIn(f"goes on: worker {worker}", self.log(worker))

    def model(self):
        with open(f"{self.job}/result.json") as file:
            return [line for line in file if "sha256" in line]

    def test_later_workers_are_forked_and_the_bits_are_the_same(self):
        self.start(1)
        self.until_present(0)
        self.scale(3)
        self.until_present(0, 1, 2)
        self.check_cold(0)
        self.check_warm(1, 2)
        parent = self.warm_parent()
        self.finish()
        self.assertFalse(os.path.exists(f"/proc/{parent}"))
        changed = self.model()
        self.job += "-undisturbed"
        open(self.slow, "w").close()
        self.start(1, RUBATO_WARM="0")
        self.finish()
        self.assertEqual(self.model(), changed)

    def test_a_job_that_begins_with_several_workers_loads_once(self):
        self.start(4)
        self.until_present(0, 1, 2, 3)
        self.check_cold(0)
        self.check_warm(1, 2, 3)
        self.finish()

    def test_a_killed_copy_is_replaced(self):
        self.start(1)
        self.until_present(0)
        os.kill(self.warm_parent(), signal.SIGKILL)
        self.scale(2)
        self.until_present(0, 1)
        self.check_cold(1)
        self.warm_parent()
        self.scale(3)
        self.until_present(0, 1, 2)
        self.check_warm(2)
        self.finish()

    def test_a_stopped_copy_is_not_waited_for(self):
        self.start(1)
        self.until_present(0)
        os.kill(self.warm_parent(), signal.SIGSTOP)
        self.scale(3)
        self.until_present(0, 1, 2)
        self.check_cold(1, 2)
        self.finish()

    def test_everything_ends_with_the_launcher(self):
        self.start(2)
        self.until_present(0, 1)
        family = children(self.process.pid)
        self.assertEqual(len(family), 3)
        self.process.kill()
        self.process.wait()
        end = time.monotonic() + PATIENCE_S
        while any(os.path.exists(f"/proc/{child}") for child in family):
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)

    def test_a_process_with_threads_is_not_copied(self):
        self.start(2, "thread")
        self.until_present(0, 1)
        self.check_cold(0, 1)
        self.finish()

    def test_a_user_may_turn_it_off(self):
        self.start(2, RUBATO_WARM="0")
        self.until_present(0, 1)
        self.check_cold(0, 1)
        self.finish()

    def test_a_wrapper_is_executed_every_time(self):
        line = f"{sys.executable} {PROGRAM} {EPOCHS} {self.slow}; code=$?; echo wrapped; exit $code"
        self.start(2, command=["sh", "-c", line])
        self.until_present(0, 1)
        self.check_cold(0, 1)
        self.finish()
        self.assertIn("wrapped", self.log(1))

    def test_a_wrapper_that_ends_in_exec_is_executed_every_time(self):
        line = f"echo worker $RUBATO_WORKER is wrapped; exec {sys.executable} {PROGRAM} {EPOCHS} {self.slow}"
        self.start(2, command=["sh", "-c", line])
        self.until_present(0, 1)
        self.check_cold(0, 1)
        self.finish()
        self.assertIn("worker 1 is wrapped", self.log(1))

    def test_workers_are_executed_after_a_forked_one_failed(self):
        self.start(1, "fails")
        self.until_present(0)
        self.scale(2)
        self.until(lambda: "goes on" in self.log(2), "no second try")
        self.assertIn("a forked worker fails", self.log(1))
        self.check_cold(2)
        self.finish()

    def test_a_program_that_lies_is_executed(self):
        for lie in ("itself", "orphan", "silence"):
            with self.subTest(lie):
                self.setUp()
                self.start(2, command=[sys.executable, os.path.join(HERE, "warm_liar.py"), lie, EPOCHS, self.slow])
                self.until_present(0, 1)
                self.check_cold(0)
                self.finish()


if __name__ == "__main__":
    unittest.main()
