"""Trainers that own the loop: transformers (and trl), Lightning. We import nothing of
them; our callbacks have the names that they look for.
"""

from __future__ import annotations

import functools
import importlib.abc
import sys

from .places import again
from .session import Session, active


class TrainerCallback:
    """For `Trainer(callbacks=[nan_probe.TrainerCallback()])`: each training step is
    checked, and the bad one repeated. Options: those of `watch`."""

    def __init__(self, **options):
        self.options = options
        self.session = self.trainer = None

    def __getattr__(self, name):
        """Every other event that transformers tells, now or later."""
        if name.startswith("on_"):
            return lambda *given, **named: None
        raise AttributeError(name)

    def on_train_begin(self, args, state, control, **named):
        self.trainer = caller_with("training_step")
        if self.trainer is None or self.session is not None:
            return
        self.session = session_of(self.trainer.model, self.options)
        step = self.trainer.training_step

        @functools.wraps(step)
        def checked(*given, **named):
            return self.session.step(step, *given, **named)

        self.trainer.training_step = checked

    def on_train_end(self, args, state, control, **named):
        if self.trainer is not None:
            vars(self.trainer).pop("training_step", None)


def session_of(model, options):
    """The one that goes on, else one that begins."""
    session = active() or Session(**options)
    session.meet(model)
    if not session.patches.are_on:
        session.__enter__()
    return session


def caller_with(name):
    """The nearest caller's `self` that has such a method: it is not among what a
    callback is given."""
    frame = sys._getframe(2)
    while frame is not None:
        one = frame.f_locals.get("self")
        if one is not None and callable(getattr(type(one), name, None)):
            return one
        frame = frame.f_back
    return None


class LightningCallback:
    """For `Trainer(callbacks=[nan_probe.LightningCallback()])`, as above; under manual
    optimization backward passes are watched as in a loop of one's own."""

    def __init__(self, **options):
        self.options = options
        self.session = None

    def __getattr__(self, name):
        if name.startswith(("on_", "setup", "teardown")):
            return lambda *given, **named: None
        raise AttributeError(name)

    @property
    def state_key(self):
        return "nan_probe"

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        """There is none."""

    def on_train_start(self, trainer, module):
        self.session = session_of(module, self.options)

    def on_train_batch_start(self, trainer, module, batch, batch_idx):
        if module.automatic_optimization and self.session.is_mine():
            self.session.open(training_step, (module, batch, batch_idx), {})

    def on_before_backward(self, trainer, module, loss):
        self.session.losses = [loss]

    def on_after_backward(self, trainer, module):
        if self.session.stepping is not None:
            self.session.judge()

    def on_train_batch_end(self, trainer, module, *given):
        session = self.session
        if session.stepping is not None:
            session.stepping = None
            session.is_counted = False
            if not session.found:
                session.tape.enter()


def training_step(module, batch, batch_idx):
    """What Lightning does of a batch before the optimizer's step."""
    module._current_fx_name = "training_step"
    result = again(module.training_step, (batch, batch_idx), {}, None)
    loss = result["loss"] if isinstance(result, dict) else result
    loss.backward()


class Finder(importlib.abc.MetaPathFinder):
    """Gives the trainers of a program their callback, once it imports one."""

    TRAINERS = {
        "transformers.trainer": TrainerCallback,
        "lightning.pytorch.trainer.trainer": LightningCallback,
        "pytorch_lightning.trainer.trainer": LightningCallback,
    }

    def find_spec(self, name, path=None, target=None):
        if name not in self.TRAINERS:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None and spec.loader is not None:
                self.wrap(spec.loader, self.TRAINERS[name])
                return spec
        return None

    @staticmethod
    def wrap(loader, callback):
        execute = loader.exec_module

        def then_give(module):
            execute(module)
            trainer = module.Trainer
            begin = trainer.__init__

            @functools.wraps(begin)
            def init(self, *given, **named):
                begin(self, *given, **named)
                if hasattr(self, "add_callback"):
                    self.add_callback(callback())
                else:
                    self.callbacks.append(callback())

            trainer.__init__ = init

        loader.exec_module = then_give
