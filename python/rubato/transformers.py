"""Hugging Face's Trainer: `from rubato.transformers import Trainer` in place of transformers'.

    Trainer(model, args, train_dataset=data, eval_dataset=test, data_collator=collate, logical=8).train()

Its model, data, collator, optimizer, schedule, compute_loss(), evaluate(), save_model() and callbacks are
the Trainer's; the loop over steps is Rubato's. `logical` takes the place of gradient accumulation. The
worker that leads logs, evaluates and saves.
"""

import torch
import transformers
from transformers.trainer_utils import TrainOutput

from . import elastic, epochs, leads, report, step, updates
from ._errors import RefusedError


class Trainer(transformers.Trainer):
    def __init__(self, *args, logical=1, extra=None, **kwargs):
        super().__init__(*args, **kwargs)
        if self.args.gradient_accumulation_steps != 1:
            raise RefusedError(
                "gradient_accumulation_steps: logical workers accumulate gradients; use logical=..."
            )
        if self.args.fp16:
            raise RefusedError("fp16 needs a scaler around each step; use bf16")
        if self.args.save_strategy != "no":
            raise RefusedError(
                "save_strategy: the job keeps checkpoints of its own; use save_strategy='no', and "
                "save_model() at the end"
            )
        self._logical, self._extra = logical, extra

    def train(self, *args, **kwargs):
        if args or kwargs:
            raise RefusedError("train() resumes by itself where the job was; call it without arguments")
        loader = torch.utils.data.DataLoader(
            self.train_dataset,
            batch_size=self.args.per_device_train_batch_size,
            shuffle=True,
            collate_fn=self.data_collator,
            num_workers=self.args.dataloader_num_workers,
            pin_memory=self.args.dataloader_pin_memory,
        )
        per_epoch = -(-len(self.train_dataset) // (self._logical * loader.batch_size))
        count = int(self.args.num_train_epochs)
        total = self.args.max_steps if self.args.max_steps > 0 else count * per_epoch
        if self.args.max_steps > 0:
            count = -(-total // per_epoch)
        model = self.model.to(self.args.device)
        self.create_optimizer_and_scheduler(total)
        optimizer, schedule = self.optimizer, self.lr_scheduler
        loader = elastic(
            model,
            optimizer,
            loader,
            schedule,
            logical=self._logical,
            seed=self.args.seed,
            steps=total if self.args.max_steps > 0 else None,
            extra=self._extra,
        )[2]
        state, control = self.state, self.control
        state.max_steps, state.num_train_epochs = total, count
        calls = self.callback_handler
        control = calls.on_train_begin(self.args, state, control)
        loss = None
        for epoch in epochs(count):
            model.train()
            state.epoch = float(epoch)
            control = calls.on_epoch_begin(self.args, state, control)
            for inputs in loader:
                inputs = self._prepare_inputs(inputs)
                with self.compute_loss_context_manager(), self._mixed_precision():
                    loss = self.compute_loss(model, inputs)
                optimizer.zero_grad()
                loss.backward()
                if updates() and self.args.max_grad_norm:
                    torch.nn.utils.clip_grad_norm_(model.parameters(), self.args.max_grad_norm)
                optimizer.step()
                schedule.step()
                if updates():
                    state.global_step = step() + 1
                    state.epoch = (step() + 1) / per_epoch
                    control = calls.on_step_end(self.args, state, control)
                    if leads() and state.global_step % max(1, int(self.args.logging_steps)) == 0:
                        self._tell({"loss": loss.item(), "learning_rate": schedule.get_last_lr()[0]})
            control = calls.on_epoch_end(self.args, state, control)
            if leads() and self.args.eval_strategy == "epoch" and self.eval_dataset is not None:
                self._evaluate()
        self.control = calls.on_train_end(self.args, state, control)
        return TrainOutput(state.global_step, loss.item() if loss is not None else 0.0, {})

    def _mixed_precision(self):
        """What Accelerate does for the Trainer's own loop."""
        return torch.autocast(self.args.device.type, torch.bfloat16, enabled=self.args.bf16)

    def _evaluate(self):
        own = self.model.__dict__.get("forward")
        with self._mixed_precision():
            report(_numbers(self.evaluate()))
        # Accelerate has replaced the model's forward(), on the worker that leads only.
        self.model.__dict__.pop("forward", None)
        if own is not None:
            self.model.forward = own

    def _tell(self, logs):
        self.log(logs)
        report(_numbers(logs))

    def is_world_process_zero(self):
        return leads()


def _numbers(metrics):
    return {name: value for name, value in metrics.items() if isinstance(value, (int, float))}
