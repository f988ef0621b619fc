"""Programs as people write them, under the default watch: python programs.py FOLDER.

FOLDER is where nan_probe lies. A line that makes what is not finite ends with "# made
here". Prints JSON: program -> its report, and whether what it holds is the same as
without the watch.
"""

from __future__ import annotations

import io
import json
import math
import sys
import threading
import warnings

import torch
from torch import nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

sys.path.insert(0, sys.argv[1])
import nan_probe

BAD, STEPS = 2, 4
PROGRAMS = {}


def program(function):
    PROGRAMS[function.__name__] = function
    return function


def trained(model, loss_of, after=None):
    """Steps of a plain loop; the tensors that it ends with."""
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(STEPS):
        x = torch.randn(4, 3)
        loss = loss_of(x, step)
        sgd.zero_grad()
        loss.backward()
        if after is not None:
            after(step)
        sgd.step()
    return [*model.parameters(), *model.buffers()]


@program
def a_batch_that_is_standardized():
    model = nn.Linear(3, 1)

    def loss_of(x, step):
        x[:, 1] = 7 if step == BAD else x[:, 1]
        x = (x - x.mean(0)) / x.std(0)  # made here
        return model(x).square().mean()

    return trained(model, loss_of)


@program
def a_batch_in_place():
    model = nn.Linear(3, 1)

    def loss_of(x, step):
        scale = x.abs().amax() * (step != BAD)
        x.sub_(x.mean()).mul_(0).div_(scale)  # made here
        return model(x).square().mean()

    return trained(model, loss_of)


@program
def a_target_of_no_grad():
    model, other = nn.Linear(3, 1), nn.Linear(3, 1)

    def loss_of(x, step):
        with torch.no_grad():
            target = other(x).relu() * (step != BAD)
            target = target / target.sum()  # made here
        return F.mse_loss(model(x), target)

    return trained(model, loss_of)


@program
def the_first_step():
    """Before it the model was made: that is no part of the step."""
    model = nn.Linear(3, 3)
    nn.init.eye_(model.weight)
    nn.init.zeros_(model.bias)
    return trained(model, lambda x, step: F.mse_loss(model(x), x).sqrt())  # made here


@program
def gradients_that_are_clipped_by_hand():
    model = nn.Linear(3, 1)

    def clip(step):
        total = sum(one.grad.square().sum() for one in model.parameters()).sqrt()
        for one in model.parameters():
            one.grad.mul_(1.0 / total)  # made here

    return trained(model, lambda x, step: model(x).mean() * (step != BAD), clip)


@program
def weights_that_are_normed_by_hand():
    model = nn.Linear(3, 1, bias=False)

    def loss_of(x, step):
        weight = model.weight.data
        weight.mul_(step != BAD)
        weight.div_(weight.norm())  # made here
        return model(x).square().mean()

    return trained(model, loss_of)


@program
def a_view_of_a_weight():
    """Of an embedding the row that is no word, and -inf only, by dropout of all."""
    model = nn.Embedding(5, 4, padding_idx=0)

    def loss_of(x, step):
        scores = F.dropout(model(torch.tensor([0, 1, 2])), 0.5)
        if step == BAD:
            scores[1] = -math.inf
        return torch.softmax(scores, -1).sum()  # made here

    return trained(model, loss_of)


@program
def a_rate_that_is_too_high():
    model = nn.Linear(3, 1)
    sgd = torch.optim.SGD(model.parameters(), lr=1e6)
    x, y = torch.randn(4, 3), torch.randn(4, 1)
    for _ in range(20):
        loss = ((model(x) - y) ** 2).mean()  # made here
        sgd.zero_grad()
        loss.backward()
        sgd.step()
    return []


@program
def nothing_but_evaluation():
    model = nn.Linear(3, 9)
    with torch.no_grad():
        loss = F.cross_entropy(model(torch.randn(2, 3) * 1e4), torch.tensor([0, 1]))
        return [torch.exp(loss)]  # made here


class Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        norm = x.square().sum(-1, keepdim=True).sqrt()
        ctx.save_for_backward(x, norm)
        return norm

    @staticmethod
    def backward(ctx, gradient):
        x, norm = ctx.saved_tensors
        return gradient * x / norm  # made here


@program
def a_function_of_ones_own():
    class Normed(nn.Module):
        def __init__(self):
            super().__init__()
            self.up = nn.Linear(3, 3, bias=False)

        def forward(self, x):
            return Norm.apply(self.up(x))

    model = Normed()
    return trained(model, lambda x, step: model(x * (step != BAD)).sum())


@program
def a_function_of_ones_own_outside_the_model():
    model = nn.Linear(3, 3, bias=False)
    return trained(model, lambda x, step: Norm.apply(model(x * (step != BAD))).sum())


@program
def a_bad_batch_that_the_program_leaves_out():
    """It looks at the loss by itself; later steps are good."""
    model = nn.Linear(3, 3)
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(STEPS):
        x = torch.randn(4, 3) * (1e6 if step == BAD else 1)
        loss = torch.softmax(model(x), -1).log().mean()  # made here
        if not math.isfinite(loss.detach().item()):
            continue
        sgd.zero_grad()
        loss.backward()
        sgd.step()
    return [*model.parameters()]


@program
def metrics_that_no_step_is_left_out_for():
    """Of nothing, and the least of what is masked; each is looked at, and logged."""
    model, seen = nn.Linear(3, 3), []

    def loss_of(x, step):
        y = model(x)
        seen.append(y[x.sum(-1) > 99].mean().isnan())
        masked = torch.where(y > 0, y, torch.full_like(y, -math.inf))
        top = masked.topk(2).values
        hidden.append(top)
        return y.square().mean()

    hidden = []

    def after(step):
        seen.append(hidden.pop().min().detach())
        hidden.append(seen[-1].item())

    return [*trained(model, loss_of, after), *seen]


@program
def what_a_model_puts_in_the_place_of_what_it_held():
    """A buffer and an attribute, which hold NaN once the step is over."""

    class Centred(nn.Module):
        def __init__(self):
            super().__init__()
            self.up = nn.Linear(3, 3)
            self.register_buffer("mean", torch.zeros(3))
            self.last = torch.zeros(3)

        def forward(self, x, by):
            y = (self.up(x) - self.mean - self.last) / by  # made here
            self.mean = 0.9 * self.mean + 0.1 * y.detach().mean(0)
            self.last = y.detach().mean(0)
            return y

    model = Centred()
    return trained(model, lambda x, step: model(x, float(step != BAD)).square().mean())


@program
def gradients_without_a_backward():
    model = nn.Linear(3, 3)
    weights = [*model.parameters()]
    for step in range(STEPS):
        y = model(torch.randn(4, 3))
        goal = y.detach() if step == BAD else y.detach() + 1
        loss = (y - goal).square().sum(-1).sqrt().mean()  # made here
        gradients = torch.autograd.grad(loss, weights)
        with torch.no_grad():
            for one, gradient in zip(weights, gradients):
                one.sub_(0.1 * gradient)
    return weights


@program
def a_hook_of_a_gradient():
    model = nn.Linear(3, 1)

    def unit(gradient):
        return gradient / gradient.norm()  # made here

    for one in model.parameters():
        one.register_hook(unit)
    return trained(model, lambda x, step: model(x).square().mean() * (step != BAD))


@program
def several_losses():
    model = nn.Linear(3, 3)
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(STEPS):
        y = model(torch.randn(4, 3))
        y = y * (1e6 if step == BAD else 1)
        bad = torch.softmax(y, -1).log().mean()  # made here
        sgd.zero_grad()
        torch.autograd.backward([y.square().mean(), bad])
        sgd.step()
    return [*model.parameters()]


@program
def a_batch_that_is_fetched_ahead():
    model, batch = nn.Linear(3, 1), torch.ones(4, 3)

    def loss_of(x, step):
        y = model(batch / batch.norm(dim=1, keepdim=True))  # made here
        batch.copy_(x * (step + 1 != BAD))
        return y.square().mean()

    return trained(model, loss_of)


@program
def a_scripted_function():
    """What makes it is not seen, and its repeat has no graph."""
    model = nn.Linear(3, 3)

    @torch.jit.script
    def logs(x):
        return x.log()

    def loss_of(x, step):
        return logs(model(x).square() * (step != BAD)).mean()  # made here

    return trained(model, loss_of)


@program
def a_transform_of_torch_func():
    """Its tensors have no numbers; there is no backward."""
    model = nn.Linear(3, 1)
    weights = {name: one.detach() for name, one in model.named_parameters()}

    def loss_of(weights, x):
        return torch.func.functional_call(model, weights, (x,)).sum().sqrt()

    x = -torch.eye(3) * model.weight.detach().sign() * 9
    gradients = torch.vmap(torch.func.grad(loss_of), (None, 0))(weights, x)
    return [gradients["weight"].mean()]  # made here


class Doubled(TorchFunctionMode):
    """Doubles what softplus gives."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        return result * 2 if func is F.softplus else result


@program
def a_mode_of_ones_own():
    """Entered in each step, around the model; of no effect behind it."""
    model, seen = nn.Sequential(nn.Linear(3, 3), nn.Softplus()), []

    def loss_of(x, step):
        with Doubled():
            y = model(x)
            seen.append(y.detach() + F.softplus(x))
        seen.append(F.softplus(x))
        return (y.square() * (step != BAD)).log().mean()  # made here

    return [*trained(model, loss_of), *seen]


class Logs(torch.utils.data.Dataset):
    def __len__(self):
        return STEPS

    def __getitem__(self, number):
        return (torch.ones(3) * (number != BAD)).log()  # made here


@program
def a_dataset_in_this_process():
    model = nn.Linear(3, 1)
    batches = iter(torch.utils.data.DataLoader(Logs()))
    return trained(model, lambda x, step: model(next(batches)).square().mean())


@program
def a_hook_of_what_a_model_gave():
    model, top = nn.Linear(3, 3), nn.Linear(3, 1)

    def unit(gradient):
        return gradient / gradient.norm()  # made here

    def loss_of(x, step):
        y = model(x)
        y.register_hook(unit)
        return top(y).mean() * (step != BAD)

    return trained(model, loss_of)


@program
def a_teacher_that_follows():
    """Its weights are written to twice, outside every step."""
    model, teacher = nn.Linear(3, 1), nn.Linear(3, 1).requires_grad_(False)

    def loss_of(x, step):
        rate = 0.5 / torch.tensor(float(step != BAD))  # made here
        for one, other in zip(teacher.parameters(), model.parameters()):
            one.mul_(rate).add_(other.detach() * rate)
        return F.mse_loss(model(x), teacher(x))

    return trained(model, loss_of)


class Centred(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(3, 3)
        self.register_buffer("mean", torch.zeros(3))
        self.register_buffer("mask", torch.full((3,), -math.inf))

    def forward(self, x):
        y = self.up(x)
        rows = x.abs().sum(-1, keepdim=True) > 0
        mean = (y * rows).sum(0) / rows.sum()  # made here
        self.mean = 0.9 * self.mean + 0.1 * mean.detach()
        return y


@program
def what_a_model_holds_is_read_in_the_loss():
    model = Centred()

    def loss_of(x, step):
        y = model(x * (step != BAD))
        return (y - model.mean).square().mean()

    return trained(model, loss_of)


@program
def what_only_the_next_step_would_read():
    """A buffer, and beside it a mask."""
    model = Centred()
    return trained(model, lambda x, step: model(x * (step != BAD)).square().mean())


@program
def gradients_that_are_set_by_hand():
    model = nn.Linear(3, 1)
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(STEPS):
        x = torch.randn(4, 3) * (step != BAD)
        share = 1.0 / x.norm()  # made here
        model.weight.grad = x.mean(0, keepdim=True) * share
        sgd.step()
    return [*model.parameters()]


@program
def a_backward_in_another_thread():
    model = nn.Linear(3, 1)
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(STEPS):
        y = model(torch.randn(4, 3)) * (step != BAD)
        loss = y.square().sum().sqrt()  # made here
        sgd.zero_grad()
        in_thread(loss.backward)
        sgd.step()
    return [*model.parameters()]


def in_thread(run):
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()


@program
def nothing_but_another_thread_that_trains():
    model, ends = nn.Linear(3, 1), []

    def loss_of(x, step):
        return (model(x) * (step != BAD)).abs().log().mean()  # made here

    in_thread(lambda: ends.extend(trained(model, loss_of)))
    return ends


@program
def threads_within_a_model():
    class Halves(nn.Module):
        def __init__(self):
            super().__init__()
            self.up = nn.Linear(3, 3)

        def forward(self, x):
            found, y = [], x.square()

            def half():
                found.append((self.up(y).square() * (x.sum() != 0)).log())  # made here

            in_thread(half)
            return found[0]

    model = Halves()
    return trained(model, lambda x, step: model(x * (step != BAD)).mean())


@program
def a_rate_that_is_too_high_at_once():
    """No loss grew before it: the weights did."""
    model = nn.Sequential(nn.Linear(3, 3), nn.LayerNorm(3), nn.Linear(3, 1))
    adam = torch.optim.Adam(model.parameters(), lr=1e15)
    for _ in range(STEPS):
        loss = model(torch.randn(4, 3)).square().mean()  # made here
        adam.zero_grad()
        loss.backward()
        adam.step()
    return []


@program
def another_thread_that_trains():
    model, other = nn.Linear(3, 1), nn.Linear(3, 1)
    sgd = torch.optim.SGD(other.parameters(), lr=0.1)
    x = torch.randn(4, 3)

    def run():
        model(x)
        other(x).mean().backward()
        sgd.step()

    def loss_of(x, step):
        in_thread(run)
        return (model(x).square() * (step != BAD)).log().mean()  # made here

    return [*trained(model, loss_of), *other.parameters()]


def many_weights(retain):
    """A batch made by hand, far back in the tape of what the watch itself runs."""
    model = nn.ParameterList([torch.zeros(()) for _ in range(300)])
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(STEPS):
        x = torch.randn(4)
        x = x * (step != BAD) / x.sum() / (step != BAD)  # made here

        def compute(x=x):
            sgd.zero_grad()
            if retain:
                sum(model).backward(retain_graph=True)
            loss = (sum(model) * x).mean()
            loss.backward()
            return loss

        sgd.step(compute)
    return [*model.parameters()]


@program
def a_closure_of_many_weights():
    return many_weights(retain=False)


@program
def a_graph_of_many_weights_that_is_kept():
    return many_weights(retain=True)


@program
def a_model_of_many_buffers():
    model = nn.Linear(3, 1)
    for number in range(300):
        model.register_buffer(f"b{number}", torch.zeros(1))

    def loss_of(x, step):
        x = x * (step != BAD) / (x.sum() * (step != BAD))  # made here
        return model(x).square().mean()

    return trained(model, loss_of)


@program
def parts_that_are_empty():
    """One is written to, and one of another type is an index."""
    model = nn.Linear(3, 1)

    def loss_of(x, step):
        empty, index = torch.ones(0), torch.zeros(0, dtype=torch.long)
        some = model.bias[index + 0].sum()
        empty.mul_(2)
        y = model(x).square() * (step != BAD)
        return some + empty.sum() + y.log().mean()  # made here

    return trained(model, loss_of)


@program
def a_metric_without_effect():
    model = nn.Linear(3, 1)

    def after(step):
        return torch.zeros(()) / torch.tensor(0.0), torch.tensor([]).mean()

    return trained(model, lambda x, step: model(x).square().mean(), after)


@program
def a_batch_that_is_left_out_before_batch_norm():
    """What finds it must write no buffer that the next backward needs."""
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(STEPS):
        x = torch.randn(4, 3) * (step != BAD)
        loss = model(x / x.norm(dim=0)).square().mean()  # made here
        if not torch.isfinite(loss):
            continue
        sgd.zero_grad()
        loss.backward()
        sgd.step()
    return [*model.parameters(), *model.buffers()]


@program
def a_generator_behind_the_step_of_its_critic():
    made, critic = nn.Linear(3, 4), nn.Linear(4, 1)
    slow, fast = (torch.optim.SGD(one.parameters(), lr=0.1) for one in (made, critic))
    for step in range(STEPS):
        fake = made(torch.randn(4, 3))
        fake = (fake * (step != BAD)).abs().sqrt()  # made here
        fast.zero_grad()
        critic(fake.detach()).mean().backward()
        fast.step()
        slow.zero_grad()
        critic(fake).square().mean().backward()
        slow.step()
    return [*made.parameters(), *critic.parameters()]


@program
def a_part_that_was_called_once_before():
    """As networks ask for the size of what a part gives."""

    class Whole(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem, self.part = nn.Linear(3, 3), nn.Sequential(nn.Linear(3, 4))
            with torch.no_grad():
                self.head = nn.Linear(self.part(torch.zeros(1, 3)).shape[1], 1)

        def forward(self, x, step):
            x = (self.stem(x) * (step != BAD)).abs().sqrt()  # made here
            return self.head(self.part(x))

    model = Whole()
    return trained(model, lambda x, step: model(x, step).mean())


@program
def a_generator_of_the_models_own():
    class Noisy(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.own = nn.Linear(3, 3), torch.Generator().manual_seed(2)

        def forward(self, x):
            kept = (torch.rand(4, 3, generator=self.own) < 0.4).float()
            return self.up(x) * kept / kept.sum(0)  # made here

    model = Noisy()
    ends = trained(model, lambda x, step: model(x).mean())
    return [*ends, torch.rand(3, generator=model.own)]


@program
def metrics_of_a_model_that_is_saved_and_traced():
    model = nn.Linear(3, 1)

    def after(step):
        torch.save(model, io.BytesIO())
        torch.jit.trace(model, torch.ones(4, 3))

    return trained(model, lambda x, step: model(x).square().mean(), after)


@program
def metrics_with_warnings_as_errors():
    model = nn.Linear(3, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return trained(model, lambda x, step: model(x).square().mean())


@program
def a_compiled_model():
    class Logs(nn.Module):
        def __init__(self):
            super().__init__()
            self.up = nn.Linear(3, 3)

        def forward(self, x):
            return torch.softmax(self.up(x), -1).log().sum()  # made here

    model = Logs()
    whole = torch.compile(model, backend="eager")
    return trained(model, lambda x, step: whole(x * (1e6 if step == BAD else 1)))


@program
def a_compiled_loss():
    model = nn.Linear(3, 3)

    @torch.compile(backend="eager")
    def loss_of(x):
        return torch.softmax(model(x), -1).log().sum()  # made here

    return trained(model, lambda x, step: loss_of(x * (1e6 if step == BAD else 1)))


def both(run):
    """Its report, and whether it ended with the same numbers as without a watch."""
    ends, report = [], ""
    for is_watched in (False, True):
        torch.manual_seed(0)
        if not is_watched:
            ends.append(run())
            continue
        with nan_probe.watch(nn.Identity(), file=io.StringIO()) as probe:
            ends.append(run())
        report = probe.report()
    same = [torch.equal(a.nan_to_num(7), b.nan_to_num(7)) for a, b in zip(*ends)]
    return {"report": report, "same": all(same)}


if __name__ == "__main__":
    new = ("compiled", "transform", "scripted", "set_by_hand", "at_once")
    is_old = not hasattr(torch, "compile")
    wanted = [one for one in PROGRAMS if not (is_old and any(w in one for w in new))]
    print(json.dumps({name: both(PROGRAMS[name]) for name in wanted}))
