"""A program of GRIST's data set under nan_probe: python grist.py FOLDER GRIST NUMBER.

FOLDER is where nan_probe lies, GRIST a checkout of Jacob-yen/GRIST, of which nothing is
kept here. Its search for an input that overflows runs as written, in larger steps; what
is missing on this machine (data sets, plotting) is stood in for. Prints the report of
the default watch. Needs numpy, and scikit-learn for number 12.
"""

from __future__ import annotations

import contextlib
import datetime
import importlib
import importlib.machinery
import io
import json
import os
import runpy
import sys
import types
from pathlib import Path
from unittest import mock

import numpy
import torch

sys.path.insert(0, sys.argv[1])
from nan_probe.session import Session

FOLDER = Path(sys.argv[2])
# Of the search: 0.15 in its own configuration, which takes ten times as long.
CHANGE, STEPS = 2.0, 3000


class Images:
    """In place of a data set that would be downloaded: grey values up to 255, as they
    are where nobody scales them."""

    def __init__(self, *given, **named):
        self.images = torch.rand(256, 1, 28, 28) * 255

    def __len__(self):
        return len(self.images)

    def __getitem__(self, at):
        return self.images[at], at % 10


class Absent:
    """Any module that a program asks for and that is not installed."""

    def find_spec(self, name, path=None, target=None):
        frame = sys._getframe(1)
        while "importlib" in frame.f_code.co_filename:
            frame = frame.f_back
        if str(FOLDER) not in frame.f_code.co_filename:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        module = StandIn(spec.name)
        module.__path__ = []
        return module

    def exec_module(self, module):
        module.__dict__.update(KNOWN.get(module.__name__, {}))


class StandIn(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if f"{self.__name__}.{name}" in KNOWN:
            module = StandIn(f"{self.__name__}.{name}")
            module.__dict__.update(KNOWN[module.__name__])
            return module
        # A class, since some are bases of the programs' own.
        is_class = name[0].isupper()
        return type(name, (mock.MagicMock,), {}) if is_class else mock.MagicMock()


def openml(*given, **named):
    chance = numpy.random.RandomState(0)
    return types.SimpleNamespace(
        data=chance.rand(512, 784) * 255, target=numpy.arange(512) % 10
    )


def split(x, y, **named):
    return x[128:], x[:128], y[128:], y[:128]


def scatter_add(src, index, dim=0, dim_size=None):
    return src.new_zeros(dim_size or int(index.max()) + 1).index_add(0, index, src)


def give_the_loss_of_its_library():
    """Number 5: its copy for the search has a root in place of the logarithm."""
    losses = importlib.import_module("scripts.study_case.ID_5.matchzoo.losses")

    def forward(self, scores, labels):
        rows = [scores[at :: self.num_neg + 1] for at in range(self.num_neg + 1)]
        loss = losses.RankCrossEntropyLoss.forward(self, scores, labels)
        return loss, torch.softmax(torch.cat(rows, -1), -1)

    losses.RankCrossEntropyLossFGSM.forward = forward


KNOWN = {
    "pkg_resources": {"parse_version": lambda text: 0},
    "torch_scatter": {"scatter_add": scatter_add},
    "torchvision.datasets": {"MNIST": Images, "FashionMNIST": Images},
    "sklearn.datasets": {"fetch_openml": openml},
    "sklearn.model_selection": {"train_test_split": split},
}


class Found(Exception):
    """The search looked at a loss that is not finite."""


def search(session):
    """Its class, with marks where a program's step would end."""
    import scripts.utils.torch_utils as utils

    searcher = utils.GradientSearcher
    begin, update = searcher.__init__, searcher.update_batch_data
    seen = []

    def init(self, *given, **named):
        begin(self, *given, **named)
        self.change = CHANGE
        # It ends by the steps it takes, and not by the load of this machine.
        self.time_limitation = datetime.timedelta.max

    def check(self, loss_val, log_msg=None):
        seen.append(loss_val)
        if session.found or len(seen) > STEPS:
            raise Found

    def updated(self, *given, **named):
        session.check_rest()
        result = update(self, *given, **named)
        # A program that calls backward ends its steps there, and needs them until then.
        if not session.steps:
            session.tape.clear()
        return result

    searcher.__init__, searcher.update_batch_data = init, updated
    searcher.loss_checker = check
    return seen


def main(number):
    root = FOLDER / "scripts" / "study_case" / f"ID_{number}"
    (path,) = [
        one
        for one in root.rglob("*_grist.py")
        if "skorch" not in one.parts and "My_RBM" not in one.parts
    ]
    sys.path[:0] = [str(FOLDER), str(path.parent)]
    sys.meta_path.append(Absent())
    torch.manual_seed(0)
    torch.set_num_threads(1)  # small models wait longer for threads than they compute
    said = io.StringIO()
    with Session(file=said) as session, contextlib.suppress(Found, SystemExit):
        seen = search(session)
        if number == "5":
            give_the_loss_of_its_library()
        if number == "12":  # it needs scikit-learn itself
            importlib.import_module("sklearn.datasets").fetch_openml = openml
        runpy.run_path(str(path), run_name="__main__")
    return {"report": session.report(), "steps": len(seen)}


if __name__ == "__main__":
    stdout = os.dup(1)
    os.dup2(2, 1)
    os.write(stdout, json.dumps(main(sys.argv[3])).encode())
