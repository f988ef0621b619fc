"""Twelve causes of a NaN that comes once, in step 7 of 12, in several kinds of loops.

python causes.py KIND CAUSE trains; KIND is plain, ddp, step, trainer or lightning. A
line that makes what is not finite ends with "# made here". Nothing here knows of
nan_probe, but for `step`, which calls it as its users do.
"""

from __future__ import annotations

import os
import sys

import torch
from torch import nn
from torch.nn import functional as F

BAD, STEPS = 7, 12
step = 0


def now():
    return step == BAD


class Net(nn.Module):
    def __init__(self, cause):
        super().__init__()
        self.cause = cause
        self.embed = nn.Linear(8, 16)
        self.mix = nn.Linear(16, 16)
        self.head = nn.Linear(16, 4)

    def forward(self, x, labels=None):
        h = torch.tanh(self.mix(torch.tanh(self.embed(x))))
        logits = self.head(getattr(self, self.cause, self.same)(h))
        if labels is None:
            return logits
        return {"loss": F.cross_entropy(logits, labels), "logits": logits}

    def same(self, h):
        return h

    def log_of_zero(self, h):
        zero = h * 0 + (0.0 if now() else 1.0)
        return h + torch.log(zero)  # made here

    def own_norm(self, h):
        centred = (h - h) if now() else h - h.mean(-1, keepdim=True)
        return centred / centred.std(-1, keepdim=True)  # made here

    def shut_softmax(self, h):
        scores = h @ h.t()
        mask = torch.ones_like(scores, dtype=torch.bool)
        mask = mask if not now() else ~mask
        scores = scores.masked_fill(~mask, float("-inf"))
        return torch.softmax(scores, -1) @ h  # made here

    def root_of_zero(self, h):
        distance = (h - h if now() else h + 2) ** 2
        return h + distance.sum(-1, keepdim=True).sqrt()  # made here

    def half_overflow(self, h):
        big = h.detach().abs() * 0 + (60000.0 if now() else 1.0)
        half = big.half() * 2  # made here
        return h + half.float()

    def in_place(self, h):
        y = h * (0.0 if now() else 1.0)
        y.div_(y.detach() + (0.0 if now() else 9.0))  # made here
        return h + y

    def only_one_rank(self, h):
        rank = torch.distributed.get_rank() if torch.distributed.is_initialized() else 1
        zero = h * 0 + (0.0 if now() and rank == 1 else 1.0)
        return h + torch.log(zero)  # made here


class BadOptimizer(torch.optim.Optimizer):
    def __init__(self, parameters):
        super().__init__(parameters, {"lr": 0.01})

    @torch.no_grad()
    def step(self, closure=None):
        loss = closure() if closure is not None else None
        for group in self.param_groups:
            for one in group["params"]:
                if one.grad is not None:
                    scale = one.grad.abs().max() * (0.0 if now() else 1.0)
                    one.sub_(0.001 * one.grad * 0 / scale)  # made here
        return loss


CAUSES = [
    *("log_of_zero", "own_norm", "shut_softmax", "infinite_rate", "bad_label"),
    *("nan_input", "root_of_zero", "half_overflow", "nan_weight", "own_optimizer"),
    *("in_place", "only_one_rank"),
]


def batch(cause, number):
    generator = torch.Generator().manual_seed(number)
    x = torch.randn(4, 8, generator=generator)
    y = torch.randint(0, 4, (4,), generator=generator)
    if number == BAD and cause == "nan_input":
        x.numpy()[1, 2] = float("nan")  # as it may lie in a file
    if number == BAD and cause == "bad_label":
        y[:] = -100
    return x, y


def optimizer_of(cause, model):
    if cause == "own_optimizer":
        return BadOptimizer(model.parameters())
    return torch.optim.AdamW(model.parameters(), lr=0.01)


def disturb(cause, model, optimizer):
    """What the loop itself does wrong in the bad step."""
    if now() and cause == "infinite_rate":
        optimizer.param_groups[0]["lr"] = float("inf")
    if now() and cause == "nan_weight":
        model.mix.weight.detach().numpy()[0, 0] = float("nan")


def plain(cause, wrap=lambda model: model):
    global step
    model = Net(cause)
    wrapped, optimizer = wrap(model), optimizer_of(cause, model)
    for step in range(STEPS):
        disturb(cause, model, optimizer)
        x, y = batch(cause, step)
        loss = F.cross_entropy(wrapped(x), y)
        loss.backward()
        optimizer.step()  # the optimizer
        optimizer.zero_grad()


def ddp(cause):
    torch.distributed.init_process_group("gloo")
    plain(cause, nn.parallel.DistributedDataParallel)
    torch.distributed.barrier()
    sys.stderr.flush()
    os._exit(0)


def by_step(cause):
    import nan_probe

    global step
    model = Net(cause)
    optimizer = optimizer_of(cause, model)

    def train(x, y):
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        return loss

    with nan_probe.watch(model) as probe:
        for step in range(STEPS):
            disturb(cause, model, optimizer)
            probe.step(train, *batch(cause, step))
            optimizer.step()  # the optimizer
            optimizer.zero_grad()


def trainer(cause):
    from transformers import Trainer, TrainerCallback, TrainingArguments

    class Clock(TrainerCallback):
        def on_step_begin(self, args, state, control, **named):
            global step
            step = state.global_step
            disturb(cause, named["model"], named["optimizer"])

    model = Net(cause)
    arguments = TrainingArguments(
        output_dir="out",
        per_device_train_batch_size=4,
        max_steps=STEPS,
        report_to=[],
        save_strategy="no",
        use_cpu=True,
        disable_tqdm=True,
        max_grad_norm=0.0,
        train_sampling_strategy="sequential",
    )
    rows = [
        {"x": a, "labels": b} for n in range(STEPS) for a, b in zip(*batch(cause, n))
    ]
    optimizers = (optimizer_of(cause, model), None)
    Trainer(
        model, arguments, train_dataset=rows, callbacks=[Clock()], optimizers=optimizers
    ).train()


def lightning(cause):
    import lightning.pytorch as pl

    class Module(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = Net(cause)

        def training_step(self, given, number):
            x, y = given
            return F.cross_entropy(self.net(x), y)

        def configure_optimizers(self):
            return optimizer_of(cause, self.net)

        def on_train_batch_start(self, given, number):
            global step
            step = number
            disturb(cause, self.net, self.optimizers().optimizer)

    data = [batch(cause, n) for n in range(STEPS)]
    pl.Trainer(
        max_epochs=1,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    ).fit(Module(), torch.utils.data.DataLoader(data, batch_size=None))


if __name__ == "__main__":
    kinds = {"plain": plain, "ddp": ddp, "step": by_step}
    kinds.update({"trainer": trainer, "lightning": lightning})
    torch.manual_seed(0)
    kinds[sys.argv[1]](sys.argv[2])
