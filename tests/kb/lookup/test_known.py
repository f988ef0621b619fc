"""What answers say of records is kept, and no longer than it is true."""

from __future__ import annotations

from unittest import mock

from django.db import connection
from django.test.utils import CaptureQueriesContext

from kb.choices import Publication
from kb.lookup import known
from kb.lookup.answer import look_up
from kb.models import Record
from kb.publishing import saving
from kb.search.index.generation import current_generation
from tests.kb.lookup.test_lookup import LOGS
from tests.support.findings import saw
from tests.support.records import FirstRecords

LOG = (LOGS / "lora-lost-grad.log").read_text()
ERROR = """\
/usr/lib/python3/dist-packages/torch/utils/checkpoint.py:87: UserWarning: None of the \
inputs have requires_grad=True. Gradients will be None
"""
TABLES = ("kb_record", "kb_repro", "kb_finding", "kb_testedbuild")


class KnownTests(FirstRecords):
    def test_a_second_look_up_reads_nothing_of_records_and_findings(self) -> None:
        look_up(LOG)
        with CaptureQueriesContext(connection) as asked:
            look_up(LOG)
        read = [table for query in asked for table in TABLES if table in query["sql"]]
        self.assertEqual(read, [])

    def test_a_finding_shows_in_the_next_answer(self) -> None:
        entry = look_up(LOG)["candidates"][0]["workaround"]
        self.assertEqual(entry["status"], "untested")
        saw("NAN-0002", f"workaround_{entry['name']}", "clean")
        entry = look_up(LOG)["candidates"][0]["workaround"]
        self.assertEqual(entry["status"], "verified")

    def test_the_line_is_of_the_framework_that_the_paste_names(self) -> None:
        rows = {
            # The log is of LLaMA-Factory, which is built on transformers.
            (LOG, "transformers==4.57.6"): "llamafactory",
            (ERROR, "torch==2.13.0"): None,
            (ERROR, "torch==2.13.0\ntransformers==4.57.6"): "transformers",
            (ERROR, "torch==2.13.0\ntrl==0.24.0"): "transformers",
            # Its Trainer has no such setting.
            (ERROR, "torch==2.13.0\nlightning==2.6.6"): None,
        }
        for (log, env), framework in rows.items():
            with self.subTest(env):
                found = look_up(log, env)["candidates"][0]
                self.assertEqual(found["record"], "NAN-0002")
                line = found["workaround"]["line"]
                self.assertEqual(line and line["framework"], framework)

    def test_no_line_stands_before_what_was_verified(self) -> None:
        saw("NAN-0002", "workaround_input_requires_grad", "clean")
        entry = look_up(LOG)["candidates"][0]["workaround"]
        self.assertEqual(entry["name"], "input_requires_grad")
        self.assertEqual(entry["line"]["framework"], "transformers")
        self.assertIsNone(entry["line"]["evidence"])

    def test_a_record_that_changed_shows_in_the_next_answer(self) -> None:
        look_up(LOG)
        record = Record.objects.get(id="NAN-0002")
        record.title_en = "Another title"
        saving.save(record)
        self.assertEqual(look_up(LOG)["candidates"][0]["title"]["en"], "Another title")
        record.publication = Publication.DRAFT
        saving.save(record)
        found = {match["record"] for match in look_up(LOG)["candidates"]}
        self.assertNotIn("NAN-0002", found)

    def test_an_answer_changes_nothing_for_the_next_one(self) -> None:
        first = look_up(LOG, "torch==2.4.0+cpu")
        first["candidates"][0]["because"].clear()
        first["candidates"][0]["title"].clear()
        again = look_up(LOG, "torch==2.4.0+cpu")["candidates"][0]
        self.assertTrue(again["because"])
        self.assertTrue(again["title"])

    def test_few_records_are_kept_and_none_is_missing(self) -> None:
        ids = list(Record.objects.order_by("pk").values_list("pk", flat=True))
        generation = current_generation()
        with mock.patch.object(known, "KEPT", 2):
            for pk in ids:
                self.assertEqual(set(known.known([pk], generation)), {pk})
            self.assertLessEqual(len(known.kept_of(generation)), 2)
            self.assertEqual(set(known.known(ids, generation)), set(ids))

    def test_what_ran_is_read_once_for_all(self) -> None:
        ids = list(Record.objects.order_by("pk").values_list("pk", flat=True)[:5])
        saw(ids[1], "trigger", "bug")
        saw(ids[3], "trigger", "bug")
        with self.assertNumQueries(3):
            found = known.read(ids)
        with self.assertNumQueries(0):
            rows = [row for item in found.values() for row in item.findings]
        self.assertEqual([row.record_id for row in rows], [ids[1], ids[3]])
