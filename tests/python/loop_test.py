"""What users' loops do, each in a process of its own: a process trains once."""

import os
import subprocess
import sys
import tempfile
import textwrap
import unittest

import rubato

BEGIN = """
import torch, rubato
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(1)
data = TensorDataset(torch.randn(40, 4), torch.randn(40, 1))
model = nn.Linear(4, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
loader = DataLoader(data, batch_size=4, shuffle=True)
def loss_of(x, y):
    return nn.functional.mse_loss(model(x), y)
"""


def run(code):
    """(exit code, output) of a program."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "train.py")
        with open(path, "w") as file:
            file.write(BEGIN + textwrap.dedent(code))
        done = subprocess.run(
            [sys.executable, path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120
        )
    return done.returncode, done.stdout


class Loop(unittest.TestCase):
    def ends_well(self, code, *expected):
        status, output = run(code)
        self.assertEqual(status, 0, output)
        for text in expected:
            self.assertIn(text, output)

    def is_refused(self, code, expected):
        status, output = run(code)
        self.assertNotEqual(status, 0)
        self.assertIn(expected, output)

    def test_step_and_schedule_act_once_per_step(self):
        self.ends_well(
            """
            sched = torch.optim.lr_scheduler.ExponentialLR(opt, 0.5)
            model, opt, loader, sched = rubato.elastic(model, opt, loader, sched, logical=2)
            bodies = 0
            for epoch in rubato.epochs(2):
                for x, y in loader:
                    bodies += 1
                    opt.zero_grad()
                    loss_of(x, y).backward()
                    opt.step()
                sched.step()
            print("bodies", bodies, "steps", len(loader), "rate", opt.param_groups[0]["lr"])
            print("finished", rubato.finished(), "leads", rubato.leads(), "workers", rubato.workers())
            """,
            "bodies 20 steps 5 rate 0.025",
            "finished True leads True workers 1",
        )

    def test_the_reduced_gradient_is_there_after_the_last_mini_batch(self):
        self.ends_well(
            """
            model, opt, loader = rubato.elastic(model, opt, loader, logical=2)
            norms = []
            for epoch in rubato.epochs(1):
                for x, y in loader:
                    loss_of(x, y).backward()
                    norms.append(float(nn.utils.clip_grad_norm_(model.parameters(), 0.1)))
                    opt.step()
                    opt.zero_grad()
            print("zero", norms[0::2] == [0.0] * 5, "more", all(n > 0 for n in norms[1::2]))
            """,
            "zero True more True",
        )

    def test_a_mini_batch_may_be_skipped(self):
        self.ends_well(
            """
            model, opt, loader = rubato.elastic(model, opt, loader, logical=2)
            for epoch in rubato.epochs(2):
                for i, (x, y) in enumerate(loader):
                    if float(x[0, 0]) < 0:
                        continue
                    loss_of(x, y).backward()
                    opt.step()
            print("finished", rubato.finished(), bool(torch.isfinite(model.weight).all()))
            """,
            "finished True True",
        )

    def test_parameters_without_a_gradient_stay(self):
        self.ends_well(
            """
            model = nn.ModuleDict({"used": nn.Linear(4, 1), "unused": nn.Linear(4, 1), "frozen": nn.Linear(4, 1)})
            model["frozen"].requires_grad_(False)
            before = [p.detach().clone() for n in ("unused", "frozen") for p in model[n].parameters()]
            opt = torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.5)
            model, opt, loader = rubato.elastic(model, opt, loader, logical=2)
            for epoch in rubato.epochs(1):
                for x, y in loader:
                    nn.functional.mse_loss(model["used"](x), y).backward()
                    opt.step()
            after = [p for n in ("unused", "frozen") for p in model[n].parameters()]
            print("same", all(torch.equal(a, b) for a, b in zip(before, after)))
            """,
            "same True",
        )

    def test_a_short_last_step_is_shared_out(self):
        self.ends_well(
            """
            loader = DataLoader(TensorDataset(*(t[:37] for t in data.tensors)), batch_size=4, shuffle=True)
            model, opt, loader = rubato.elastic(model, opt, loader, logical=3)
            sizes = []
            for epoch in rubato.epochs(1):
                for x, y in loader:
                    sizes.append(len(x))
                    loss_of(x, y).backward()
                    opt.step()
            print("sizes", sizes, "sum", sum(sizes), "step", rubato.step())
            """,
            "sum 37",
        )

    def test_children_of_the_loader_give_the_same_mini_batches(self):
        code = """
            class Noisy(torch.utils.data.Dataset):
                def __len__(self):
                    return 40
                def __getitem__(self, i):
                    return torch.randn(4) + i, torch.zeros(1)
            loader = DataLoader(Noisy(), batch_size=4, shuffle=True, num_workers=NUMBER)
            model, opt, loader = rubato.elastic(model, opt, loader, logical=2)
            for epoch in rubato.epochs(2):
                for x, y in loader:
                    (loss_of(x, y) * 1e-6).backward()
                    opt.step()
            print("weights", model.weight.tolist())
            """
        here = run(code.replace("NUMBER", "0"))
        self.assertEqual(here[0], 0, here[1])
        self.assertEqual(run(code.replace("NUMBER", "2")), here)

    def test_extra_tensors_are_kept(self):
        self.ends_well(
            """
            average = {n: p.detach().clone() for n, p in model.named_parameters()}
            own, once = model.weight.detach().clone(), 0
            model, opt, loader = rubato.elastic(model, opt, loader, logical=2, extra=average)
            for epoch in rubato.epochs(1):
                for x, y in loader:
                    loss_of(x, y).backward()
                    opt.step()
                    once += rubato.updates()
                    for n, p in model.named_parameters():
                        average[n].mul_(0.5).add_(p.detach(), alpha=0.5)
                    if rubato.updates():
                        own.mul_(0.5).add_(model.weight.detach(), alpha=0.5)
            print("same", torch.equal(average["weight"], own), once)
            """,
            "same True 5",
        )

    def test_training_without_a_loop(self):
        self.ends_well(
            """
            rubato.train(model, opt, data, loss=lambda m, b: nn.functional.mse_loss(m(b[0]), b[1]),
                         batch_size=4, epochs=2, logical=2)
            print("finished", rubato.finished(), rubato.step())
            """,
            "finished True 9",
        )

    def test_what_is_written_loads_in_plain_pytorch(self):
        self.ends_well(
            """
            import os, tempfile
            model, opt, loader = rubato.elastic(model, opt, loader)
            for epoch in rubato.epochs(1):
                for x, y in loader:
                    loss_of(x, y).backward()
                    opt.step()
            with tempfile.TemporaryDirectory() as folder:
                rubato.save(folder + "/model.pt")
                torch.save(model.state_dict(), folder + "/own.pt")
                other = nn.Linear(4, 1)
                other.load_state_dict(torch.load(folder + "/model.pt"))
                print("equal", torch.equal(other.weight, model.weight), os.listdir(folder))
                print("small", os.path.getsize(folder + "/own.pt") < 2000)
            """,
            "equal True",
            "small True",
        )

    # --- refusals

    def test_two_backward_passes(self):
        self.is_refused(
            """
            model, opt, loader = rubato.elastic(model, opt, loader)
            for epoch in rubato.epochs(1):
                for x, y in loader:
                    loss_of(x, y).backward()
                    loss_of(x, y).backward()
                    opt.step()
            """,
            "backward() was called twice for one mini-batch; add the losses and call it once",
        )

    def test_a_second_optimizer(self):
        self.is_refused(
            """
            rubato.elastic(model, opt, loader)
            rubato.elastic(model, torch.optim.SGD(model.parameters(), lr=1), loader)
            """,
            "rubato.elastic() was called twice; a process trains one model with one optimizer",
        )

    def test_a_loop_of_its_own_over_epochs(self):
        self.is_refused(
            """
            model, opt, loader = rubato.elastic(model, opt, loader)
            for x, y in loader:
                pass
            """,
            "the loop over epochs must be: for epoch in rubato.epochs(n)",
        )

    def test_a_loop_that_ends_early(self):
        self.is_refused(
            """
            model, opt, loader = rubato.elastic(model, opt, loader)
            for epoch in rubato.epochs(2):
                for x, y in loader:
                    loss_of(x, y).backward()
                    opt.step()
                    break
            """,
            "the loop over the loader ended before the epoch did",
        )


class Refusals(unittest.TestCase):
    """elastic() refuses before it changes anything, so these share a process."""

    def is_refused(self, code, expected):
        with self.assertRaises(rubato.RefusedError) as refused:
            exec(BEGIN + textwrap.dedent(code), {})
        self.assertIn(expected, str(refused.exception))

    def test_a_sampler_of_ones_own(self):
        self.is_refused(
            """
            sampler = torch.utils.data.WeightedRandomSampler([1.0] * 40, 40)
            rubato.elastic(model, opt, DataLoader(data, batch_size=4, sampler=sampler))
            """,
            "the DataLoader has a WeightedRandomSampler; the runtime chooses the samples itself",
        )

    def test_lbfgs(self):
        self.is_refused(
            "rubato.elastic(model, torch.optim.LBFGS(model.parameters()), loader)",
            "LBFGS evaluates the loss several times per step; use another optimizer",
        )

    def test_tensors_that_are_not_the_models(self):
        self.is_refused(
            """
            opt = torch.optim.SGD([*model.parameters(), torch.zeros(3, requires_grad=True)], lr=1)
            rubato.elastic(model, opt, loader)
            """,
            "the optimizer updates 1 tensors that are not parameters of the model",
        )

    def test_sparse_gradients(self):
        self.is_refused(
            """
            model = nn.Sequential(nn.Embedding(10, 4, sparse=True), nn.Linear(4, 1))
            opt = torch.optim.SGD(model.parameters(), lr=1)
            rubato.elastic(model, opt, loader)
            """,
            "sparse",
        )

    def test_a_plateau(self):
        self.is_refused(
            """
            sched = torch.optim.lr_scheduler.ReduceLROnPlateau(opt)
            rubato.elastic(model, opt, loader, sched)
            """,
            "ReduceLROnPlateau needs a metric that only the worker that evaluates knows",
        )

    def test_a_schedule_with_a_state_that_cannot_be_kept(self):
        self.is_refused(
            """
            sched = torch.optim.lr_scheduler.ExponentialLR(opt, 0.5)
            sched.log = open("/dev/null")
            rubato.elastic(model, opt, loader, sched)
            """,
            "ExponentialLR cannot be kept: ['log'] is a _io.TextIOWrapper",
        )

    def test_double_precision(self):
        self.is_refused(
            "rubato.elastic(model.double(), opt, loader)",
            "the parameter 'weight' is torch.float64; float32, bfloat16 and float16 can be trained",
        )


class IterableData(unittest.TestCase):
    STREAM = """
        from torch.utils.data import IterableDataset
        class Stream(IterableDataset):
            def __iter__(self):
                return self.shard(0, 1)
            def __len__(self):
                return 40
            def shard(self, i, n):
                for number in range(i, self.last, n):
                    yield data[number]
        Stream.last = {last}
        loader = DataLoader(Stream(), batch_size=4{more})
        model, opt, loader = rubato.elastic(model, opt, loader, logical=3)
        for epoch in rubato.epochs(2):
            for x, y in loader:
                opt.zero_grad(); loss_of(x, y).backward(); opt.step()
        print("finished", rubato.finished())
    """

    def run_with(self, last=40, more=""):
        return run(textwrap.dedent(self.STREAM).format(last=last, more=more))

    def test_is_read_by_shards(self):
        status, output = self.run_with()
        self.assertEqual((status, output), (0, "finished True\n"))

    def test_that_ends_too_early_is_told(self):
        status, output = self.run_with(last=33)
        self.assertNotEqual(status, 0)
        self.assertIn("of the data set ended before the epoch did", output)

    def test_is_refused_without_shards_and_with_processes(self):
        status, output = run(
            """
            class Lines(torch.utils.data.IterableDataset):
                def __iter__(self):
                    return iter(data)
            rubato.elastic(model, opt, DataLoader(Lines(), batch_size=4))
            """
        )
        self.assertNotEqual(status, 0)
        self.assertIn("needs two more methods: shard(i, n)", output)
        status, output = self.run_with(more=", num_workers=2")
        self.assertNotEqual(status, 0)
        self.assertIn("use num_workers=0", output)


if __name__ == "__main__":
    unittest.main()
