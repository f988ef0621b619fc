"""The test runner: names every skip with its reason, then failures, then counts."""

from __future__ import annotations

import argparse
import logging
import os
import tempfile
import unittest
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any
from unittest.util import strclass

from django.conf import settings
from django.core.management import call_command
from django.db import connection
from django.test import TransactionTestCase
from django.test.runner import (
    DiscoverRunner,
    ParallelTestSuite,
    RemoteTestRunner,
    _init_worker,  # type: ignore[attr-defined]  # stubs
)
from django.test.utils import iter_test_cases  # type: ignore[attr-defined]  # stubs

from runner.apps import configure_sandbox
from tests.support import loaded
from tests.support.results import (
    RemoteResult,
    Result,
    SerialResult,
    capture_anew,
    captured,
)


class RemoteRunner(RemoteTestRunner):
    resultclass = RemoteResult

    def run(self, test: Any) -> Any:
        *_, last = iter_test_cases(test)
        result = super().run(test)
        result.lap(last, strclass(type(last)))
        return result


def start_worker(*args: Any, **kwargs: Any) -> None:
    _init_worker(*args, **kwargs)
    capture_anew()


class ParallelSuite(ParallelTestSuite):
    runner_class = RemoteRunner
    init_worker = start_worker

    def __init__(self, subsuites: list[Any], *args: Any, **kwargs: Any) -> None:
        # Long classes first: for one that comes last the other processes wait.
        super().__init__(sorted(subsuites, key=is_short), *args, **kwargs)


def is_short(suite: Any) -> bool:
    """Of the tests of one class; half a minute and more has the tag "long"."""
    test = next(iter_test_cases(suite))
    return "long" not in getattr(test, "tags", ())


class Runner(DiscoverRunner):
    parallel_test_suite = ParallelSuite

    def __init__(
        self, *, database_only: bool = False, slowest: int = 0, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.database_only = database_only
        self.slowest = slowest

    @classmethod
    def add_arguments(cls, parser: argparse.ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--database-only",
            action="store_true",
            help="Leave out what would be the same on any database: tests without one.",
        )
        parser.add_argument(
            "--slowest",
            type=int,
            default=0,
            metavar="N",
            help="List what took longest: wall time, processor time, test or class.",
        )

    def setup_databases(self, **kwargs: Any) -> Any:
        """Tests that run alone share a file of SQLite with the servers they start.

        In memory, a thread that reads while another writes is refused at once
        ("database table is locked"), which no site that uses a file ever sees.
        """
        if connection.vendor == "sqlite" and self.parallel <= 1:
            name = str(Path(self.folder.name, "db.sqlite3"))
            connection.settings_dict["TEST"]["NAME"] = name
        with self.less_verbose():
            return super().setup_databases(**kwargs)

    def teardown_databases(self, old_config: Any, **kwargs: Any) -> None:
        with self.less_verbose():
            super().teardown_databases(old_config, **kwargs)

    @contextmanager
    def less_verbose(self) -> Iterator[None]:
        """Which database is made for which process is for those who ask."""
        self.verbosity -= 1
        yield
        self.verbosity += 1

    def build_suite(self, test_labels: Any = None, **kwargs: Any) -> Any:
        """All tests stand in one folder; other packages may need a torch to import."""
        return super().build_suite(test_labels or ["tests"], **kwargs)

    def load_tests_for_label(self, label: str, discover_kwargs: Any) -> Any:
        tests = super().load_tests_for_label(label, discover_kwargs)
        if not self.database_only:
            return tests
        return unittest.TestSuite(
            test for test in iter_test_cases(tests) if has_database(test)
        )

    def setup_test_environment(self, **kwargs: Any) -> None:
        """Pages name their static files by hash, as in production."""
        super().setup_test_environment(**kwargs)
        # Refusals are what many tests are about.
        logging.getLogger("django.request").setLevel(logging.ERROR)
        # Quick ones; how slow those of a site are is Django's own concern.
        settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
        # Tests of weaker tiers also run where root runs them, in a folder of its own.
        settings.SANDBOX_ALLOW_SHARED_ROOT = True
        os.environ["SANDBOX_ALLOW_SHARED_ROOT"] = "1"  # of the programs they start
        configure_sandbox()
        # Tests write rows past the counters that pages are kept under.
        settings.PAGE_CACHE_SECONDS = 0
        self.folder = tempfile.TemporaryDirectory()
        loaded.folder = Path(self.folder.name)
        settings.STATIC_ROOT = str(loaded.folder / "static")
        # Found when asked for: else each test's client would read 200 of them first.
        settings.WHITENOISE_AUTOREFRESH = True
        call_command("collectstatic", interactive=False, verbosity=0)

    def teardown_test_environment(self, **kwargs: Any) -> None:
        self.folder.cleanup()
        super().teardown_test_environment(**kwargs)

    def get_resultclass(self) -> Any:
        usual = SerialResult if self.parallel <= 1 else Result
        return super().get_resultclass() or usual

    def run_suite(self, suite: Any, **kwargs: Any) -> Any:
        """Keep what tests write until one fails, unless somebody wants to watch."""
        watched = self.pdb or self.debug_sql or self.verbosity > 1
        with nullcontext() if watched else captured() as stream:
            self.stream = stream
            return super().run_suite(suite, **kwargs)

    def get_test_runner_kwargs(self) -> Any:
        return {**super().get_test_runner_kwargs(), "stream": self.stream}

    def suite_result(self, suite: Any, result: Any, **kwargs: Any) -> int:
        status: int = super().suite_result(suite, result, **kwargs)
        if self.slowest and isinstance(result, Result):
            print(*result.slowest(self.slowest), sep="\n")
        for test, reason in result.skipped:
            print(f"skipped {test.id()}: {reason}")
        failed = {
            owner(test): text.strip().splitlines()[-1]
            for test, text in result.failures + result.errors
        }
        failed |= {owner(test): "passed" for test in result.unexpectedSuccesses}
        # Once more at the end, where a log that is cut has them.
        for name, why in sorted(failed.items()):
            print(f"failed {name}: {why[:300]}")
        passed = getattr(result, "passed", 0)
        print(
            f"{passed} passed, {len(failed)} failed, {len(result.skipped)} skipped",
            flush=True,
        )
        return status


def has_database(test: Any) -> bool:
    """True also for a module that cannot be imported: nobody knows what is in it."""
    return isinstance(test, (TransactionTestCase, unittest.loader._FailedTest))


def owner(test: Any) -> str:
    """The test that a failure belongs to: a subtest belongs to its test."""
    return str(getattr(test, "test_case", test).id())
