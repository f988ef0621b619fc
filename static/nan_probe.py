#!/usr/bin/env python3
"""Find the first non-finite value of a training step, forward or backward.

One file, standard library and torch (1.13 or later). Copy it beside your program:

    from nan_probe import NanProbe

    probe = NanProbe(model)                     # scaler=scaler with a GradScaler
    for batch in loader:
        loss = probe.step(lambda: loss_fn(model(batch.x), batch.y))
        optimizer.step()
        optimizer.zero_grad()

`probe.step` calls what you give it, calls backward on the loss it returns, and watches
both through hooks. Of the first step that goes wrong it prints the module, the op, the
direction, the type and the shape of the first value that is NaN or infinite; then it
repeats the step with the same inputs and random numbers and says whether the result
differs: one that does points to the machine, or to an op that races. Afterwards it
watches no more. The function you give must compute the loss and nothing else: it runs
again for the repeats. Paste what is printed into the look-up box.

Every module's output is waited for, so a watched step is several times slower. -inf in
the forward pass is often a mask: it is named, not counted. Among several ranks nothing
is repeated, as the others would not answer; run the batch of one rank alone instead.
"""

from __future__ import annotations

import os
import sys

import torch

# B905: zip has no `strict` before Python 3.10, and this runs under 3.8.
VERSION = 1
RERUNS = 2
INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class Place:
    """Where a value that is not finite was first seen, and what it looked like."""

    def __init__(self, direction, module, op, value, index=0):
        self.direction = direction
        self.module = module
        self.op = op
        self.index = index
        self.describe(value)

    def describe(self, value):
        self.dtype = str(value.dtype)
        self.shape = list(value.shape)
        self.device = str(value.device)
        plain = plain_values(value)
        self.total = plain.numel()
        self.nan = int(torch.isnan(plain).sum())
        self.inf = int(torch.isinf(plain).sum())

    def where(self):
        """What must be equal for two runs to have failed alike."""
        return (self.direction, self.module, self.index, self.nan, self.inf)


class NanProbe:
    """Watches the steps of one model until one of them is not finite."""

    def __init__(self, model, scaler=None, rerun=True, file=None):
        """`scaler`: a GradScaler whose scale(loss) is to go backward.
        `rerun`: repeat a bad step. `file`: where the report goes (stderr)."""
        self.model = model
        self.scaler = scaler
        self.rerun = rerun
        self.file = file or sys.stderr
        self.found = None
        self.report = ""
        self._steps = 0

    def step(self, compute_loss):
        """Run compute_loss() and backward; return the loss. Prints at most once."""
        if self.found is not None:
            loss = compute_loss()
            self._backward(loss)
            return loss
        before = Snapshot(self.model)
        self.found = bad_parameter(self.model)
        pass_ = Pass(self.model)
        loss = pass_.run(compute_loss, self._backward)
        self.found = self.found or pass_.first
        if self.found is not None:
            repeated = self._repeat(before, compute_loss, pass_)
            self.report = "\n".join(self._lines(pass_, repeated))
            self.file.write(self.report + "\n")
            self.file.flush()
        self._steps += 1
        return loss

    def _backward(self, loss):
        (loss if self.scaler is None else self.scaler.scale(loss)).backward()

    def _repeat(self, before, compute_loss, first):
        """What the repeats showed: (word, explanation). Leaves the state as it was."""
        if not self.rerun:
            return "not tried", "switched off"
        if ranks() > 1:
            return "not tried", "other ranks would wait; run this batch alone"
        if first.first is None:
            return "not tried", "the value was there before the step"
        after = Snapshot(self.model, with_grads=True)
        runs = []
        try:
            for _ in range(RERUNS):
                before.restore()
                clear_grads(self.model)
                again = Pass(self.model, checksums=True)
                again.run(compute_loss, self._backward)
                runs.append(again)
            answer = compared(first, runs)
            if self.found.direction == "forward":
                before.restore()
                name_op(self.found, compute_loss)
        finally:
            after.restore()
        return answer

    def _lines(self, pass_, repeated):
        found = self.found
        yield f"nan_probe {VERSION}: first non-finite value"
        rows = [
            ("step", f"{self._steps} (from 0, since the probe was made)"),
            ("direction", found.direction),
            ("module", found.module),
            ("op", found.op),
            ("dtype", found.dtype),
            ("shape", found.shape),
            ("device", found.device),
            ("value", f"nan {found.nan}, inf {found.inf} of {found.total}"),
            ("output", found.index),
            ("before it", pass_.masked),
            ("compiled", "yes" if is_compiled(self.model, pass_) else "no"),
            ("loss_scale", self.scaler and self.scaler.get_scale()),
            ("rank", f"{os.environ.get('RANK', '0')} of {ranks()}"),
            ("rerun", "{} ({})".format(*repeated)),
            ("torch", torch.__version__),
        ]
        for name, value in rows:
            if value is not None:
                yield f"  {name}: {value}"


class Pass:
    """One forward and backward under hooks; `first`: where it stopped being finite."""

    def __init__(self, model, checksums=False):
        self.model = model
        self.modules = dict(model.named_modules())
        self.names = {module: name for name, module in self.modules.items()}
        self.first = None
        self.masked = None
        self.sums = [] if checksums else None
        self.ops = set()
        self._labels = {}
        self._handles = []

    def run(self, compute_loss, backward):
        for module in self.names:
            self._handles.append(module.register_forward_pre_hook(self._entered))
            self._handles.append(module.register_forward_hook(self._left))
        try:
            loss = compute_loss()
            self._look("forward", "(outside the model)", loss, 0, grad_fn_name(loss))
            self._watch_backward(loss)
            backward(loss)
        finally:
            for handle in self._handles:
                handle.remove()
            self._labels.clear()
        return loss

    def _entered(self, module, inputs):
        for index, value in enumerate(tensors(inputs)):
            source = self._label(parent(self.names[module]))
            if value.grad_fn is None and not self.names[module]:
                source = "(the batch, before the model)"
            self._look("forward", source, value, index, grad_fn_name(value))

    def _left(self, module, inputs, output):
        label = self._label(self.names[module])
        ends = {value.grad_fn for value in tensors(inputs)}
        for index, value in enumerate(tensors(output)):
            self._look("forward", label, value, index, grad_fn_name(value))
            for node in nodes_from(value.grad_fn, ends):
                self._labels.setdefault(node, label)

    def _label(self, name):
        module = self.modules.get(name, self.model)
        return f"{name or 'the model itself'} ({type(module).__name__})"

    def _look(self, direction, module, value, index, op):
        """Remember the first value that is not finite; -inf forward is no proof."""
        if not measurable(value):
            return
        if self.sums is not None:
            self.sums.append((direction, module, checksum(value)))
        if self.first is not None or is_finite(value):
            return
        if direction == "forward" and value.dim() and not is_bad(value):
            self.masked = self.masked or f"-inf from {op} in {module}"
            return
        self.first = Place(direction, module, op, value, index)

    def _watch_backward(self, loss):
        for node in nodes_from(loss.grad_fn, ()):
            name = node.name()
            self.ops.add(name)
            label = self._labels.get(node, "(outside the model)")
            self._handles.append(node.register_hook(self._node_hook(name, label)))

    def _node_hook(self, name, label):
        def hook(grad_inputs, grad_outputs):
            for index, value in enumerate(tensors(grad_outputs)):
                source = f"sum of gradients that enter {name}"
                self._look("backward", label, value, index, source)
            for index, value in enumerate(grad_inputs):
                if isinstance(value, torch.Tensor):
                    self._look("backward", label, value, index, name)

        return hook


class Snapshot:
    """Random states, buffers and, if asked for, gradients."""

    def __init__(self, model, with_grads=False):
        self.model = model
        self.cpu = torch.get_rng_state()
        ready = torch.cuda.is_available() and torch.cuda.is_initialized()
        self.cuda = torch.cuda.get_rng_state_all() if ready else None
        self.buffers = [buffer.detach().clone() for buffer in model.buffers()]
        self.grads = [p.grad for p in model.parameters()] if with_grads else None

    def restore(self):
        torch.set_rng_state(self.cpu)
        if self.cuda is not None:
            torch.cuda.set_rng_state_all(self.cuda)
        with torch.no_grad():
            for buffer, value in zip(self.model.buffers(), self.buffers):  # noqa: B905
                buffer.copy_(value)
        if self.grads is not None:
            for parameter, grad in zip(self.model.parameters(), self.grads):  # noqa: B905
                parameter.grad = grad


def compared(first, runs):
    """(same | rounding | differs, in words)."""
    places = [run.first and run.first.where() for run in (first, *runs)]
    if len(set(places)) > 1:
        bad = sum(place is not None for place in places[1:])
        return "differs", (
            f"{bad} of {len(runs)} repeats not finite, not all at one place: "
            "suspect the node, or an op that races"
        )
    for one, other in zip(runs[0].sums, runs[1].sums):  # noqa: B905
        if one != other:
            return "rounding", f"same place; bits first differ {one[0]} in {one[1]}"
    return "same", f"{len(runs)} repeats with the same inputs give the same bits"


def name_op(found, compute_loss):
    """The very op of a forward value, by watching every one; torch 1.13 and later."""
    try:
        from torch.utils._python_dispatch import TorchDispatchMode
    except ImportError:
        return

    class Watch(TorchDispatchMode):
        named = False

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            bad = [] if self.named else [v for v in tensors(result) if is_bad(v)]
            if bad and not any(is_bad(value) for value in tensors((args, kwargs))):
                self.named = True
                found.op = str(func)
                found.describe(bad[0])
            return result

    try:
        with Watch():
            compute_loss()
    except (RuntimeError, NotImplementedError, TypeError):
        return  # Compiled code and some custom ops refuse to be watched.


def bad_parameter(model):
    """The first parameter or buffer that is not finite before the step."""
    for name, value in [*model.named_parameters(), *model.named_buffers()]:
        if is_bad(value.detach()):
            return Place(
                "before the step", name, "(a parameter or buffer)", value.detach()
            )
    return None


def nodes_from(node, ends):
    """The autograd nodes behind `node`, up to those in `ends`."""
    seen, waiting = {}, [node]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen or node in ends:
            continue
        seen[node] = True
        waiting.extend(after for after, _ in node.next_functions)
    return list(seen)


def tensors(values):
    """Every tensor in nested tuples, lists and mappings, in order."""
    if isinstance(values, torch.Tensor):
        yield values
    elif isinstance(values, dict):
        yield from tensors(list(values.values()))
    elif isinstance(values, (tuple, list)):
        for value in values:
            yield from tensors(value)
    elif hasattr(values, "__dataclass_fields__"):
        yield from tensors(list(vars(values).values()))


def measurable(value):
    kind = value.is_floating_point() or value.is_complex()
    return kind and not value.is_meta and not value.is_quantized and value.numel() > 0


def plain_values(value):
    """A tensor that isnan and isinf take: dense, local, of a type they know."""
    value = value.detach()
    if hasattr(value, "to_local"):
        value = value.to_local()
    if value.layout != torch.strided:
        value = value.to_dense()
    if value.is_complex():
        value = torch.view_as_real(value)
    return value.float() if value.element_size() == 1 else value


def is_finite(value):
    return bool(torch.isfinite(plain_values(value)).all())


def is_bad(value):
    """NaN or +inf: -inf alone may be a mask."""
    if not measurable(value):
        return False
    plain = plain_values(value)
    return bool((torch.isnan(plain) | (plain == float("inf"))).any())


def checksum(value):
    """The sum of a tensor's bits as integers."""
    plain = plain_values(value).contiguous()
    return int(plain.view(INTEGERS[plain.element_size()]).sum(dtype=torch.int64))


def grad_fn_name(value):
    return value.grad_fn.name() if value.grad_fn is not None else "(no autograd node)"


def parent(name):
    return name.rpartition(".")[0]


def clear_grads(model):
    for parameter in model.parameters():
        parameter.grad = None


def is_compiled(model, pass_):
    names = {type(module).__name__ for module in model.modules()}
    return "OptimizedModule" in names or "CompiledFunctionBackward" in pass_.ops


def ranks():
    group = torch.distributed
    if group.is_available() and group.is_initialized():
        return group.get_world_size()
    return 1
