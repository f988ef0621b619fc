"""READ_LOGIN closes every address, whatever a client says about where it is."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Iterator
from urllib.parse import urlencode

from django.contrib.auth.models import Group, User
from django.test import TestCase, override_settings
from django.urls import URLPattern, URLResolver, get_resolver, reverse

from tests import ROOT
from tests.support import runs

# One value for each name in an address; a new name has to be given one here.
VALUES = {
    "record_id": "NAN-9001",
    "slug": "sample-9001",
    "run_id": "00000000-0000-4000-8000-000000000000",
    "job_id": "00000000-0000-4000-8000-000000000000",
    "sweep_id": "00000000-0000-4000-8000-000000000000",
    "bisection_id": "00000000-0000-4000-8000-000000000000",
    "short": "0123456789ab",
    "digest": "0" * 64,
    "name": "2.13.0",
    "answer_id": "0" * 22,
    "subscription_id": "1",
    "build": "2.13.0-cpu",
    "form": "svg",
    "before": "2.12.1",
    "after": "2.13.0",
}
OPEN = {"healthz", "readyz", "login", "metrics", "robots", "icon", "theme"}
METHODS = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"]
PREFIXES = ["/admin", "/healthz", "/en/login", "//", "/admin/../x"]


def names(patterns: list[URLPattern | URLResolver]) -> Iterator[URLPattern]:
    for pattern in patterns:
        if isinstance(pattern, URLPattern):
            yield pattern
        elif pattern.app_name != "admin":
            yield from names(pattern.url_patterns)


def addresses() -> Iterator[tuple[str, str]]:
    """Name and address of what is closed; the admin has doors of its own."""
    for pattern in names(get_resolver().url_patterns):
        assert pattern.name, f"an address without a name: {pattern}"
        if pattern.name in OPEN:
            continue
        wanted = pattern.pattern.regex.groupindex
        yield pattern.name, reverse(pattern.name, kwargs={n: VALUES[n] for n in wanted})


class ClosedTest(TestCase):
    def setUp(self) -> None:
        runs.make_repro()
        # The middleware decides when the handler is built.
        self.enterContext(override_settings(READ_LOGIN=True))
        self.client = self.client_class()

    def ask(self, method: str, path: str, prefix: str) -> int:
        asked = self.client.generic(
            method, path, SCRIPT_NAME=prefix, HTTP_SCRIPT_NAME=prefix
        )
        return asked.status_code

    def test_no_address_answers_a_stranger(self) -> None:
        closed = list(addresses())
        self.assertGreater(len(closed), 30)
        plain = itertools.product(closed, METHODS, [""])
        for (name, path), method, prefix in itertools.chain(
            plain, itertools.product(closed, ["GET"], PREFIXES)
        ):
            status = self.ask(method, path, prefix)
            # Refused, led to the login, or no such method: never an answer.
            said = f"{method} {prefix}|{path} ({name})"
            self.assertIn(status, (301, 302, 401, 403, 405), said)

    def test_other_spellings_do_not_answer_either(self) -> None:
        path = reverse("record-list")
        for odd in (
            path.rstrip("/"),
            f"/{path}",
            path.replace("/", "//"),
            f"/admin/..{path}",
            f"/admin/%2e%2e{path}",
            f"{path}?{urlencode({'next': '/healthz'})}",
            f"{path}%00",
            "/admin/en/records/",
        ):
            status = self.client.get(odd).status_code
            self.assertIn(status, (301, 302, 400, 404), odd)

    def test_each_group_reads(self) -> None:
        path = reverse("record-list")
        for group in ("viewer", "runner", "editor", "operator"):
            user = User.objects.create_user(group)
            user.groups.add(Group.objects.get(name=group))
            self.client.force_login(user)
            self.assertEqual(self.client.get(path).status_code, 200, group)

    def test_the_server_takes_no_place_from_a_client(self) -> None:
        command = [sys.executable, "-m", "gunicorn", "-c", "python:config.gunicorn"]
        shown = subprocess.run(
            [*command, "--print-config"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        self.assertRegex(shown.stdout, r"(?m)^forwarder_headers += \[\]$")
