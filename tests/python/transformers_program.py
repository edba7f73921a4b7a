"""transformers_program.py plain|trainer OUT: a small language model with and without transformers' Trainer."""

import sys
import tempfile

import rubato
import torch
import transformers
from torch.utils.data import DataLoader, Dataset

kind, out = sys.argv[1:]
device = "cuda" if torch.cuda.is_available() else "cpu"


class Texts(Dataset):
    def __len__(self):
        return 256

    def __getitem__(self, i):
        ids = (torch.arange(32) * (i % 7 + 1) + i) % 64
        return {"input_ids": ids, "labels": ids}


torch.manual_seed(1)
config = transformers.GPT2Config(
    vocab_size=64, n_positions=32, n_embd=64, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0
)
model = transformers.GPT2LMHeadModel(config)
with tempfile.TemporaryDirectory() as folder:
    args = transformers.TrainingArguments(
        folder,
        per_device_train_batch_size=8,
        num_train_epochs=2,
        learning_rate=1e-3,
        lr_scheduler_type="cosine",
        bf16=device == "cuda",
        seed=0,
        logging_steps=4,
        save_strategy="no",
        eval_strategy="epoch",
        report_to=[],
        use_cpu=device == "cpu",
        disable_tqdm=True,
    )
    if kind == "trainer":
        from rubato.transformers import Trainer

        trainer = Trainer(model, args, train_dataset=Texts(), eval_dataset=Texts(), logical=4)
        trainer.train()
        model = trainer.model
    else:
        maker = transformers.Trainer(model, args, train_dataset=Texts(), eval_dataset=Texts())
        maker.create_optimizer_and_scheduler(16)
        opt, sched, model = maker.optimizer, maker.lr_scheduler, model.to(device)
        loader = DataLoader(Texts(), batch_size=8, shuffle=True, collate_fn=maker.data_collator)
        model, opt, loader, sched = rubato.elastic(model, opt, loader, sched, logical=4)
        for epoch in rubato.epochs(2):
            for inputs in loader:
                inputs = {name: tensor.to(device) for name, tensor in inputs.items()}
                with torch.autocast(device, dtype=torch.bfloat16, enabled=device == "cuda"):
                    loss = model(**inputs).loss
                opt.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                opt.step()
                sched.step()
if rubato.leads():
    torch.save({name: tensor.cpu() for name, tensor in model.state_dict().items()}, out)
    print(f"{kind}: done")
