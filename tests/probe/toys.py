"""Toy models under nan_probe.py: python toys.py FOLDER [BEGINNING…] prints JSON.

FOLDER is where nan_probe lies. Each toy returns what it found, mostly the report.
It runs under the Python of a torch build: the syntax of 3.8, nothing but torch.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import json
import os
import sys
import tempfile
import threading
import weakref
from pathlib import Path

import torch
from torch import nn

sys.path.insert(0, sys.argv[1])
import nan_probe

INF, NAN = float("inf"), float("nan")
ONES = torch.ones(2, 4)
TOYS = {}


def toy(function):
    TOYS[function.__name__] = function
    return function


class Model(nn.Module):
    """Two layers around `body`, which makes what is not finite."""

    def __init__(self, body):
        super().__init__()
        self.up, self.body, self.down = nn.Linear(4, 4), body, nn.Linear(4, 2)

    def forward(self, x, **more):
        return self.down(self.body(self.up(x)))


class ZeroByZero(nn.Module):
    def forward(self, x):
        return x * 0 / (x * 0)


class LogOfNegative(nn.Module):
    def forward(self, x):
        return torch.log(-x.abs() - 1)


class Overflow(nn.Module):
    """float16 holds 60000, not the double of it."""

    def forward(self, x):
        half = (x * 0 + 60000).half()
        return (half + half).float()


class RootOfZero(nn.Module):
    """Its gradient is 1/0 times 0."""

    def forward(self, x):
        return ((x - x) ** 2).sum(-1, keepdim=True).sqrt() + x


class RootsOfZero(nn.Module):
    """The gradient of a branch that `where` does not take: 0/0."""

    def forward(self, x):
        zero = x - x
        return torch.where(zero > 0, zero.sqrt(), x)


class InPlace(nn.Module):
    def forward(self, x):
        y = x * 0
        y.div_(y.clone())
        return y + x


class Attention(nn.Module):
    def __init__(self, shut=(), fill="fill"):
        super().__init__()
        mask = torch.zeros(2, 2, dtype=torch.bool)
        mask[list(shut)] = True
        mask[0, 1] = True
        self.fill = fill
        self.register_buffer("mask", mask)
        self.register_buffer("bias", torch.zeros(2, 2).masked_fill(mask, -INF))

    def forward(self, x):
        scores = x @ x.transpose(-1, -2)
        if self.fill == "log":
            scores = scores + torch.log((~self.mask).float())
        elif self.fill == "buffer":
            scores = scores + self.bias
        else:
            scores = scores.masked_fill(self.mask, -INF)
        return torch.softmax(scores, -1) @ x


class WrongBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, grad):
        zero = grad * 0
        return zero / zero


class Custom(nn.Module):
    def forward(self, x):
        return WrongBackward.apply(x)


class Checkpointed(nn.Module):
    def __init__(self, body, reentrant):
        super().__init__()
        self.body, self.reentrant = body, reentrant

    def forward(self, x):
        from torch.utils.checkpoint import checkpoint

        return checkpoint(self.body, x, use_reentrant=self.reentrant)


calls = []


def again(x):
    """Bad when it is called the second time, as by a checkpoint."""
    calls.append(1)
    return (x * (NAN if len(calls) == 2 else 1.0)) ** 2


class Dead(nn.Module):
    """Fills memory behind torch's back, as a kernel of another library does."""

    def forward(self, x):
        y = torch.empty(2, 4)
        ctypes.memset(y.data_ptr(), 255, 32)
        return x + y


def loss_of(model, x=ONES):
    return model(x).sum()


def report(body, loss=loss_of, **options):
    """The report of one step: what was printed, else what was asked for."""
    model, out = Model(body), io.StringIO()
    with nan_probe.watch(model, every=10, file=out, **options) as probe:
        loss(model).backward()
    assert not out.getvalue() or out.getvalue() == probe.report() + "\n"
    return probe.report()


def state(model):
    """What a watch must leave behind: no hooks and no modes."""
    hooks = [len(m._forward_pre_hooks) + len(m._forward_hooks) for m in model.modules()]
    hooks += [len(p._backward_hooks or ()) for p in model.parameters()]
    return [sum(hooks), torch._C._len_torch_dispatch_stack()]


for name, body in {
    "zero_by_zero": ZeroByZero(),
    "log": LogOfNegative(),
    "overflow": Overflow(),
    "root": RootOfZero(),
    "where": RootsOfZero(),
    "in_place": InPlace(),
    "custom": Custom(),
    "memory": Dead(),
    "healthy": nn.Tanh(),
    "mask": Attention(),
    "mask_shut": Attention(shut=[1]),
    "mask_log": Attention(fill="log"),
    "mask_log_shut": Attention(shut=[1], fill="log"),
    "mask_buffer": Attention(fill="buffer"),
    "mask_buffer_shut": Attention(shut=[1], fill="buffer"),
    "checkpoint": Checkpointed(RootOfZero(), reentrant=False),
    "checkpoint_reentrant": Checkpointed(RootOfZero(), reentrant=True),
    "checkpoint_forward": Checkpointed(ZeroByZero(), reentrant=False),
    "checkpoint_again": Checkpointed(again, reentrant=False),
}.items():
    TOYS[name] = lambda body=body: report(body)


@toy
def weight():
    def loss(model):
        with torch.no_grad():
            model.down.bias[0] = NAN
        return loss_of(model)

    return report(nn.Tanh(), loss)


@toy
def batch():
    return report(nn.Tanh(), lambda model: loss_of(model, ONES * NAN))


@toy
def keyword():
    model, out = Model(nn.Tanh()), io.StringIO()
    with nan_probe.watch(model, every=10, file=out):
        model(x=torch.full((2, 4), NAN)).sum().backward()
    return out.getvalue()


@toy
def target():
    wrong = torch.tensor([[NAN, 1.0], [1.0, 1.0]])
    mse = nn.MSELoss()

    def loss(model):
        return mse(model(ONES), wrong)

    return report(nn.Tanh(), loss)


@toy
def autocast():
    def loss(model):
        with torch.no_grad():
            model.up.weight.fill_(3.4e38)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return model(ONES).float().sum()

    return report(nn.Identity(), loss)


@toy
def autocast_healthy():
    def loss(model):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return model(ONES).float().sum()

    return report(nn.Tanh(), loss)


@toy
def no_backward():
    model, out = Model(LogOfNegative()), io.StringIO()
    with torch.no_grad(), nan_probe.watch(model, every=10, file=out):
        model(ONES)
    return out.getvalue()


@toy
def optimizer():
    model, out = Model(nn.Tanh()), io.StringIO()
    sgd = torch.optim.SGD(model.parameters(), lr=1e38, weight_decay=1e38)
    with nan_probe.watch(model, every=10, file=out):
        loss_of(model).backward()
        sgd.step()
    return out.getvalue()


@toy
def package():
    """The line of a package, and the program's line that called it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "site-packages")
        folder.mkdir()
        folder.joinpath("library.py").write_text("def bad(x):\n    return x.log()\n")
        sys.path.insert(0, str(folder))
        import library

        class Body(nn.Module):
            def forward(self, x):
                return library.bad(-x.abs() - 1)

        return report(Body())


@toy
def every_third():
    """Bad from the sixth step on: seen in the seventh, the third one watched."""
    model, out, seen = Model(nn.Tanh()), io.StringIO(), []
    with nan_probe.watch(model, every=3, file=out) as probe:
        for number in range(9):
            loss_of(model, ONES if number < 5 else ONES * INF).backward()
            seen.append([probe.steps, probe.watched, *state(model)])
    return {"report": out.getvalue(), "seen": seen, "after": state(model)}


@toy
def every_second_in_threads():
    """The first call is that of another thread, which ends before its step does."""
    model, out = Model(nn.Tanh()), io.StringIO()
    with nan_probe.watch(model, every=2, file=out) as probe:
        other = threading.Thread(target=model, args=(ONES,))
        other.start()
        other.join()
        for number in range(1, 5):
            loss_of(model, ONES if number < 4 else ONES * INF).backward()
    return {"report": out.getvalue(), "missed": probe.missed, "after": state(model)}


@toy
def bad_from_the_beginning():
    model, out = Model(nn.Tanh()), io.StringIO()
    model.up.weight.data.fill_(NAN)
    with nan_probe.watch(model, file=out):
        loss_of(model, ONES).backward()
    return out.getvalue()


@toy
def by_hand():
    model, out = Model(nn.Tanh()), io.StringIO()
    with nan_probe.watch(model, every=2, file=out) as probe:
        for number in range(4):
            with probe.step():
                hidden = model.up(ONES)
                loss = model.down(hidden).sum() / (0.0 if number == 2 else 1.0)
                loss.backward()
    return {"report": out.getvalue(), "after": state(model)}


@toy
def decorated():
    model, out = Model(nn.Tanh()), io.StringIO()
    probe = nan_probe.watch(model, every=2, file=out)

    @probe
    def train_step(x):
        loss_of(model, x).backward()

    for number in range(5):
        train_step(ONES if number < 4 else ONES * INF)
    return {
        "report": out.getvalue(),
        "steps": [probe.steps, probe.watched],
        "after": state(model),
    }


@toy
def off():
    model = Model(ZeroByZero())
    with nan_probe.watch(model, every=0) as probe:
        inside = state(model)
        loss_of(model).backward()
        inside += state(model)
    return {"inside": inside, "report": probe.report()}


@toy
def exception():
    """A program that stops by itself at a bad loss, in a watched step."""
    model, out = Model(LogOfNegative()), io.StringIO()
    try:
        with nan_probe.watch(model, every=10, file=out):
            loss_of(model)
            (ONES * 2).sum()
            raise ValueError("loss")
    except ValueError:
        pass
    return {"report": out.getvalue(), "after": state(model)}


@toy
def error():
    import traceback

    model, out = Model(LogOfNegative()), io.StringIO()
    try:
        with nan_probe.watch(model, error=True, file=out):
            loss_of(model).backward()
    except nan_probe.NotFinite as raised:
        frames = traceback.extract_tb(raised.__traceback__)
        mine = [frame.line for frame in frames if frame.filename == __file__]
        text = str(raised)
    return {
        "line": mine[-1],
        "text": text,
        "printed": out.getvalue(),
        "after": state(model),
    }


@toy
def error_overflow():
    """An Inf that becomes no NaN: raised at the end of the step."""
    model = Model(Overflow())
    model.down = nn.Identity()
    try:
        with nan_probe.watch(model, error=True):
            loss_of(model).backward()
    except nan_probe.NotFinite as raised:
        return str(raised)


@toy
def other_mode():
    """A mode that ends within a step would take the watch's off."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Other(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    model, out = Model(ZeroByZero()), io.StringIO()
    with nan_probe.watch(model, every=1, file=out) as probe:
        with Other():
            loss_of(model).backward()
        first = state(model)
        with torch.no_grad():
            model.up.weight.mul_(1)
        loss_of(model).backward()
        with Other():
            pass
    return {
        "first": first,
        "missed": probe.missed,
        "report": out.getvalue(),
        "after": state(model),
    }


@toy
def run():
    """Repeats; what was before them is there again."""

    class Body(nn.Module):
        calls = 0

        def __init__(self):
            super().__init__()
            self.drop = nn.Dropout(0.5)
            self.register_buffer("seen", torch.zeros(()))

        def forward(self, x):
            self.seen += 1
            Body.calls += 1
            bad = NAN if Body.calls == 1 or not self.flaky else 1.0
            return self.drop(x) * bad

    found = {}
    for name, flaky in (("same", False), ("flaky", True)):
        torch.manual_seed(0)
        model, out = Model(Body()), io.StringIO()
        model.body.flaky, Body.calls = flaky, 0
        with nan_probe.watch(model, every=10, file=out) as probe:
            loss = probe.run(lambda model=model: loss_of(model))
        found[name] = out.getvalue()
        found["seen"] = float(model.body.seen)
        found["grads"] = all(p.grad is not None for p in model.parameters())
        found["bad"] = not bool(torch.isfinite(loss))
        found["grad"] = bool(torch.isnan(model.up.weight.grad).any())
    before = torch.get_rng_state()
    model = Model(Attention(shut=[1]))
    model.down = nn.Sequential(nn.Dropout(0.5), model.down)
    torch.set_rng_state(before)
    with nan_probe.watch(model, every=10, file=io.StringIO()) as probe:
        probe.run(lambda: loss_of(model))
    after = torch.get_rng_state()
    torch.set_rng_state(before)
    loss_of(model)
    found["random"] = bool(torch.equal(after, torch.get_rng_state()))
    return found


@toy
def odd_tensors():
    """Sparse gradients, complex numbers, integers and empty tensors are no trouble."""
    table = nn.Embedding(4, 4, sparse=True)

    def loss(model):
        wave = torch.fft.fft(table(torch.tensor([[0, 1]])))
        return model(wave.abs()[0]).sum() + torch.zeros(0).sum()

    return report(nn.Tanh(), loss)


@toy
def written_by_hand():
    """A weight that the loop itself spoils, without an optimizer."""
    found = []
    for every in (None, 1):
        model, out = Model(nn.Tanh()), io.StringIO()
        with nan_probe.watch(model, every=every, file=out):
            for number in range(3):
                loss_of(model).backward()
                with torch.no_grad():
                    for one in model.parameters():
                        one -= one.grad * (INF if number == 1 else 0.1)
                        one.grad = None
        found.append(out.getvalue())
    return found


@toy
def weights_in_one_storage():
    """The first is bad where both share a storage, the second of one op for both."""
    found = []
    for is_flat in (True, False):
        model, out = nn.Linear(2, 2), io.StringIO()
        if is_flat:
            flat = torch.ones(6)
            flat[0] = NAN
            model.bias.data, model.weight.data = flat[4:], flat[:4].view(2, 2)
        with nan_probe.watch(model, every=1, file=out):
            model(torch.ones(1, 2))
            with torch.no_grad():
                for one in [model.weight, model.bias] * (not is_flat):
                    one.fill_(1)
                divisors = [torch.ones(()), torch.zeros(())]
                torch._foreach_div_([model.weight, model.bias], divisors)
        found.append(out.getvalue())
    return found


class Again(Exception):
    """The program's own, of which nobody else knows."""


@toy
def a_model_that_runs_once():
    """It refuses the repeat, by which the program goes on."""

    class Once(LogOfNegative):
        def forward(self, x):
            if seen:
                raise Again
            seen.append(x)
            return super().forward(x)

    seen, out = [], io.StringIO()
    model = Model(Once())
    with nan_probe.watch(model, file=out):
        loss_of(model).backward()
    return out.getvalue()


@toy
def buffers_made_anew():
    """How many of the buffers that a model has had are kept."""

    class Average(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("average", torch.zeros(4))
            self.up = nn.Linear(4, 4)

        def forward(self, x):
            self.average = self.average * 0.9 + x.mean(0)
            seen.append(weakref.ref(self.average))
            return self.up(x)

    seen, model = [], Average()
    with nan_probe.watch(model):
        for _ in range(9):
            model(ONES).sum().backward()
        return sum(one() is not None for one in seen)


@toy
def closure():
    """An optimizer that computes the loss itself, by a function it is given."""
    model, out = Model(RootOfZero()), io.StringIO()
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)

    def compute():
        sgd.zero_grad()
        loss = loss_of(model)
        loss.backward()
        return loss

    with nan_probe.watch(model, file=out):
        sgd.step(compute)
    return out.getvalue()


@toy
def accumulation():
    """Two backward passes in a step marked by hand."""
    model, out = Model(nn.Tanh()), io.StringIO()
    with nan_probe.watch(model, every=10, file=out) as probe, probe.step():
        for scale in (1.0, INF):
            loss = loss_of(model, ONES * scale)
            loss.backward()
    return out.getvalue()


@toy
def ranks():
    """Two processes under DDP; the batch of rank 1 gives a NaN in backward only."""
    import torch.multiprocessing as mp

    with tempfile.TemporaryDirectory() as name:
        mp.spawn(one_rank, args=(name,), nprocs=2)
        return [Path(name, str(rank)).read_text() for rank in range(2)]


def one_rank(rank, folder):
    group = torch.distributed
    where = f"file://{folder}/meeting"
    group.init_process_group("gloo", init_method=where, rank=rank, world_size=2)
    ddp = nn.parallel.DistributedDataParallel(
        Model(RootOfZero() if rank else nn.Tanh())
    )
    with (
        Path(folder, str(rank)).open("w") as file,
        nan_probe.watch(ddp, every=10, file=file),
    ):
        ddp(ONES).sum().backward()
    group.barrier()
    # Not destroyed: in torch 1.13 gloo's thread may want the GIL, to drop a last
    # tensor, of whoever holds it and waits for that thread.
    os._exit(0)


class Region(nn.Module):
    """What a backend made of the graph: one piece of which torch sees nothing."""

    graphs = runs = 0

    @staticmethod
    def backend(graph, inputs):
        from torch.utils._python_dispatch import _disable_current_modes

        Region.graphs += 1

        def run(*values):
            Region.runs += 1
            with _disable_current_modes():
                return graph.forward(*values)

        return run


@toy
def compiled():
    """A region that fuses everything, first met in a watched step."""
    model, out = Model(ZeroByZero()), io.StringIO()
    model.body = torch.compile(model.body, backend=Region.backend)
    with nan_probe.watch(model, every=10, file=out):
        loss_of(model).backward()
    before = [Region.graphs, Region.runs]
    loss_of(model)
    loss_of(model)
    return {
        "report": out.getvalue(),
        "before": before,
        "later": [Region.graphs, Region.runs],
    }


@toy
def compiled_healthy():
    model = Model(torch.compile(nn.Tanh(), backend=Region.backend))
    with nan_probe.watch(model, every=10) as probe:
        loss_of(model).backward()
    return probe.report()


@toy
def compiled_elsewhere():
    """Something else in the process is compiled, before the watch and in it."""
    other = torch.compile(nn.Tanh(), backend=Region.backend)
    other(ONES)
    model, found = Model(nn.Tanh()), []
    with nan_probe.watch(model) as probe:
        loss_of(model).backward()
        found.append(probe.report())
        torch.compile(nn.Sigmoid(), backend=Region.backend)(ONES)
        found.append(probe.report())
    return found


@toy
def compiled_eager():
    model, out = Model(ZeroByZero()), io.StringIO()
    model.body = torch.compile(model.body, backend=Region.backend)
    Region.runs = 0
    with nan_probe.watch(model, every=10, eager=True, file=out):
        loss_of(model).backward()
    inside = Region.runs
    with torch.no_grad():
        loss_of(model)
    return {"report": out.getvalue(), "runs": [inside, Region.runs]}


@toy
def compiled_whole():
    """The compiled model itself is watched; its hooks lie outside of the graph."""
    model, out = Model(nn.Tanh()), io.StringIO()
    whole = torch.compile(model, backend=Region.backend)
    Region.graphs = 0
    with nan_probe.watch(whole, every=2, file=out) as probe:
        for number in range(5):
            loss_of(whole, ONES if number < 4 else ONES * NAN).backward()
    return {
        "report": out.getvalue(),
        "steps": [probe.steps, probe.watched],
        "graphs": Region.graphs,
    }


@toy
def compiled_inside():
    """A model that is compiled while it is watched: its hooks lie within the graph."""
    found = {}
    for mode in ("alone", "watched"):
        torch.manual_seed(0)
        model = Model(nn.Tanh())
        with (
            nan_probe.watch(model)
            if mode == "watched"
            else contextlib.nullcontext() as probe
        ):
            whole = torch.compile(model, backend="eager", fullgraph=True)
            losses = [loss_of(whole) for _ in range(3)]
            losses[-1].backward()
        found[mode] = [loss.item() for loss in losses]
    return {**found, "steps": probe.steps}


@toy
def compiled_call():
    model, out = Model(nn.Tanh()), io.StringIO()
    model.compile(backend=Region.backend)
    with nan_probe.watch(model, every=10, file=out) as probe:
        loss_of(model).backward()
        unmarked = probe.report()
        with probe.step():
            loss_of(model, ONES * NAN).backward()
    return {"unmarked": unmarked, "report": out.getvalue()}


class Half(nn.Module):
    """Its gradient is too large for float16 until the loss scale is 16384."""

    def forward(self, x):
        return (x.half() + 0).float() * 4


@toy
def scaler():
    found = []
    for body in (Half(), RootsOfZero()):
        model, out = Model(body), io.StringIO()
        model.down = nn.Identity()
        scaler = torch.amp.GradScaler("cpu")
        sgd = torch.optim.SGD(model.parameters(), lr=0.1)
        with nan_probe.watch(model, every=1, scaler=scaler, file=out) as probe:
            for _ in range(6):
                scaler.scale(loss_of(model)).backward()
                scaler.step(sgd)
                scaler.update()
                sgd.zero_grad()
        found.append([probe.skipped, probe.report()])
    return found


@toy
def scaler_by_default():
    """A scale that is searched for, and a NaN that no scale takes away."""
    found = {}
    for name, body, steps in (("healthy", Half(), 6), ("bad", RootsOfZero(), 12)):
        model, out = Model(body), io.StringIO()
        model.down = nn.Identity()
        scaler = torch.amp.GradScaler("cpu")
        sgd = torch.optim.SGD(model.parameters(), lr=0.1)
        with nan_probe.watch(model, file=out) as probe:
            for _ in range(steps):
                scaler.scale(loss_of(model)).backward()
                scaler.step(sgd)
                scaler.update()
                sgd.zero_grad()
        found[name] = probe.report()
    return found


@toy
def weights_without_a_gradient():
    """One is cut off, one begins beside a 0, as in LoRA, and one is frozen."""
    found = {}
    for name, is_cut in (("cut", True), ("whole", False)):
        cut, first, second, frozen = (nn.Linear(4, 4, bias=False) for _ in range(4))
        nn.init.zeros_(second.weight)
        frozen.weight.requires_grad_(False)
        model = nn.ModuleDict({"cut": cut, "first": first, "second": second})
        model["frozen"] = frozen
        sgd = torch.optim.SGD(model.parameters(), lr=0.1)
        with nan_probe.watch(model, file=io.StringIO()) as probe:
            for _ in range(4):
                hidden = cut(ONES).detach() if is_cut else cut(ONES)
                loss = (second(first(frozen(hidden))) - 1).pow(2).sum()
                loss.backward()
                sgd.step()
                sgd.zero_grad()
        found[name] = probe.report()
    return found


@toy
def left_as_it_was():
    """Gradients, random numbers, buffers and hooks after a step that was repeated."""
    found = []
    for watched in (False, True):
        torch.manual_seed(0)
        model = Model(nn.Sequential(nn.Dropout(0.5), nn.BatchNorm1d(4), RootOfZero()))
        with contextlib.ExitStack() as stack:
            if watched:
                stack.enter_context(nan_probe.watch(model, file=io.StringIO()))
            loss_of(model, torch.randn(2, 4)).backward()
        grads = [one.grad for one in model.parameters()]
        found.append([*grads, *model.buffers(), torch.rand(3)])
    same = [torch.equal(a.nan_to_num(7), b.nan_to_num(7)) for a, b in zip(*found)]
    return {"same": same, "after": state(model)}


@toy
def flex_attention():
    """An op of a higher order, in eager."""
    from torch.nn.attention.flex_attention import flex_attention as attend

    out = io.StringIO()
    model = Model(nn.Identity())
    with (
        torch.no_grad(),
        nan_probe.watch(model, every=10, file=out) as probe,
        probe.step(),
    ):
        x = model(ONES)[None, None]
        attend(x, x, x / 0)
    return out.getvalue()


NEW = ("scaler", "scaler_by_default", "flex_attention")


def chosen(beginnings):
    """Toys by how their names begin. Those that compile leave their graphs to the
    process, so that they are asked for apart."""
    names = [name for name in TOYS if name.startswith(tuple(beginnings))]
    if not beginnings:
        names = [name for name in TOYS if not name.startswith("compiled")]
    if not hasattr(torch.amp, "GradScaler"):
        names = [name for name in names if name not in NEW]
    return names


if __name__ == "__main__":
    torch.manual_seed(0)
    print(json.dumps({name: TOYS[name]() for name in chosen(sys.argv[2:])}))
