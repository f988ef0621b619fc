"""Where the program stands, read from the stack: line, module, direction."""

from __future__ import annotations

import linecache
import os
import sys
import threading
import warnings
from collections import namedtuple

import torch

from .values import tensors

HOME = os.path.dirname(torch.__file__) + os.sep
OWN = os.path.dirname(__file__) + os.sep
STANDARD = os.path.dirname(os.__file__) + os.sep
PACKAGES = (os.sep + "site-packages" + os.sep, os.sep + "dist-packages" + os.sep)
call_of_module = torch.nn.Module._call_impl.__code__
graph_task = getattr(torch._C, "_current_graph_task_id", None)

# `caller`: of a line in a package the program's own.
Line = namedtuple("Line", "file number function caller", defaults=(None,))
Place = namedtuple("Place", "direction line caller module")
# By code object.
kinds = {}


def again(function, args, kwargs, site):
    """Runs a call. Whoever reads the stack finds `site` here, and stops there."""
    return function(*args, **kwargs)


class Look:
    """Where the program stands: from the stack, the innermost line outside torch.

    `engine`: the frame that called autograd. `caller`: the program's own line, where
    the innermost is in a package or autograd's.
    """

    def __init__(self, names):
        self.direction = "forward"
        self.line = self.caller = self.module = self.engine = None
        self.in_package = False
        frame = sys._getframe(1)
        while frame is not None and not self.is_done(frame, names):
            frame = frame.f_back

    def is_done(self, frame, names):
        kind, has_self = kinds.get(frame.f_code) or kind_of(frame.f_code)
        if kind == "again":
            self.end(frame.f_locals["site"])
            return True
        if kind == "engine":
            is_forward = self.line is not None and self.direction == "forward"
            if is_forward and torch.is_grad_enabled():
                return True  # autograd repeats a forward: a checkpoint
            self.direction, self.engine = "backward", self.engine or frame
        elif kind == "custom" and self.line is not None:
            self.direction = "backward"
        elif kind == "optimizer":
            self.enter_optimizer()
        elif kind in ("program", "package"):
            self.add_line(frame, kind == "package")
        if has_self and self.module is None and self.engine is None:
            one = frame.f_locals.get("self")
            if isinstance(one, torch.nn.Module):
                self.module = label_of(one, names)
        if self.engine is not None:
            return self.caller is not None
        found = self.line is not None and self.module is not None
        return found and not self.in_package and self.direction == "forward"

    def end(self, site):
        """What a repeat began: beyond it stands the call that found it necessary."""
        above = site and (site.caller or site)
        if self.engine is not None or (self.in_package and self.line != above):
            self.caller = self.caller or above
        elif self.line is None and site:
            self.caller = site.caller
        self.line = self.line or (site if self.engine is None else None)

    def enter_optimizer(self):
        """Not from a closure, which an optimizer calls to compute the loss."""
        is_its_own = self.line is None or not torch.is_grad_enabled()
        if self.engine is None and is_its_own:
            self.direction = "optimizer"

    def add_line(self, frame, in_package):
        if self.engine is not None:
            self.caller = self.caller or line_of(frame)
        elif self.line is None:
            self.line, self.in_package = line_of(frame), in_package
        elif self.in_package and not in_package:
            self.caller, self.in_package = line_of(frame), False


def kind_of(code):
    """What a frame is, and whether it has a `self`; kept for the next time."""
    file, name = code.co_filename, code.co_name
    has_self = code.co_argcount > 0 and code.co_varnames[0] == "self"
    kind = "program"
    if code is again.__code__:
        kind, has_self = "again", False
    elif file.startswith(OWN):
        kind, has_self = "own", False
    elif file.startswith(HOME):
        kind = "torch"
        inner = file[len(HOME) :]
        if inner.startswith("autograd"):
            if name in ("backward", "grad", "_engine_run_backward") and not has_self:
                kind = "engine"
            elif name == "apply" and has_self:
                kind = "custom"
        elif inner.startswith("optim" + os.sep):
            kind = "optimizer"
    elif any(part in file for part in PACKAGES):
        kind = "package"
    elif file.startswith((STANDARD, "<frozen", "<eval_with_key>")):
        kind = "standard"
    kinds[code] = kind, has_self
    return kinds[code]


def inside_backward():
    """Whether autograd runs, as where it repeats a checkpoint's forward."""
    if graph_task is not None:
        return graph_task() != -1
    frame = sys._getframe(1)
    while frame is not None:
        if (kinds.get(frame.f_code) or kind_of(frame.f_code))[0] == "engine":
            return True
        frame = frame.f_back
    return False


def warn_at_the_program(is_repeat=bool):
    """Torch warns at the line that calls it, which is one of ours where we call on.
    `is_repeat()`: the program was warned before. Returns what ends it."""
    original = warnings.showwarning

    def shown(message, category, file, number, *rest, **named):
        if is_repeat():
            return
        if file.startswith(OWN):
            look = Look(())
            file, number = (look.line or look.caller or (file, number))[:2]
        original(message, category, file, number, *rest, **named)

    def end():
        if warnings.showwarning is shown:
            warnings.showwarning = original

    warnings.showwarning = shown
    return end


def line_of(frame):
    return Line(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)


def label_of(module, names):
    kind = type(module).__name__
    if id(module) not in names:
        return f"{kind}, outside the model"
    return f"{names[id(module)] or 'the model itself'} ({kind})"


def shown(line):
    """train.py:12 in main: loss.backward(), with what of the path is below here."""
    if line is None:
        return "(no line known)"
    path, here = line.file, os.getcwd() + os.sep
    if path.startswith(here):
        path = path[len(here) :]
    else:
        path = os.sep.join(path.split(os.sep)[-2:])
    source = linecache.getline(line.file, line.number).strip()
    return f"{path}:{line.number} in {line.function}" + f": {source}" * bool(source)


class Graphs:
    """Which autograd node runs, for torch before 2.1, which does not tell."""

    def __init__(self):
        self.known, self.handles, self.running = set(), [], {}

    def enter(self, frame):
        """Hook every node behind the tensors of this call of backward or grad."""
        names = frame.f_locals if frame is not None else {}
        roots = names.get("tensors", names.get("outputs"))
        waiting = [one.grad_fn for one in tensors(roots)]
        while waiting:
            node = waiting.pop()
            if node is None or node in self.known:
                continue
            self.known.add(node)
            self.handles.append(node.register_prehook(self.setter(node)))
            self.handles.append(node.register_hook(self.setter(None)))
            waiting.extend(after for after, _ in node.next_functions)

    def setter(self, node):
        def hook(*gradients):
            self.running[threading.get_ident()] = node

        return hook

    def node(self):
        return self.running.get(threading.get_ident())

    def leave(self):
        for handle in self.handles:
            handle.remove()
        self.__init__()


def is_running(module):
    """Whether a call of this module is on the stack."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code is call_of_module and frame.f_locals["self"] is module:
            return True
        frame = frame.f_back
    return False


def site(meet):
    """The program's line that calls torch; `meet` gets the outermost module around."""
    line = outermost = None
    in_package = False
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code is call_of_module:
            outermost = frame
        kind = (kinds.get(code) or kind_of(code))[0]
        if line is None and kind in ("program", "package"):
            line, in_package = line_of(frame), kind == "package"
        elif in_package and kind == "program":
            line, in_package = line._replace(caller=line_of(frame)), False
        frame = frame.f_back
    if outermost is not None:
        meet(outermost.f_locals["self"])
    return line
