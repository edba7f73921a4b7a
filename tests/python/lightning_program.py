"""lightning_program.py plain|lightning OUT: the same training with and without Lightning."""

import sys

import rubato
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

kind, out = sys.argv[1:]
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(1)
x = torch.randn(512, 3, 16, 16)
data = TensorDataset(x, (x.mean((1, 2, 3)) > 0).long())


def network():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Dropout(0.1), nn.Linear(8 * 14 * 14, 2)
    )


def optimizer_of(parameters):
    opt = torch.optim.AdamW(parameters, lr=1e-3)
    return opt, torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=1e-2, total_steps=3 * 8)


loader = DataLoader(data, batch_size=16, shuffle=True, num_workers=2)
if kind == "lightning":
    import pytorch_lightning as pl

    from rubato.lightning import Trainer

    class Module(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = network()
            self.epochs_seen = []

        def forward(self, x):
            return self.net(x)

        def training_step(self, batch, batch_idx):
            x, y = batch
            loss = nn.functional.cross_entropy(self(x).float(), y)
            self.log("train_loss", loss)
            return loss

        def validation_step(self, batch, batch_idx):
            x, y = batch
            self.log("right", (self(x).argmax(1) == y).float().mean())

        def on_train_epoch_end(self):
            self.epochs_seen.append(self.current_epoch)

        def configure_optimizers(self):
            opt, sched = optimizer_of(self.parameters())
            return {"optimizer": opt, "lr_scheduler": {"scheduler": sched, "interval": "step"}}

    module = Module()
    trainer = Trainer(max_epochs=3, logical=4, precision="bf16-mixed", gradient_clip_val=1.0)
    trainer.fit(module, loader, DataLoader(data, batch_size=256))
    model = module.net
    print("lightning:", module.epochs_seen, trainer.callback_metrics)
    assert set(trainer.callback_metrics) == {"train_loss", "right"} or not rubato.leads()
else:
    model = network().to(device)
    opt, sched = optimizer_of(model.parameters())
    model, opt, loader, sched = rubato.elastic(model, opt, loader, sched, logical=4)
    for epoch in rubato.epochs(3):
        for x, y in loader:
            with torch.autocast(device, dtype=torch.bfloat16):
                loss = nn.functional.cross_entropy(model(x.to(device)).float(), y.to(device))
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            sched.step()
if rubato.leads():
    torch.save({name: tensor.cpu() for name, tensor in model.state_dict().items()}, out)
