"""The index in memory: what the records hold, whoever changed what of them."""

import threading
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.test import TestCase, TransactionTestCase, skipUnlessDBFeature, tag

from kb.models import Record, SearchDocument, SearchState
from kb.publishing import saving
from kb.publishing.loading import load_records
from kb.search.index import writer
from kb.search.index.documents import Document, documents_of
from kb.search.index.inverted import NEAREST, Index, current_index
from runner.evidence.repros import inspect
from tests.support import loaded
from tests.support.made_records import make_records
from tests.support.records import save_all
from tests.support.runs import read_sample
from tests.support.words import find


def ids(query: str) -> list[str]:
    return [hit.record.id for hit in find(query, "en")]


class IndexCase(TestCase):
    """The sample record and twenty others."""

    @classmethod
    def setUpTestData(cls) -> None:
        read_sample()
        save_all(make_records(20))

    def assert_right(self) -> None:
        """What changed step by step is what is read of the records at once."""
        index = current_index()
        rows = Record.objects.visible()
        self.assertEqual(
            index.documents, {one.record: one for one in documents_of(rows)}
        )
        anew = Index().brought_to(index.generation)
        self.assertEqual(index.postings, anew.postings)
        self.assertEqual(index.average_length, anew.average_length)

    def zebra(self) -> Record:
        record = Record.objects.get(pk="NAN-9001")
        record.title_en = "Zebra crossing"
        saving.save(record)
        return record


class WriteTests(IndexCase):
    def test_a_load_and_a_bulk_creation_are_found(self) -> None:
        self.assertEqual(SearchDocument.objects.count(), 21)
        self.assertEqual(ids("strides differ sample"), ["NAN-9001"])
        self.assert_right()

    def test_a_saved_record_is_read_anew_and_no_other(self) -> None:
        self.assertEqual(ids("zebra"), [])
        before = current_index()
        record = self.zebra()
        self.assertEqual(ids("zebra"), ["NAN-9001"])
        others = before.documents.keys() - {record.pk}
        index = current_index()
        for pk in others:
            self.assertIs(index.documents[pk], before.documents[pk])
        record.title_en = "Okapi"
        saving.save(record)
        self.assertEqual((ids("zebra"), ids("okapi")), ([], ["NAN-9001"]))
        self.assert_right()

    def test_a_draft_is_not_found(self) -> None:
        record = self.zebra()
        record.publication = "draft"
        saving.save(record)
        self.assertEqual(ids("zebra"), [])
        self.assert_right()

    def test_a_deleted_record_is_gone(self) -> None:
        record = self.zebra()
        before = current_index()
        record.delete()
        self.assertIsNot(current_index(), before)
        self.assertEqual(ids("zebra"), [])
        self.assert_right()
        Record.objects.filter(pk__in=["NAN-1001", "NAN-1002"]).delete()
        self.assertEqual(current_index().count, 18)
        self.assert_right()

    def test_what_is_rolled_back_was_never_found(self) -> None:
        before = current_index().generation
        with self.assertRaises(ZeroDivisionError), transaction.atomic():
            self.zebra()
            self.assertEqual(ids("zebra"), ["NAN-9001"])
            # What is remembered of this state must not be believed of a later one.
            self.assertEqual(ids("okapi"), [])
            raise ZeroDivisionError
        self.assertEqual(ids("zebra"), [])
        self.assertEqual(current_index().generation, before)
        # Another change must not be taken for the one rolled back.
        with transaction.atomic():
            record = Record.objects.get(pk="NAN-1001")
            record.title_en = "Okapi"
            saving.save(record)
        self.assertEqual((ids("okapi"), ids("zebra")), (["NAN-1001"], []))
        self.assert_right()

    def test_updates_behind_the_index_are_found_at_the_next_load(self) -> None:
        Record.objects.filter(pk="NAN-1001").update(publication="withdrawn")
        Record.objects.filter(pk="NAN-1002").update(publication="draft")
        SearchDocument.objects.filter(record="NAN-1003").update(algorithm=0)
        SearchDocument.objects.filter(record="NAN-1004").delete()
        self.assertEqual(writer.bring_up_to_date(), 4)
        self.assertEqual(SearchDocument.objects.count(), 19)
        self.assertEqual(writer.bring_up_to_date(), 0)
        self.assert_right()

    def test_hidden_records_are_not_shown_even_when_indexed(self) -> None:
        self.zebra()
        Record.objects.filter(pk="NAN-9001").update(publication="withdrawn")
        self.assertEqual(ids("zebra"), [])

    def test_a_record_of_odd_characters_is_found(self) -> None:
        record = Record.objects.get(pk="NAN-1001")
        record.title_en = "'; DROP -- \\ \" * : & | ! ( ) <-> ς ß İİİ 鿎鿎 ½"
        record.title_zh = "步" * 150 + "İ" * 50
        record.symptom_en = "x" * 5000 + " a" * 300 + " " + "İ" * 300
        record.signatures = [
            {"kind": "code", "text": "y" * 3000},
            {"kind": "message", "text": "RuntimeError: " + "İ" * 300},
        ]
        saving.save(record)
        for query in ("鿎鿎", "步步", "ß", "y" * 100):
            ids(query)
        self.assertEqual(ids("鿎鿎"), ["NAN-1001"])
        found = current_index().with_keys([f"word:{'y' * 3000}"])
        self.assertEqual([document.record for document in found], ["NAN-1001"])
        self.assert_right()


class AskTests(IndexCase):
    def test_frequencies(self) -> None:
        index = current_index()
        rows = Record.objects.all()
        found = documents_of(rows)
        with_word = [one for one in found if "overflow" in one.weights]
        self.assertEqual(index.frequency("overflow"), len(with_word))
        self.assertEqual(index.count, 21)
        self.assertEqual(index.frequency("no_such_token"), 0)
        self.assertGreater(index.idf("no_such_token"), index.idf("overflow"))
        # Words common to all error texts say less.
        self.assertGreater(index.rarity(5), 0)
        self.assertLess(index.idf("tensor"), index.rarity(0))

    def test_what_a_line_for_a_framework_rests_on_tells_nothing(self) -> None:
        record = Record.objects.get(pk="NAN-1005")
        line = {"apply": "Trainer(okapi=True)", "source": "args"}
        record.workarounds = [
            {"name": "w", "apply": "", "lines": {"transformers": line}}
        ]
        record.sources = [
            {"id": "args", "kind": "docs", "title": "ZebraArguments"},
            {"id": "report", "kind": "report", "title": "QuaggaError"},
        ]
        for name, called in (("repro", "logsumexp"), ("repro_transformers", "bmm")):
            record.repros.create(name=name, source=f"torch.{called}(x)")
        weights = documents_of([record])[0].weights
        self.assertLessEqual({"quaggaerror", "op:logsumexp"}, weights.keys())
        self.assertFalse({"zebraarguments", "op:bmm"} & weights.keys())

    def test_the_beginning_of_a_token(self) -> None:
        index = current_index()
        whole = {r for t in index.vocabulary if t[:3] == "gra" for r in index.having(t)}
        self.assertTrue(whole)
        self.assertEqual(index.having("gra*"), sorted(whole))
        self.assertEqual(index.having("zzz*"), [])
        titled = set(index.having("gra*", "title"))
        self.assertTrue(titled < whole)

    def test_a_look_at_the_same_state_reads_the_counters_alone(self) -> None:
        current_index()
        with self.assertNumQueries(1):
            current_index()

    def test_nearest_by_the_words_of_messages(self) -> None:
        record = Record.objects.get(pk="NAN-1005")
        record.signatures = [{"kind": "message", "text": "ZebraError: okapi quagga"}]
        record.root_cause_en = "giraffe"
        saving.save(record)
        index = current_index()
        weights = {"okapi": 2.0, "quagga": 2.0, "gradient": 1.0}
        self.assertEqual(index.nearest(weights)[0].record, "NAN-1005")
        self.assertEqual(index.nearest({"giraffe": 1.0}), [])
        self.assertLessEqual(len(index.nearest({"gradient": 1.0})), NEAREST)

    def test_sure_keys_come_first(self) -> None:
        for pk, signatures in (
            ("NAN-1001", [{"kind": "facet", "text": "loss_nan"}]),
            ("NAN-1002", [{"kind": "code", "text": "ZEBRA_MODE=1"}]),
        ):
            record = Record.objects.get(pk=pk)
            record.signatures = signatures
            saving.save(record)
        index = current_index()
        keys = [*index.documents["NAN-1002"].keys, "facet:loss_nan", "word:none"]
        found = [document.record for document in index.with_keys(keys)]
        self.assertEqual(found, ["NAN-1002", "NAN-1001"])
        self.assertEqual(index.with_keys([]), [])

    def test_an_empty_index(self) -> None:
        Record.objects.all().delete()
        index = current_index()
        self.assertEqual((index.count, index.average_length), (0, 1.0))
        self.assertEqual(index.nearest({"nan": 1.0}), [])
        self.assertEqual(ids("nan"), [])
        SearchState.objects.all().delete()
        self.assertEqual(ids("nan"), [])
        read_sample()
        self.assertEqual(ids("sample"), ["NAN-9001"])
        self.assert_right()

    def test_weights_tell_what_stands_where(self) -> None:
        document = current_index().documents[self.zebra().pk]
        document = current_index().documents["NAN-9001"]
        self.assertGreaterEqual(document.weights["zebra"], 3)
        self.assertNotIn("okapi", document.weights)

    def test_a_document_survives_packing(self) -> None:
        for document in current_index().documents.values():
            again = Document.unpack(document.record, document.pack())
            self.assertEqual(again, document)


@tag("any_database")
class LoadTests(TestCase):
    def test_a_load_reads_what_no_document_is_kept_of(self) -> None:
        loaded.shipped()
        SearchDocument.objects.all().delete()
        self.assertEqual(ids("use_reentrant"), [])
        load_records(settings.ISSUES_DIR, inspect=inspect)
        self.assertIn("NAN-0002", ids("use_reentrant"))


class FlushTests(TransactionTestCase):
    """The flush after other tests of this kind leaves nothing of the index behind."""

    def test_once(self) -> None:
        read_sample()
        self.assertEqual(ids("sample"), ["NAN-9001"])

    def test_twice(self) -> None:
        self.assertEqual(ids("sample"), [])
        read_sample()
        self.assertEqual(ids("sample"), ["NAN-9001"])


@skipUnlessDBFeature("test_db_allows_multiple_connections")
class ConcurrentTests(TransactionTestCase):
    def test_writers_leave_an_index_that_is_right(self) -> None:
        save_all(make_records(8))
        errors: list[Any] = []

        def edit(numbers: range) -> None:
            try:
                for number in numbers:
                    with transaction.atomic():
                        # Rows are locked one at a time, so in any order.
                        rows = Record.objects.select_for_update()
                        record = rows.get(pk=f"NAN-{1000 + number}")
                        record.title_en = f"zebra{number} {record.title_en}"[:200]
                        saving.save(record)
                        ids("zebra")
            except Exception as error:  # noqa: BLE001 - asserted below
                errors.append(error)
            finally:
                connection.close()

        orders = (range(8), range(7, -1, -1), range(0, 8, 2))
        threads = [threading.Thread(target=edit, args=(order,)) for order in orders]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(errors, [])
        self.assertEqual(len(ids("zebra3")), 1)
        index = current_index()
        self.assertEqual(
            index.documents,
            {one.record: one for one in documents_of(Record.objects.visible())},
        )
