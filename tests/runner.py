"""The test runner: names every skip with its reason and ends with one count line."""

from __future__ import annotations

import logging
import tempfile
import unittest
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.test.runner import DiscoverRunner


class CountingResult(unittest.TextTestResult):
    """Also counts the tests that passed, which testsRun does not tell apart."""

    passed = 0

    def addSuccess(self, test: unittest.TestCase) -> None:
        super().addSuccess(test)
        self.passed += 1


class Runner(DiscoverRunner):
    def setup_test_environment(self, **kwargs: Any) -> None:
        """Pages name their static files by hash, as in production."""
        super().setup_test_environment(**kwargs)
        # Refusals are what many tests are about.
        logging.getLogger("django.request").setLevel(logging.ERROR)
        self.static_root = tempfile.TemporaryDirectory()
        settings.STATIC_ROOT = self.static_root.name
        call_command("collectstatic", interactive=False, verbosity=0)

    def teardown_test_environment(self, **kwargs: Any) -> None:
        self.static_root.cleanup()
        super().teardown_test_environment(**kwargs)

    def get_resultclass(self) -> Any:
        return super().get_resultclass() or CountingResult

    def suite_result(self, suite: Any, result: Any, **kwargs: Any) -> int:
        status: int = super().suite_result(suite, result, **kwargs)
        for test, reason in result.skipped:
            print(f"skipped {test.id()}: {reason}")
        failed = {owner(test) for test, _ in result.failures + result.errors}
        failed |= {owner(test) for test in result.unexpectedSuccesses}
        passed = getattr(result, "passed", 0)
        print(
            f"{passed} passed, {len(failed)} failed, {len(result.skipped)} skipped",
            flush=True,
        )
        return status


def owner(test: Any) -> str:
    """The test that a failure belongs to: a subtest belongs to its test."""
    return str(getattr(test, "test_case", test).id())
