"""Hooks by which a session learns of backward, optimizers and loss scales; a step of
each op."""

from __future__ import annotations

import contextlib
import functools
import threading

import torch
from torch.optim import optimizer as optimizers
from torch.utils import _python_dispatch as dispatch

from .places import inside_backward, warn_at_the_program
from .tape import has_begun, is_compiling
from .values import tensors

register_before = getattr(optimizers, "register_optimizer_step_pre_hook", None)
register_after = getattr(optimizers, "register_optimizer_step_post_hook", None)
amp = getattr(torch.amp, "GradScaler", None) or torch.cuda.amp.GradScaler


class Hook:
    """A hook that goes with its module: into a copy as it is, into a file as one that
    does nothing and needs nothing of ours."""

    def __init__(self, call):
        self.call = call

    def __call__(self, *given):
        return self.call(*given)

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        return getattr, (contextlib.nullcontext(), "__exit__")


def registered(register, hook):
    """A hook that gets keyword arguments, too; not before torch 2.0."""
    hook = Hook(hook)
    try:
        return register(hook, with_kwargs=True)
    except TypeError:
        return register(hook)


class Patches:
    """Set while a session goes on, in the thread that began it."""

    def __init__(self, session):
        self.session = session
        self.are_on = False
        self.lent = None  # a thread that calls backward of what was made here
        self.elsewhere = 0  # backward passes of others, which are not watched
        self.undo = []

    def install(self):
        self.are_on = True
        self.session.tape.thread = threading.get_ident()
        # Of a tensor, too: within a torch function the tape is off its stack already.
        self.replace(torch.Tensor, "backward", self.backward)
        self.replace(torch.autograd, "backward", self.backward)
        self.replace(torch.autograd, "grad", self.grad)
        self.replace(amp, "scale", self.scale)
        self.replace_apply()
        self.undo.append(warn_at_the_program(lambda: self.session.repeats.are_on))
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
        here = threading.get_ident()
        return self.are_on and here in (self.session.tape.thread, self.lent)

    def replace(self, where, name, wrapper):
        original = getattr(where, name)

        @functools.wraps(original)
        def patched(*args, **kwargs):
            if self.is_here():
                return wrapper(original, args, kwargs)
            if not self.are_on or wrapper != self.backward or inside_backward():
                return original(*args, **kwargs)
            return self.from_elsewhere(original, args, kwargs)

        setattr(where, name, patched)
        self.undo.append(lambda: setattr(where, name, original))

    def from_elsewhere(self, original, args, kwargs):
        """Backward in another thread: of our loss, or of the one that trains."""
        tape, here = self.session.tape, threading.get_ident()
        alive = [one.ident for one in threading.enumerate()]
        if tape.has_made(args):
            self.lent = here
        elif tape.thread in alive and (self.session.steps or has_begun(tape.calls)):
            self.elsewhere += 1
            return original(*args, **kwargs)
        else:
            tape.clear()
            tape.is_on, tape.thread = True, here
            tape.leave()  # where it was left on this stack before
        try:
            return self.backward(original, args, kwargs)
        finally:
            self.lent = None

    def replace_apply(self):
        """Of an autograd.Function, which no mode sees: its call is one of a step."""
        kind = torch.autograd.Function
        before = vars(kind).get("apply")

        def apply(cls, *args, **kwargs):
            # Before torch 2.0 it is that of its base.
            run = before.__get__(None, cls) if before else super(kind, cls).apply
            if not self.session.is_call():
                return run(*args, **kwargs)
            return self.session.tape.call(run, args, kwargs)

        kind.apply = classmethod(apply)
        undo = functools.partial(setattr, kind, "apply", before)
        self.undo.append(undo if before else functools.partial(delattr, kind, "apply"))

    def backward(self, original, args, kwargs):
        gradients = kwargs.get("grad_tensors", kwargs.get("gradient"))
        gradients = args[1] if len(args) > 1 else gradients
        return self.session.backward(original, args, kwargs, gradients)

    def grad(self, original, args, kwargs):
        """That of weights is a backward pass, where it ends a step."""
        keeps = any(kwargs.get(one) for one in ("create_graph", "retain_graph"))
        wanted = tensors(args[1] if len(args) > 1 else kwargs.get("inputs"))
        is_of_weights = any(isinstance(one, torch.nn.Parameter) for one in wanted)
        if keeps or any(args[3:5]) or not is_of_weights:
            return original(*args, **kwargs)
        gradients = args[2] if len(args) > 2 else kwargs.get("grad_outputs")
        return self.session.backward(original, args, kwargs, gradients)

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


@contextlib.contextmanager
def in_threads(mode):
    """Threads that a model starts meanwhile, as for its replicas, are seen, too."""
    run = threading.Thread.run

    def watched(thread):
        here = Mode()
        here.step = mode.step
        with here:
            run(thread)

    threading.Thread.run = watched
    try:
        yield
    finally:
        threading.Thread.run = run


class Mode(dispatch.TorchDispatchMode):
    """Hands every op to the step being watched, if there is one."""

    supports_higher_order_operators = True
    step = None

    def __init__(self):
        super().__init__()
        self.here = threading.local()  # each thread has a stack of its own

    @property
    def is_on(self):
        return getattr(self.here, "is_on", False)

    @classmethod
    def ignore_compile_internals(cls):
        """Else torch.compile gives up, for good, on code that it first meets here."""
        return True

    def enter(self):
        if not self.is_on:
            self.__enter__()
            self.here.is_on = True

    def leave(self):
        """Off the stack, unless another mode lies on top: then at the next end."""
        if self.is_on and dispatch._get_current_dispatch_mode() is self:
            self.here.is_on = False
            self.__exit__(None, None, None)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        step, kwargs = self.step, kwargs or {}
        if step is None or (step.public is not None and step.public.is_copying):
            return func(*args, **kwargs)
        return step.call(func, args, kwargs)
