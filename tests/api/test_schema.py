"""OpenAPI: the document is valid, its page complete, and what it says happens."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import quote

from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client, SimpleTestCase, TestCase, tag
from django.utils.translation import gettext, override
from drf_spectacular.validation import validate_schema
from jsonschema import Draft202012Validator

from config import api_page, api_schema
from kb.models import Record, Repro
from kb.problems import KINDS, Kind
from runner.api import rules
from runner.api.runs import RUN_ID
from runner.models import Build, Capture
from tests.support import loaded, runs

RECORD, BUILD = "NAN-0002", "2.13.0-cpu"
SHIPPED = "checkpoint-reentrant-lost-grad"


def operations() -> dict[str, tuple[str, str, dict[str, Any]]]:
    """operationId -> (path, method, operation) of the served document."""
    return {
        found["operationId"]: (path, method, found)
        for path, methods in api_schema.document()["paths"].items()
        for method, found in methods.items()
    }


def closed(components: dict[str, Any]) -> dict[str, Any]:
    """The shapes, with no key besides those that they name."""
    return {
        name: {**shape, "additionalProperties": False}
        if "properties" in shape
        else shape
        for name, shape in components["schemas"].items()
    }


class DocumentTest(SimpleTestCase):
    def test_the_document_is_openapi(self) -> None:
        served = self.client.get("/api/v1/openapi.json").json()
        validate_schema(served)  # type: ignore[no-untyped-call]
        self.assertEqual(served["paths"], api_schema.document()["paths"])

    def test_the_page_says_every_operation_once_in_both_languages(self) -> None:
        for lang, code in (("en", "en"), ("zh", "zh-hans")):
            page = self.client.get(f"/{lang}/api/").text
            self.assertEqual(len(api_page.operations()), len(operations()))
            for one in api_page.operations():
                with self.subTest(one.path, lang=lang), override(code):
                    term = f"<dt>{one.method} {one.path}</dt>"
                    self.assertEqual(page.count(term), 1)
                    self.assertIn(one.said(), page)
                    said_in_english = gettext(one.summary) == one.summary
                    self.assertEqual(said_in_english, lang == "en")

    def test_every_foot_leads_to_the_page(self) -> None:
        self.assertIn('href="/en/api/"', self.client.get("/en/login/").text)

    def test_every_operation_has_a_rule_and_every_rule_an_operation(self) -> None:
        # What agents use (MCP) has a rule as well and describes itself.
        self.assertEqual({*operations(), "use_tools"}, set(rules.RULES))

    def test_every_operation_says_what_it_answers(self) -> None:
        for name, (_path, _method, found) in operations().items():
            with self.subTest(name):
                self.assertTrue(found["summary"])
                for status, answer in found["responses"].items():
                    kinds = list(answer.get("content", {}))
                    if status in ("302", "304"):
                        self.assertEqual(kinds, [])
                    elif int(status) >= 400:
                        plain = ["text/plain"] if status == "414" else []
                        self.assertEqual(kinds, ["application/problem+json", *plain])
                    else:
                        self.assertEqual(len(kinds), 1)

    def test_each_read_may_be_unchanged_and_each_problem_is_named_by_its_code(
        self,
    ) -> None:
        for name, (_path, method, found) in operations().items():
            with self.subTest(name):
                self.assertEqual("304" in found["responses"], method == "get")
                for status, answer in found["responses"].items():
                    if int(status) >= 400:
                        codes = re.findall("`(.*?)`", answer["description"])
                        self.assertTrue(codes)
                        self.assertLessEqual(set(codes), set(KINDS))

    def test_a_body_is_one_shape_from_which_a_client_can_be_made(self) -> None:
        for name, shape in api_schema.document()["components"]["schemas"].items():
            with self.subTest(name):
                self.assertNotIn("anyOf", shape)

    def test_a_word_that_may_be_null_is_one_type_to_a_client(self) -> None:
        served = json.dumps(api_schema.document())
        self.assertNotIn(", null]", served)
        shapes = api_schema.document()["components"]["schemas"]
        words = {"type": "string", "enum": ["en", "zh"]}
        for name in ("LookupRequest", "AffectedRequest"):
            lang = shapes[name]["properties"]["lang"]
            self.assertEqual(lang["anyOf"], [words, {"type": "null"}])

    def test_every_problem_has_a_page_in_both_languages(self) -> None:
        for code, kind in KINDS.items():
            for lang in ("en", "zh"):
                with self.subTest(code, lang=lang):
                    page = self.client.get(f"/{lang}/problems/{Kind.slug(code)}/")
                    self.assertContains(page, str(kind.status))

    def test_it_names_licence_tags_and_a_server(self) -> None:
        document = api_schema.document()
        self.assertEqual(document["info"]["license"]["identifier"], "Apache-2.0")
        self.assertEqual(document["servers"][0]["url"], "/")
        used = {one["tags"][0] for _path, _method, one in operations().values()}
        self.assertEqual({tag["name"] for tag in document["tags"]}, used)

    def test_no_shape_is_left_open_by_accident(self) -> None:
        for name, shape in api_schema.document()["components"]["schemas"].items():
            with self.subTest(name):
                self.assertTrue(shape.get("properties") or name in ("Text", "NoBody"))


class RefusalTest(TestCase):
    def test_what_it_calls_refused_is_refused(self) -> None:
        for path, body, pointer in (
            ("lookup", {"log": "nan", "lag": 1}, "/lag"),
            ("runs", {"record": "NAN-0001", "again": 0}, "/again"),
            ("runs", {"record": " "}, "/record"),
        ):
            with self.subTest(path, body=body):
                post = api_schema.document()["paths"][f"/api/v1/{path}"]["post"]
                shape = post["requestBody"]["content"]["application/json"]["schema"]
                root = {"components": api_schema.document()["components"], **shape}
                check = Draft202012Validator(root)
                self.assertFalse(check.is_valid(body))
                response = self.client.post(
                    f"/api/v1/{path}", body, content_type="application/json"
                )
                self.assertEqual(response.status_code, 400)
                pointers = [error["pointer"] for error in response.json()["errors"]]
                self.assertEqual(pointers, [pointer])
        unknown = self.client.get("/api/v1/records?build=nowhere")
        self.assertEqual(unknown.status_code, 404)
        self.assertEqual(unknown.json()["code"], "unknown_build")


@tag("long")
class ExampleTest(TestCase):
    """Each operation is called as its examples say, on the shipped records."""

    @classmethod
    def setUpTestData(cls) -> None:
        loaded.shipped_with_evidence()
        cls.secret = runs.token_of("ci", "run", "evidence")
        runs.make_worker("w@here", host="here")

    def setUp(self) -> None:
        Build.objects.get_or_create(slug=BUILD, defaults={"raw": "2.13.0+cpu"})
        runs.install_stand_in(self, slug=BUILD)
        assert RUN_ID.examples
        self.run_id = RUN_ID.examples[0].value
        repro = Repro.objects.get(record=RECORD, name="repro")
        run = runs.make_run(
            repro,
            id=self.run_id,
            build=Build.objects.get(slug=BUILD),
            requester=f"user:{User.objects.get(username='ann').pk}",
        )
        runs.write_log(run, "")
        runs.make_sweep(
            id=self.run_id,
            record=repro.record,
            build=run.build,
            requester=run.requester,
        )
        Capture.objects.create(id=self.run_id, text="{}", digest="")
        self.client = Client(headers={"Authorization": f"Bearer {self.secret}"})
        components = {"schemas": closed(api_schema.document()["components"])}
        self.root = {"components": components}

    def assert_is(self, shape: dict[str, Any], body: Any) -> None:
        errors = Draft202012Validator({**self.root, **shape}).iter_errors(body)
        said = [
            f"{list(found.absolute_path)}: {found.message[:200]}" for found in errors
        ]
        self.assertEqual(said, [])

    def path_of(self, path: str, operation: dict[str, Any]) -> str:
        """With the example of each of its parameters."""
        for parameter in operation.get("parameters", []):
            if parameter["in"] == "path":
                (example,) = parameter["examples"].values()
                path = path.replace(
                    f"{{{parameter['name']}}}", quote(example["value"], safe=":")
                )
        return path

    def headers_of(self, operation: dict[str, Any]) -> dict[str, str]:
        return {
            parameter["name"]: next(iter(parameter["examples"].values()))["value"]
            for parameter in operation.get("parameters", [])
            # A signature is of one evidence and one key: test_signatures.
            if parameter["in"] == "header" and "examples" in parameter
        }

    def bodies_of(self, name: str, operation: dict[str, Any]) -> list[Any]:
        if name == "submit_evidence":
            now = set(Repro.objects.values_list("digest", flat=True))
            folder = settings.ISSUES_DIR / SHIPPED / "evidence"
            shipped = [json.loads(path.read_text()) for path in folder.iterdir()]
            sent = [body for body in shipped if body["repro"]["digest"] in now]
            self.assertTrue(sent, "no evidence of the repro as it is now")
            return sent
        sent = operation.get("requestBody", {}).get("content", {})
        examples = sent.get("application/json", {}).get("examples", {})
        return [example["value"] for example in examples.values()] or [None]

    def assert_answered(self, operation: dict[str, Any], response: Any) -> None:
        """With a documented status, of the documented kind and shape."""
        if response.status_code == 302 and "302" in operation["responses"]:
            response = self.client.get(response["Location"])
        self.assertLess(response.status_code, 300, response.content[:500])
        content = operation["responses"][str(response.status_code)]["content"]
        kind = response["Content-Type"].partition(";")[0]
        self.assertIn(kind, content)
        if kind == "application/json":
            self.assert_is(content[kind]["schema"], response.json())

    def test_every_operation_is_answered_as_described(self) -> None:
        # What ends what the others look at comes last.
        ends = ("cancel_", "delete_")
        ordered = sorted(
            operations().items(), key=lambda item: item[0].startswith(ends)
        )
        for name, (path, method, operation) in ordered:
            for body in self.bodies_of(name, operation):
                with self.subTest(name):
                    response = self.client.generic(
                        method.upper(),
                        self.path_of(path, operation),
                        json.dumps(body) if body is not None else "",
                        content_type="application/json",
                        headers=self.headers_of(operation),
                    )
                    self.assert_answered(operation, response)

    def test_one_language_keeps_the_shape(self) -> None:
        for name, (path, method, operation) in operations().items():
            takes = {item["name"] for item in operation.get("parameters", [])}
            if method == "get" and "lang" in takes:
                with self.subTest(name):
                    address = f"{self.path_of(path, operation)}?lang=zh"
                    response = self.client.get(address)
                    self.assert_answered(operation, response)
                    self.assertEqual(response.json()["lang_used"], "zh")

    def test_each_shipped_record_has_the_shape(self) -> None:
        _path, _method, operation = operations()["get_record"]
        for record in Record.objects.visible():
            with self.subTest(record.id):
                response = self.client.get(f"/api/v1/records/{record.id}")
                self.assert_answered(operation, response)

    def test_evidence_of_each_record_has_the_shape(self) -> None:
        _path, _method, operation = operations()["get_evidence"]
        shape = operation["responses"]["200"]["content"]["application/json"]["schema"]
        for folder in sorted(settings.ISSUES_DIR.glob("*/evidence")):
            for path in sorted(folder.iterdir())[:1]:
                with self.subTest(f"{folder.parent.name} {path.name}"):
                    self.assert_is(shape, json.loads(path.read_text()))

    def test_a_key_that_is_not_described_fails(self) -> None:
        body = self.client.get(f"/api/v1/records/{RECORD}").json()
        with self.assertRaises(AssertionError):
            self.assert_is(
                {"$ref": "#/components/schemas/Record"}, {**body, "added": 1}
            )
