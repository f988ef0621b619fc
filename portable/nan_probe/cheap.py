"""Whether a step went wrong, found at little cost: one look at a few numbers."""

from __future__ import annotations

import math

import torch

from .values import UNREADABLE, is_bad, tensors

# A loss or a gradient from which on growth is no ordinary one.
LARGE = 1e4
norms = getattr(torch, "_foreach_norm", None)


def any_bad(values, seen=None):
    """One wait for all of them; only where that is not finite each is looked at.
    `seen` gets their total where all is well."""
    values = [one.detach() for one in values if is_plain(one)]
    if not values:
        return False
    try:
        found = total(values)
        if math.isfinite(found):
            if seen is not None:
                seen.append(found)
            return False
    except UNREADABLE:
        pass  # of several devices or kinds
    return any(map(is_bad, values))


def total(values):
    """Not finite where a value is not, and sometimes where a sum overflows."""
    if norms is None or len(values) == 1:
        return sum(float(one.float().sum()) for one in values)
    return float(torch.stack([one.float() for one in norms(values)]).sum())


def growth(seen):
    """Whether the last of some totals is beyond the first of them by orders."""
    first, last = (abs(seen[0]), abs(seen[-1])) if seen else (0, 0)
    return last > LARGE and last > 1000 * first


def is_plain(one):
    return (
        isinstance(one, torch.Tensor)
        and one.is_floating_point()
        and one.layout == torch.strided
        and not one.is_meta
        and not one.is_quantized
        and one.element_size() > 1
        and not hasattr(one, "to_local")
    )


def gradients_of(parameters):
    return [one.grad for one in parameters if one.grad is not None]


def losses_of(result):
    """Of what a step function returned: the loss is a number among it."""
    found = result.get("loss", result) if isinstance(result, dict) else result
    return [one for one in tensors(found) if one.numel() == 1]


class Models:
    """Several modules, and tensors outside them, as one model with names."""

    def __init__(self, modules, leaves=()):
        self.roots = list(modules)
        self.leaves = list(leaves)

    def named(self, what):
        for root in self.roots:
            prefix = "" if len(self.roots) == 1 else type(root).__name__ + "."
            for name, one in getattr(root, what)():
                name = name.replace("_orig_mod.", "").replace("_orig_mod", "")
                yield prefix + name if name else prefix.rstrip("."), one

    def named_modules(self):
        return self.named("named_modules")

    def named_buffers(self):
        return self.named("named_buffers")

    def named_parameters(self):
        yield from self.named("named_parameters")
        mine = {id(one) for root in self.roots for one in root.parameters()}
        for one in self.leaves:
            if id(one) not in mine:
                yield f"a weight {list(one.shape)}", one

    def parameters(self):
        return [one for _, one in self.named_parameters()]

    def buffers(self):
        return [one for _, one in self.named_buffers()]
