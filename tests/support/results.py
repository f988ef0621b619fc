"""What a run of tests tells: the output of those that fail, and what took long.

Everything that tests and the processes they start write to standard output and error
goes into a file; of a test that fails it is printed beside its traceback.
"""

from __future__ import annotations

import copy
import faulthandler
import os
import resource
import sys
import tempfile
import time
import unittest
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO
from unittest.util import strclass

from django.test.runner import RemoteTestResult
from django.utils import translation

STREAMS = (1, 2)


class Capture:
    """Descriptors 1 and 2 of this process, written into a file without a name."""

    def __init__(self) -> None:
        self.file = tempfile.TemporaryFile()  # noqa: SIM115  # until `end`
        self.before = [os.dup(number) for number in STREAMS]
        flush()
        for number in STREAMS:
            os.dup2(self.file.fileno(), number)
        if faulthandler.is_enabled():  # a crash must not take its story along
            faulthandler.enable(file=self.before[1])

    def take(self) -> str:
        """What was written since the last call."""
        flush()
        text = os.pread(self.file.fileno(), os.fstat(self.file.fileno()).st_size, 0)
        # All who write share this offset.
        os.lseek(self.file.fileno(), 0, os.SEEK_SET)
        os.ftruncate(self.file.fileno(), 0)
        return text.decode(errors="replace")

    def end(self) -> None:
        flush()
        for number, before in zip(STREAMS, self.before, strict=True):
            os.dup2(before, number)
            os.close(before)
        if faulthandler.is_enabled():
            faulthandler.enable(file=2)
        self.file.close()


def flush() -> None:
    sys.stdout.flush()
    sys.stderr.flush()


# Of this process; None: what tests write is printed at once.
capture: Capture | None = None


@contextmanager
def captured() -> Iterator[TextIO]:
    """Capture what tests write; gives the stream for what the run itself says."""
    global capture
    with os.fdopen(os.dup(2), "w", buffering=1) as stream:
        capture = Capture()
        try:
            yield stream
        finally:
            capture.end()
            capture = None


def capture_anew() -> None:
    """In a process that was forked from one that captures: into a file of its own."""
    global capture
    if capture:
        capture = Capture()


class Watched(unittest.TestResult):
    """Looks at tests in the process that runs them.

    Hands on what it saw to `addTime` and `addOutput` of the class it is mixed into.
    """

    failing = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.since = clocks()

    def startTest(self, test: unittest.TestCase) -> None:
        # LocaleMiddleware activates a language for the thread and leaves it so.
        translation.deactivate()
        super().startTest(test)
        self.lap(test, strclass(type(test)))
        self.failing = False

    def stopTest(self, test: unittest.TestCase) -> None:
        self.lap(test, test.id())
        written = capture.take() if capture else ""
        if self.failing:
            self.addOutput(test, test.id(), written)
        super().stopTest(test)

    def lap(self, test: unittest.TestCase, what: str) -> None:
        """Around its tests a class sets up and tears down, which counts as its own."""
        (wall_s, processor_s), self.since = self.since, clocks()
        self.addTime(test, what, self.since[0] - wall_s, self.since[1] - processor_s)

    def addError(self, test: Any, err: Any) -> None:
        super().addError(test, err)
        self.failing = True
        if not isinstance(test, unittest.TestCase) and capture:  # set-up of a class
            self.addOutput(test, test.id(), capture.take())

    def addFailure(self, test: Any, err: Any) -> None:
        super().addFailure(test, err)
        self.failing = True

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
        super().addSubTest(test, subtest, err)
        self.failing = self.failing or err is not None

    def addUnexpectedSuccess(self, test: Any) -> None:
        super().addUnexpectedSuccess(test)
        self.failing = True


def clocks() -> tuple[float, float]:
    """Wall time, and processor time of this process and its children that ended."""
    spent = 0.0
    for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        usage = resource.getrusage(whose)
        spent += usage.ru_utime + usage.ru_stime
    return time.monotonic(), spent


class RemoteResult(Watched, RemoteTestResult):
    """In a process of a parallel run; what it adds is replayed in the first one."""

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
        """Without the test's client: once used, no other process can be sent it."""
        if err is not None:
            subtest = copy.copy(subtest)
            subtest.test_case = copy.copy(test)
            vars(subtest.test_case).pop("client", None)
        super().addSubTest(test, subtest, err)

    def addOutput(self, test: Any, name: str, text: str) -> None:
        self.events.append(("addOutput", self.test_index, name, text))

    def addTime(self, test: Any, what: str, wall_s: float, processor_s: float) -> None:
        self.events.append(("addTime", self.test_index, what, wall_s, processor_s))


class Result(unittest.TextTestResult):
    """Counts the tests that passed, which testsRun does not tell apart."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.passed = 0
        self.outputs: list[tuple[str, str]] = []
        self.wall_s: Counter[str] = Counter()
        self.processor_s: Counter[str] = Counter()

    def addSuccess(self, test: unittest.TestCase) -> None:
        super().addSuccess(test)
        self.passed += 1

    def addOutput(self, test: Any, name: str, text: str) -> None:
        if text:
            self.outputs.append((name, text))

    def addTime(self, test: Any, what: str, wall_s: float, processor_s: float) -> None:
        self.wall_s[what] += wall_s
        self.processor_s[what] += processor_s

    def printErrors(self) -> None:
        super().printErrors()
        for name, text in self.outputs:
            lines = (self.separator1, f"OUTPUT: {name}", self.separator2)
            self.stream.write("".join(f"{line}\n" for line in lines) + text.rstrip())
            self.stream.write("\n")

    def slowest(self, count: int) -> Iterator[str]:
        """Wall and processor time; a class: its own set-up and tear-down."""
        for what, wall_s in self.wall_s.most_common(count):
            yield f"{wall_s:8.2f} s {self.processor_s[what]:8.2f} s  {what}"


class SerialResult(Watched, Result):
    """Tests run in this process."""
