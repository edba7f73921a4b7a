"""docs_test.py RUBATO PAGE...: every Python program in the pages runs, alone and with two workers. One
that does not create its model gets one."""

import os
import re
import subprocess
import sys
import tempfile

RUBATO, *PAGES = sys.argv[1:]

MODEL = """
import torch
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(1)
model = torch.nn.Linear(8, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(TensorDataset(torch.randn(64, 8), torch.randn(64, 1)), batch_size=4, shuffle=True)
loss_fn = torch.nn.MSELoss()
"""

count = 0
for page in PAGES:
    with open(page) as file:
        programs = re.findall(r"^```python\n(.*?)^```", file.read(), re.MULTILINE | re.DOTALL)
    for number, program in enumerate(programs, 1):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "train.py")
            with open(path, "w") as file:
                file.write(program if "import torch" in program else MODEL + program)
            job = [RUBATO, "run", "--workers", "2", "--dir", os.path.join(folder, "job"), "--"]
            for command in ([sys.executable, path], job + [sys.executable, path]):
                done = subprocess.run(
                    command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
                )
                if done.returncode != 0:
                    sys.exit(f"{page}, program {number}: exit code {done.returncode}\n{done.stdout}")
                count += 1
print(f"{count} runs")
if count < 2:
    sys.exit("the pages have no Python programs")
