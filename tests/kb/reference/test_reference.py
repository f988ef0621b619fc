"""The page of the API's documentation: complete, in both languages, and true."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

from django.conf import settings
from django.test import SimpleTestCase, TestCase
from django.utils.translation import gettext, override

from kb.reference.document import reference
from kb.reference.types import Type, type_of

OPENAPI = Path(settings.BASE_DIR, "docs", "openapi.json")
METHODS = ("get", "post", "put", "patch", "delete")
IDS = re.compile(r' id="([^"]+)"')
WITHIN = re.compile(r'href="#([^"]+)"')


class PageTest(TestCase):
    def setUp(self) -> None:
        self.pages = {
            lang: self.client.get(f"/{lang}/api/").text for lang in ("en", "zh")
        }

    def test_every_operation_and_shape_stands_on_it_once(self) -> None:
        operations = [one for group in reference().subjects for one in group.operations]
        paths = json.loads(OPENAPI.read_text())["paths"].values()
        described = [one for path in paths for one in path if one in METHODS]
        self.assertEqual(len(operations), len(described))
        names = [one.id for one in operations]
        names += [shape.name for shape in reference().shapes]
        for html in self.pages.values():
            ids = IDS.findall(html)
            self.assertEqual([ids.count(name) for name in names], [1] * len(names))
            self.assertLessEqual(set(WITHIN.findall(html)), set(ids))

    def test_commands_are_for_this_site_and_for_a_shell(self) -> None:
        self.assertNotIn("SITE", self.pages["en"])
        self.assertIn(
            "curl -s http://testserver/api/v1/records/NAN-0002", self.pages["en"]
        )
        for group in reference().subjects:
            for operation in group.operations:
                self.assertEqual(shlex.split(operation.example)[0], "curl")
                self.assertNotIn("{record_id}", operation.example)

    def test_problems_lead_to_their_pages(self) -> None:
        self.assertIn('href="/zh/problems/busy/"', self.pages["zh"])
        self.assertEqual(self.client.get("/zh/problems/busy/").status_code, 200)

    def test_every_foot_leads_to_it(self) -> None:
        self.assertIn('href="/en/api/"', self.client.get("/en/matrix/").text)


class TextTest(SimpleTestCase):
    def test_operations_and_their_parameters_are_said_in_chinese(self) -> None:
        found = reference()
        texts = [*found.intro]
        for group in found.subjects:
            for operation in group.operations:
                texts += [operation.summary, *operation.text]
                texts += [field.text for field in operation.fields if field.text]
        with override("zh-hans"):
            self.assertEqual([text for text in texts if gettext(text) == text], [])

    def test_types_are_said_in_few_words(self) -> None:
        run = {"$ref": "#/components/schemas/Run"}
        for schema, expected in [
            (run, Type("", "Run")),
            ({"type": "array", "items": run}, Type("list of", "Run")),
            ({"oneOf": [run, {"type": "null"}]}, Type("", "Run", "null")),
            ({"type": ["string", "null"]}, Type("string | null")),
            (
                {"type": "integer", "minimum": 1, "maximum": 20},
                Type("integer", "", "1–20"),
            ),
            ({"enum": ["cpu", None]}, Type("", choices=("cpu",))),
            ({"type": "array", "items": {}}, Type("list of any")),
            ({}, Type("any")),
        ]:
            self.assertEqual(type_of(schema), expected)
