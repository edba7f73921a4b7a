"""A job for warm_test.py: prints when a process begins and when `import rubato` has returned."""

import os
import sys
import threading
import time

print("begins", flush=True)
if "thread" in sys.argv:
    threading.Thread(target=time.sleep, args=(1e9,), daemon=True).start()
print("buffered, once", end="\n" * 2)

import torch  # noqa: E402

import rubato  # noqa: E402

worker = os.environ.get("RUBATO_WORKER", "alone")
print(f"goes on: worker {worker}, parent {os.getppid()}, device {os.environ.get('DEVICE', 'none')}", flush=True)
if "fails" in sys.argv and worker not in ("0", "alone") and "begins" not in open("/proc/self/fd/1").read():
    raise SystemExit("a forked worker fails")

torch.manual_seed(1)
model = torch.nn.Linear(16, 16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = torch.utils.data.TensorDataset(torch.randn(128, 16), torch.randn(128, 16))
loader = torch.utils.data.DataLoader(data, batch_size=4)
model, optimizer, loader = rubato.elastic(model, optimizer, loader, logical=4)
for epoch in rubato.epochs(int(sys.argv[1])):
    for x, y in loader:
        if os.path.exists(sys.argv[2]):
            time.sleep(0.02)  # the test has something to do before the end
        optimizer.zero_grad()
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
