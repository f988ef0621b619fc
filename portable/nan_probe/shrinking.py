"""The smallest call that fails for the same reason.

Equal sizes shrink together, whichever tensor they are of; then values become 0, 1 or
one digit. A step counts only where law, kind of value, class and which operands are
finite stay what they were, each time it is tried.
"""

from __future__ import annotations

import math
import time

import torch

from .laws import PRODUCT, all_finite, law_of

TRIES, SECONDS, REPEATS = 400, 40, 2
# With so many numbers a call is small enough.
FEW = 8
FAILS = (RuntimeError, ValueError, TypeError, IndexError)


class Shrinker:
    def __init__(self, run):
        self.run = run
        self.tries = 0
        self.until = time.monotonic() + SECONDS
        self.wanted = sign(run)

    def shrunk(self):
        """Raises ValueError where the call does not fail by itself."""
        if self.wanted is None:
            raise ValueError("the call is finite when it is run by itself")
        # First, as all tries would go into the length of the sum.
        if self.wanted[0] == PRODUCT and self.size() > FEW:
            self.keeps(self.raised())
        before = None
        while before != self.size():
            before = self.size()
            for size in self.sizes():
                self.shrink_size(size)
        self.simplify()
        return self.run

    def raised(self):
        """What overflows by the length of a sum overflows by fewer, larger numbers."""

        def large(one):
            if not is_real(one):
                return one
            root = 10.0 ** round(math.log10(2 * torch.finfo(one.dtype).max ** 0.5))
            return torch.where(torch.isfinite(one), torch.full_like(one, root), one)

        args = [large(one) for one in self.run.args]
        return self.run.with_args(args, self.run.gradient)

    def size(self):
        return self.run.numbers()

    def sizes(self):
        found = {size for one in self.all() for size in one.shape if size > 1}
        return sorted(found, reverse=True)

    def all(self):
        gradient = self.run.gradient
        return self.run.tensors() + ([gradient] if gradient is not None else [])

    def shrink_size(self, size):
        """Delta debugging over the indices of every dimension of this size."""
        kept, parts = list(range(size)), 2
        original = self.run
        while len(kept) > 1:
            step = max(1, len(kept) // parts)
            pieces = [kept[at : at + step] for at in range(0, len(kept), step)]
            rests = [[i for i in kept if i not in piece] for piece in pieces]
            for piece in pieces + (rests if len(pieces) > 2 else []):
                if piece and self.keeps(cut(original, size, piece)):
                    kept, parts = piece, 2
                    break
            else:
                if step == 1:
                    return
                parts *= 2

    def keeps(self, run):
        """Takes the smaller call where it fails as the first one did."""
        if self.tries >= TRIES or time.monotonic() > self.until:
            return False
        self.tries += 1
        if any(sign(run) != self.wanted for _ in range(REPEATS)):
            return False
        self.run = run
        return True

    def simplify(self):
        """Values: all at once, then one by one where they are few."""
        if self.run.gradient is not None:
            ones = torch.ones_like(self.run.gradient)
            self.keeps(self.run.with_args(self.run.args, ones))
        for at, value in enumerate(self.run.args):
            if is_real(value):
                self.simplify_one(at)

    def simplify_one(self, at):
        for change in (torch.zeros_like, torch.ones_like, one_digit):
            value = self.run.args[at]
            new = torch.where(torch.isfinite(value), change(value), value)
            if torch.equal(new, value) or self.keeps(self.put(at, new)):
                break
        for index in range(min(self.run.args[at].numel(), 64)):
            for change in (torch.zeros_like, torch.ones_like, one_digit):
                new = self.run.args[at].clone()
                flat = new.reshape(-1)
                flat[index] = change(flat[index])
                new = flat.reshape(new.shape)
                if same(new, self.run.args[at]) or self.keeps(self.put(at, new)):
                    break

    def put(self, at, value):
        args = list(self.run.args)
        args[at] = value
        return self.run.with_args(args, self.run.gradient)


def is_real(value):
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def same(one, other):
    return bool(((one == other) | (one != one)).all())


def one_digit(value):
    return torch.where(
        value == 0, value, value.sign() * 10.0 ** value.abs().double().log10().round()
    ).to(value.dtype)


def sign(run):
    """What must not change; None where nothing fails."""
    try:
        results = run()
        if all_finite(results):
            return None
        nan = any(bool(torch.isnan(one).any()) for one in results)
        finite = [all_finite([one]) for one in run.tensors()]
        return law_of(run, results), nan, finite, is_finite_wide(run)
    except FAILS:
        return None


def is_finite_wide(run):
    try:
        return all_finite(run(*widened(run)))
    except FAILS:
        return False


def widened(run, dtype=torch.float64):
    def wide(one):
        return one.to(dtype) if is_real(one) else one

    return [wide(one) for one in run.args], wide(run.gradient)


def cut(run, size, kept):
    """The call with only these indices of every dimension of this size."""

    def smaller(one):
        if isinstance(one, torch.Tensor):
            for dim, length in enumerate(one.shape):
                if length == size:
                    one = one.index_select(dim, torch.tensor(kept))
            if one.dtype in (torch.int64, torch.int32):
                one = torch.where(one >= len(kept), one.clamp(max=len(kept) - 1), one)
            return one
        if isinstance(one, (list, tuple)):
            return [len(kept) if value == size else value for value in one]
        return one

    gradient = None if run.gradient is None else smaller(run.gradient)
    made = run.with_args([smaller(one) for one in run.args], gradient)
    made.kwargs = {name: smaller(one) for name, one in run.kwargs.items()}
    return made
