"""Tokens, and who may do what: every operation by everybody."""

from __future__ import annotations

import json
from datetime import timedelta
from io import StringIO
from typing import Any
from unittest import mock

from django.contrib.auth.models import Permission, User
from django.core.exceptions import ValidationError
from django.core.management import CommandError, call_command
from django.test import Client, TestCase, override_settings
from django.utils import timezone

from config import api_schema
from kb.models import Claim, Finding, Record, Repro
from runner.api import rules as api_access
from runner.models import Build, Evidence, Run
from runner.models.token import Token, digest_of
from tests.support import runs

ABSENT = "00000000-0000-4000-8000-000000000000"
VALUES = {
    "record_id": "NAN-9001", "name": "repro.py", "run_id": ABSENT, "sweep_id": ABSENT,
    "digest": "sha256:0", "capture_id": ABSENT, "version": "0",
}  # fmt: skip
REFUSED = (401, 403)


def operations() -> list[tuple[str, str, str]]:
    """(operationId, method, an address of it)."""
    found = []
    for path, methods in api_schema.document()["paths"].items():
        for method, operation in methods.items():
            found.append((operation["operationId"], method, path.format(**VALUES)))
    return found


def in_a_day() -> Any:
    return timezone.now() + timedelta(days=1)


class AccessTest(TestCase):
    user: User

    @classmethod
    def setUpTestData(cls) -> None:
        runs.load_sample()
        runs.make_build()
        cls.user = User.objects.create_user("ann")
        cls.secrets = {
            scope: Token.issue(f"with-{scope}", cls.user, [scope], in_a_day())[1]
            for scope in Token.Scope.values
        }
        cls.secrets["none"] = Token.issue("bare", cls.user, [], in_a_day())[1]
        past = timezone.now() - timedelta(seconds=1)
        cls.secrets["expired"] = Token.issue("old", cls.user, Token.Scope.values, past)[
            1
        ]
        cls.secrets["unknown"] = "dtn_" + "0" * 43

    def client_of(self, who: str) -> Client:
        if who == "nobody":
            return Client()
        if who == "session":
            client = Client()
            client.force_login(self.user)
            return client
        return Client(headers={"Authorization": f"Bearer {self.secrets[who]}"})

    def refused(self, who: str, method: str, path: str) -> bool:
        """Whether it ends at the door; what comes after is not asked here."""
        response = self.client_of(who).generic(
            method, path, b"{}", content_type="application/json"
        )
        if response.status_code not in REFUSED:
            return False
        body = response.json()
        self.assertIn(body["code"], ("unauthenticated", "forbidden"))
        if response.status_code == 401:
            self.assertEqual(response["WWW-Authenticate"], "Bearer")
        # Of a run that does not exist none can be "somebody else's".
        return True

    def assert_table(self, may: dict[str, str], **site: Any) -> None:
        """`may`: who -> the rules they pass, by name."""
        with override_settings(**site):
            for name, method, path in operations():
                rule = api_access.RULES[name].__name__
                for who, rules in may.items():
                    with self.subTest(operation=name, who=who, **site):
                        may_not = rule not in rules.split()
                        self.assertIs(self.refused(who, method, path), may_not)

    def test_a_site_for_everybody(self) -> None:
        table = {
            "nobody": "read run",
            "session": "read run",
            "run": "read run",
            "evidence": "read evidence",
            "none": "read",
            "expired": "",
            "unknown": "",
        }
        self.assert_table(table, RUNS_ANONYMOUS=True)

    def test_a_site_where_runs_need_a_permission(self) -> None:
        table = {
            "nobody": "read",
            "session": "read",
            "run": "read",
            "evidence": "read evidence",
        }
        self.assert_table(table, RUNS_ANONYMOUS=False)
        self.user.user_permissions.add(Permission.objects.get(codename="add_run"))
        table |= {"session": "read run", "run": "read run"}
        self.assert_table(table, RUNS_ANONYMOUS=False)

    def test_a_site_that_is_read_after_a_login(self) -> None:
        table = {"nobody": "", "session": "read run", "run": "read run", "none": "read"}
        self.assert_table(table, READ_LOGIN=True, RUNS_ANONYMOUS=True)

    def test_an_operation_without_a_rule_is_refused(self) -> None:
        rules = dict(api_access.RULES)
        del rules["list_records"]
        with mock.patch.object(api_access, "RULES", rules):
            self.assertEqual(self.client.get("/api/v1/records").status_code, 403)

    def test_a_token_of_a_user_who_left(self) -> None:
        User.objects.update(is_active=False)
        self.assertTrue(self.refused("run", "GET", "/api/v1/records"))

    def test_what_is_no_token(self) -> None:
        for value in ("Bearer", "Bearer \x7f", "Bearer " + "x" * 9000, "bearer dtn_é"):
            with self.subTest(value[:20]):
                client = Client(headers={"Authorization": value})
                response = client.get("/api/v1/records")
                self.assertEqual(response.status_code, 401)

    def test_only_a_digest_is_kept_and_its_use_is_noted(self) -> None:
        token = Token.objects.get(name="with-run")
        secret = self.secrets["run"]
        self.assertTrue(secret.startswith("dtn_"))
        self.assertGreaterEqual(len(secret), 4 + 43)  # 256 bits in base64
        row = Token.objects.filter(name="with-run").values().get()
        self.assertNotIn(secret, str(row))
        self.assertEqual(token.digest, digest_of(secret))
        self.assertIsNone(token.last_used_at)
        self.client_of("run").get("/api/v1/records")
        token.refresh_from_db()
        self.assertIsNotNone(token.last_used_at)
        with self.assertNumQueries(1):
            token.note_use()
            token.refresh_from_db()

    def test_names_that_evidence_may_not_bear(self) -> None:
        for name in ("site", "repository", "Ann", "a b", "", "x" * 41):
            with self.subTest(name), self.assertRaises(ValidationError):
                Token.issue(name, self.user, [], in_a_day())


class MassAssignmentTest(TestCase):
    """No field of any model can be written by naming it."""

    def setUp(self) -> None:
        runs.load_sample()
        runs.install_stand_in(self)
        secret = runs.token_of("ann", *Token.Scope.values)
        self.client = Client(headers={"Authorization": f"Bearer {secret}"})

    def fields(self) -> set[str]:
        models = (
            Record, Repro, Claim, Finding, Build, Run, Evidence, Token, User
        )  # fmt: skip
        return {field.name for model in models for field in model._meta.get_fields()}

    def writable(self) -> list[tuple[str, str, set[str]]]:
        """(operationId, address, what its body may name)."""
        found = []
        for name, method, path in operations():
            if method == "post":
                operation = api_schema.document()["paths"]
                (spec,) = [
                    item[method]
                    for item in operation.values()
                    if item.get(method, {}).get("operationId") == name
                ]
                sent = spec.get("requestBody", {"content": {}})["content"]
                ref = sent.get("application/json", {}).get("schema", {}).get("$ref")
                shape = api_schema.document()["components"]["schemas"].get(
                    (ref or "").rpartition("/")[2], {}
                )
                found.append((name, path, set(shape.get("properties", {}))))
        return found

    def test_no_field_of_a_model_sticks(self) -> None:
        run = runs.make_run(requester="address:127.0.0.1")
        before = Run.objects.filter(pk=run.pk).values().get()
        counted = [model.objects.count() for model in (Run, Evidence, Record, Token)]
        for operation, path, known in self.writable():
            path = path.replace(ABSENT, str(run.pk))
            unknown = sorted(self.fields() - known)
            for at in range(0, len(unknown), 20):
                names = unknown[at : at + 20]
                with self.subTest(operation, fields=names):
                    sound = {"record": "NAN-9001", "build": runs.SLUG}
                    body = {key: sound[key] for key in known & set(sound)}
                    body |= dict.fromkeys(names, "1")
                    response = self.client.post(
                        path, json.dumps(body), content_type="application/json"
                    )
                    self.assertIn(response.status_code, (400, 422))
                    if operation not in ("submit_evidence", "submit_capture"):
                        self.assertEqual(response.json()["code"], "unknown_parameter")
                        pointers = [
                            item["pointer"] for item in response.json()["errors"]
                        ]
                        self.assertEqual(pointers, [f"/{name}" for name in names])
        self.assertEqual(Run.objects.filter(pk=run.pk).values().get(), before)
        after = [model.objects.count() for model in (Run, Evidence, Record, Token)]
        self.assertEqual(after, counted)


class TokensCommandTest(TestCase):
    def call(self, *arguments: str) -> str:
        out = StringIO()
        call_command("tokens", *arguments, stdout=out)
        return out.getvalue()

    def test_a_token_is_made_listed_and_revoked(self) -> None:
        User.objects.create_user("ann")
        said = self.call("add", "ci", "--user", "ann", "--scope", "run", "--days", "7")
        secret = next(word for word in said.split() if word.startswith("dtn_"))
        self.assertEqual(Token.objects.get().digest, digest_of(secret))
        listed = self.call("list")
        self.assertIn("ci", listed)
        self.assertNotIn(secret, listed)
        client = Client(headers={"Authorization": f"Bearer {secret}"})
        self.assertEqual(client.get("/api/v1/records").status_code, 200)
        self.call("revoke", "ci")
        self.assertEqual(client.get("/api/v1/records").status_code, 401)

    def test_what_cannot_be_made(self) -> None:
        User.objects.create_user("ann")
        for arguments in (
            ("add", "ci", "--user", "nobody", "--scope", "run"),
            ("add", "Not a name", "--user", "ann", "--scope", "run"),
            ("add", "ci\n", "--user", "ann", "--scope", "run"),
            ("revoke", "ci"),
        ):
            with self.subTest(arguments), self.assertRaises(CommandError):
                self.call(*arguments)


class TokenAdminTest(TestCase):
    def setUp(self) -> None:
        self.admin = User.objects.create_superuser("root")
        self.client.force_login(self.admin)

    def test_a_token_is_looked_at_and_ended(self) -> None:
        end = timezone.now() + timedelta(days=1)
        token, secret = Token.issue("ci", self.admin, ["run"], end)
        place = f"/admin/runner/token/{token.pk}"
        shown = self.client.get(f"{place}/change/")
        self.assertContains(shown, token.start)
        self.assertNotContains(shown, secret)
        self.assertNotContains(shown, token.digest)
        self.client.post(f"{place}/delete/", {"post": "yes"})
        self.assertFalse(Token.objects.exists())
