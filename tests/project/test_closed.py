"""READ_LOGIN closes every address, whatever a client says about where it is."""

from __future__ import annotations

import itertools
import logging
import re
import subprocess
import sys
from collections.abc import Iterator
from urllib.parse import urlencode

from django.contrib import admin
from django.contrib.auth.models import Group, User
from django.test import TestCase, override_settings
from django.urls import URLPattern, URLResolver, get_resolver, reverse

from tests import ROOT
from tests.support import runs

# One value for each name in an address; a new name has to be given one here.
VALUES = {
    "record_id": "NAN-9001",
    "slug": "sample-9001",
    "about": "mine",
    "run_id": "00000000-0000-4000-8000-000000000000",
    "job_id": "00000000-0000-4000-8000-000000000000",
    "sweep_id": "00000000-0000-4000-8000-000000000000",
    "capture_id": "00000000-0000-4000-8000-000000000000",
    "short": "0123456789ab",
    "digest": "0" * 64,
    "name": "2.13.0",
    "build": "2.13.0-cpu",
    "form": "svg",
    "version": "0.1.0",
    "before": "2.12.1",
    "after": "2.13.0",
}
OPEN = {"healthz", "readyz", "login", "metrics", "robots", "security", "icon", "theme"}
# Heads by which a stranger may look like somebody, or like asking for something else.
HEADS = (
    {"Authorization": "Basic YWRtaW46YWRtaW4="},
    {"Authorization": "Bearer dtn_" + "0" * 43},
    {"Authorization": "bearer"},
    {"Remote-User": "admin"},
    {"X-Forwarded-Host": "evil.example", "X-Forwarded-Prefix": "/healthz"},
    {"X-Original-Url": "/healthz", "X-Rewrite-Url": "/healthz"},
    {"X-Http-Method-Override": "OPTIONS"},
)
GROUPS = ("viewer", "runner", "operator")
# Of the admin: to log in and out, and the words of its scripts.
ADMIN_OPEN = {"login", "logout", "jsi18n"}
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

    def test_no_head_opens_one(self) -> None:
        for (name, path), heads in itertools.product(addresses(), HEADS):
            status = self.client.get(path, headers=heads).status_code
            said = f"{path} ({name}) with {heads}"
            self.assertIn(status, (301, 302, 401, 403, 405), said)

    def test_no_host_opens_one(self) -> None:
        with override_settings(ALLOWED_HOSTS=["known.example"]):
            for name, path in addresses():
                for host, wanted in (
                    ("known.example", (301, 302, 401, 403, 405)),
                    ("evil.example", (400,)),
                    ("known.example:80@evil.example", (400,)),
                ):
                    status = self.client.get(path, headers={"Host": host}).status_code
                    self.assertIn(status, wanted, f"{path} ({name}) at {host}")
        refusals = logging.getLogger("django.security.DisallowedHost")
        self.assertFalse(refusals.isEnabledFor(logging.ERROR), "each with a traceback")

    def test_the_admin_is_closed_to_strangers_and_to_who_is_no_staff(self) -> None:
        found = [
            pattern
            for pattern in names(admin.site.get_urls())
            if pattern.name not in ADMIN_OPEN and not pattern.pattern.regex.groups
        ]
        self.assertGreater(len(found), 20)
        for user in (None, *GROUPS):
            if user:
                row = User.objects.create_user(user)
                row.groups.add(Group.objects.get(name=user))
                self.client.force_login(row)
            for pattern, method in itertools.product(found, ("GET", "POST")):
                path = reverse(f"admin:{pattern.name}")
                status = self.ask(method, path, "")
                said = f"{method} {path} as {user}"
                self.assertIn(status, (302, 403), said)

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

    def test_what_stays_open_stands_in_the_docs(self) -> None:
        text = (ROOT / "docs" / "security.md").read_text()
        (row,) = re.findall(r"(?m)^\| `READ_LOGIN=1` .+", text)
        patterns = names(get_resolver().url_patterns)
        for pattern in [one for one in patterns if one.name in OPEN]:
            wanted = pattern.pattern.regex.groupindex
            kwargs = dict.fromkeys(wanted, "favicon.ico")
            address = reverse(pattern.name, kwargs=kwargs)
            self.assertIn(f"`{address}`", row)

    def test_each_group_reads_and_edits_what_it_may(self) -> None:
        for group in GROUPS:
            user = User.objects.create_user(group)
            user.groups.add(Group.objects.get(name=group))
            self.client.force_login(user)
            refused = {
                name
                for name, path in addresses()
                if self.client.get(path).status_code in (401, 403)
            }
            self.assertEqual(refused, set(), group)

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
