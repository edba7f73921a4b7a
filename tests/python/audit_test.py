"""An audit finds and names each planted way to break the promise of equal bits, and nothing where there is
none.

    audit_test.py RUBATO
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
RUBATO = sys.argv.pop(1)
PROGRAM = os.path.join(HERE, "planted.py")


def audits(folder):
    with open(os.path.join(folder, "events.jsonl")) as file:
        events = [json.loads(line) for line in file]
    return [event for event in events if event["type"] == "audit"]


class Audit(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="rubato-audit-")
        self.addCleanup(self.folder.cleanup)
        self.job = os.path.join(self.folder.name, "job")

    def start(self, kind, workers, **environment):
        return subprocess.Popen(
            [RUBATO, "run", "--dir", self.job, "--workers", str(workers), "--", sys.executable, PROGRAM, kind],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, **environment},
        )

    def run_job(self, kind, workers, **environment):
        process = self.start(kind, workers, **environment)
        output, _ = process.communicate(timeout=300)
        self.assertEqual(process.returncode, 0, output)
        found = audits(self.job)
        self.assertTrue(all(event["workers"] == workers for event in found), found)
        return found

    def check(self, kind, workers, *words):
        """The first audit, in step 1, says what is wrong."""
        found = self.run_job(kind, workers)
        self.assertEqual(found[0]["step"], 1)
        self.assertFalse(found[0]["same"], found)
        for word in words:
            self.assertIn(word, found[0]["message"])

    def test_a_clock(self):
        self.check("clock", 1, "step 1", "differs", "reads a clock (time.time())")

    def test_a_random_source_without_a_seed_in_the_data(self):
        self.check("data", 1, "the gradient of 'first.weight'", "draws random numbers from the system (os.urandom())")

    def test_state_of_its_own(self):
        self.check("attribute", 2, "the model's attribute 'passes' changes in the forward pass")

    def test_an_operation_without_a_fixed_order(self):
        self.check("operation", 2, "the gradient of 'first.weight' differs", "a non-deterministic operation")

    def test_code_that_only_the_leader_runs(self):
        self.check("leader", 2, "workers", "different bits in 'second.bias'", "only the leading worker runs")

    def test_state_that_differs_from_worker_to_worker(self):
        self.check("worker", 2, "have the same state", "the gradient of 'first.weight' differs", "environment variable")

    def test_nothing_where_nothing_is_wrong(self):
        for workers in (1, 3):
            found = self.run_job("none", workers)
            self.assertEqual([(event["step"], event["same"]) for event in found], [(1, True), (4, True), (16, True)])
            subprocess.run(["rm", "-r", self.job], check=True)

    def test_every_so_many_steps_or_not_at_all(self):
        self.assertEqual([event["step"] for event in self.run_job("none", 2, RUBATO_AUDIT="5")], [1, 4, 5, 10, 15, 16, 20])
        subprocess.run(["rm", "-r", self.job], check=True)
        self.assertEqual(self.run_job("none", 2, RUBATO_AUDIT="0"), [])

    def test_on_demand(self):
        process = self.start("slow", 2, RUBATO_AUDIT="0")
        deadline = time.monotonic() + 60
        while not os.path.exists(os.path.join(self.job, "events.jsonl")) and time.monotonic() < deadline:
            time.sleep(0.05)
        asked = subprocess.run([RUBATO, "audit", self.job, "--json"], capture_output=True, text=True, timeout=120)
        self.assertEqual(asked.returncode, 0, asked.stdout + asked.stderr)
        answer = json.loads(asked.stdout)
        self.assertTrue(answer["same"])
        output, _ = process.communicate(timeout=300)
        self.assertEqual(process.returncode, 0, output)
        self.assertIn("all bits equal", output)
        asked = subprocess.run([RUBATO, "audit", self.job], capture_output=True, text=True, timeout=120)
        self.assertNotEqual(asked.returncode, 0)
        self.assertIn("finished", asked.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
