"""Hooks by which a session learns of backward, optimizers and loss scales."""

from __future__ import annotations

import functools
import threading

import torch
from torch.optim import optimizer as optimizers

from .tape import is_compiling

register_before = getattr(optimizers, "register_optimizer_step_pre_hook", None)
register_after = getattr(optimizers, "register_optimizer_step_post_hook", None)
amp = getattr(torch.amp, "GradScaler", None) or torch.cuda.amp.GradScaler


def registered(register, hook):
    """A hook that gets keyword arguments, too; not before torch 2.0."""
    try:
        return register(hook, with_kwargs=True)
    except TypeError:
        return register(hook)


class Patches:
    """Set while a session goes on, in the thread that began it."""

    def __init__(self, session):
        self.session = session
        self.are_on = False
        self.thread = threading.get_ident()
        self.undo = []

    def install(self):
        self.are_on = True
        self.thread = threading.get_ident()
        # Of a tensor, too: within a torch function the tape is off its stack already.
        self.replace(torch.Tensor, "backward", self.backward)
        self.replace(torch.autograd, "backward", self.backward)
        self.replace(amp, "scale", self.scale)
        if hasattr(torch, "compile"):
            self.replace(torch, "compile", self.compile)
        if register_before is not None:
            self.undo += [
                register_before(self.before).remove,
                register_after(self.after).remove,
            ]

    def remove(self):
        self.are_on = False
        while self.undo:
            self.undo.pop()()

    def is_here(self):
        return self.are_on and threading.get_ident() == self.thread

    def replace(self, where, name, wrapper):
        original = getattr(where, name)

        @functools.wraps(original)
        def patched(*args, **kwargs):
            if not self.is_here():
                return original(*args, **kwargs)
            return wrapper(original, args, kwargs)

        setattr(where, name, patched)
        self.undo.append(lambda: setattr(where, name, original))

    def backward(self, original, args, kwargs):
        return self.session.backward(original, args, kwargs)

    def scale(self, original, args, kwargs):
        """What is scaled is the loss; the scaled one may well overflow."""
        session = self.session
        if args[0].is_enabled():
            session.scaler = session.scaler or args[0]
            session.unscaled = [args[1] if len(args) > 1 else kwargs["outputs"]]
        return original(*args, **kwargs)

    def compile(self, original, args, kwargs):
        """Compiled code is one call of a step; its ops are invisible."""
        made = original(*args, **kwargs)
        if isinstance(made, torch.nn.Module):
            self.session.meet(made)
            return made
        if not args and "model" not in kwargs:
            return made  # a decorator, which calls this again

        @functools.wraps(made)
        def called(*given, **named):
            if not self.session.is_mine() or is_compiling():
                return made(*given, **named)
            return self.session.tape.call(made, given, named)

        return called

    def before(self, optimizer, args, kwargs):
        closure = args[1] if len(args) > 1 else kwargs.get("closure")
        if self.is_here():
            self.session.before_optimizer(optimizer, closure is not None)

    def after(self, optimizer, args, kwargs):
        if self.is_here():
            self.session.after_optimizer(optimizer)
