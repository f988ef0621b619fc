"""The search index: written with the record, checked, and equal on every database."""

import io
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import skipUnless

from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.test import (
    TestCase,
    TransactionTestCase,
    skipUnlessDBFeature,
    tag,
)

from kb.models import (
    Record,
    SearchDocument,
    SearchKey,
    SearchRemoved,
    SearchState,
    SearchTerm,
)
from kb.publishing import editing, saving
from kb.publishing.loading import load_records
from kb.search.index import writer
from kb.search.index.documents import ALGORITHM, Terms, contents_of
from kb.search.index.sqlite import TABLES
from kb.search.index.store import NEAREST, current_engine, current_store
from kb.search.reading.tokens import analyse
from runner.evidence.repros import inspect
from tests.support import loaded
from tests.support.records import save_all
from tests.support.runs import read_sample
from tests.support.search_answers import make_records
from tests.support.words import find

ROOT = Path(settings.BASE_DIR)
POSTGRES = "postgres://postgres@127.0.0.1/doesitnan_search"


def ids(query: str) -> list[str]:
    return [hit.record.id for hit in find(query, "en")]


class IndexCase(TestCase):
    """The sample record and twenty others."""

    @classmethod
    def setUpTestData(cls) -> None:
        read_sample()
        save_all(make_records(20))

    def assert_right(self) -> None:
        self.assertEqual(list(writer.problems()), [])

    def zebra(self) -> Record:
        record = Record.objects.get(pk="NAN-9001")
        record.title_en = "Zebra crossing"
        saving.save(record)
        return record


class WriteTests(IndexCase):
    def test_a_load_and_a_bulk_creation_are_indexed(self) -> None:
        self.assertEqual(SearchDocument.objects.count(), 21)
        self.assertEqual(ids("strides differ sample"), ["NAN-9001"])
        self.assert_right()

    def test_a_saved_record_is_indexed_anew(self) -> None:
        self.assertEqual(ids("zebra"), [])
        record = self.zebra()
        self.assertEqual(ids("zebra"), ["NAN-9001"])
        record.title_en = "Okapi"
        saving.save(record)
        self.assertEqual(ids("zebra"), [])
        self.assertEqual(ids("okapi"), ["NAN-9001"])
        self.assertFalse(SearchRemoved.objects.exists())
        self.assert_right()

    def test_an_edit_on_the_site_is_indexed(self) -> None:
        record = Record.objects.get(pk="NAN-9001")
        record.summary_en = "A zebra"
        self.assertTrue(editing.save_edited(record))
        self.assertEqual(ids("zebra"), ["NAN-9001"])
        record.publication = "withdrawn"
        record.withdrawn_because_en, record.withdrawn_because_zh = "Wrong.", "有误。"
        self.assertTrue(editing.save_edited(record))
        self.assertEqual(ids("zebra"), [])
        self.assertFalse(SearchDocument.objects.filter(record=record).exists())
        self.assert_right()

    def test_a_draft_is_not_indexed(self) -> None:
        record = self.zebra()
        record.publication = "draft"
        saving.save(record)
        self.assertEqual(ids("zebra"), [])
        self.assert_right()

    def test_a_deleted_record_is_gone(self) -> None:
        record = self.zebra()
        before = current_store().generation
        record.delete()
        self.assertNotEqual(current_store().generation, before)
        self.assertEqual(ids("zebra"), [])
        # The next writer clears up.
        self.assertEqual(SearchRemoved.objects.count(), 1)
        self.assert_right()
        Record.objects.filter(pk__in=["NAN-1001", "NAN-1002"]).delete()
        saving.save(Record.objects.get(pk="NAN-1003"))
        self.assertFalse(SearchRemoved.objects.exists())
        self.assertEqual(SearchState.objects.get().documents, 18)
        self.assert_right()

    def test_rows_deleted_behind_djangos_back_are_gone(self) -> None:
        with connection.cursor() as cursor:
            cursor.execute("DELETE FROM kb_searchkey")
            cursor.execute("DELETE FROM kb_searchdocument")
        self.assertEqual(ids("gradient"), [])
        self.assertEqual(current_store().nearest({"gradient": 1.0}), [])
        self.assertEqual(writer.bring_up_to_date(), 21)
        self.assertTrue(ids("gradient"))
        self.assert_right()

    def test_what_is_rolled_back_was_never_indexed(self) -> None:
        before = current_store().generation
        with self.assertRaises(ZeroDivisionError), transaction.atomic():
            self.zebra()
            self.assertEqual(ids("zebra"), ["NAN-9001"])
            # What is remembered of this state must not be believed of a later one.
            self.assertEqual(ids("okapi"), [])
            raise ZeroDivisionError
        self.assertEqual(ids("zebra"), [])
        self.assertEqual(current_store().generation, before)
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
        self.assertNotEqual(list(writer.problems()), [])
        self.assertEqual(writer.bring_up_to_date(), 4)
        self.assertEqual(SearchDocument.objects.count(), 19)
        self.assertEqual(writer.bring_up_to_date(), 0)
        self.assert_right()

    def test_hidden_records_are_not_shown_even_when_indexed(self) -> None:
        self.zebra()
        Record.objects.filter(pk="NAN-9001").update(publication="withdrawn")
        self.assertEqual(ids("zebra"), [])

    def test_terms_survive_packing(self) -> None:
        held = {7: 3, 2: 1, 100_000: 900, 65_536: 255, 5: 1}
        terms = Terms.unpack(Terms(held, frozenset({100_000, 5})).pack())
        self.assertEqual(terms.weights, held | {100_000: 255})
        self.assertEqual(terms.title, {100_000, 5})
        self.assertEqual(Terms.unpack(Terms({}, frozenset()).pack()).weights, {})

    def test_a_record_of_odd_characters_is_indexed(self) -> None:
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
        store = current_store()
        key = f"word:{'y' * 3000}"
        self.assertEqual([d.record for d in store.with_keys([key])], ["NAN-1001"])


class CheckTests(IndexCase):
    """`index_records --check` sees what is wrong, and `index_records` repairs it."""

    @contextmanager
    def broken(self, expected: str) -> Iterator[None]:
        self.assert_right()
        yield
        with self.assertRaises(CommandError) as caught:
            call_command("index_records", "--check", stdout=io.StringIO())
        self.assertIn(expected, str(caught.exception))
        out = io.StringIO()
        call_command("index_records", stdout=out)
        self.assertIn("21 records", out.getvalue())
        call_command("index_records", "--check", stdout=out)
        self.assert_right()

    def test_a_changed_record(self) -> None:
        with self.broken("NAN-9001 has changed since it was indexed"):
            Record.objects.filter(pk="NAN-9001").update(title_en="Zebra")

    def test_a_missing_record(self) -> None:
        with self.broken("NAN-9001 is not in the index"):
            SearchDocument.objects.filter(record="NAN-9001").delete()

    def test_a_key_that_is_missing(self) -> None:
        with self.broken("NAN-9001 has changed since it was indexed"):
            SearchKey.objects.filter(document__record="NAN-9001").delete()

    def test_wrong_counts(self) -> None:
        with self.broken("the count of 'gradient' is wrong"):
            SearchTerm.objects.filter(token="gradient").update(documents=1)

    def test_wrong_totals(self) -> None:
        with self.broken("the totals are wrong"):
            SearchState.objects.update(documents=7)

    def test_words_that_the_full_text_index_lost(self) -> None:
        with self.broken("other words in the index (sign)"):
            self.lose_signatures()

    def lose_signatures(self) -> None:
        row = SearchDocument.objects.get(record="NAN-9001")
        with connection.cursor() as cursor:
            if connection.vendor == "postgresql":
                cursor.execute(
                    "UPDATE kb_searchdocument SET sign_vector = NULL WHERE id = %s",
                    [row.pk],
                )
                return
            tokens = contents_of(row.record).column("sign")
            cursor.execute(
                "INSERT INTO kb_searchsign (kb_searchsign, rowid, tokens) "
                "VALUES ('delete', %s, %s)",
                [row.pk, " ".join(sorted(tokens))],
            )

    def test_rebuilding_changes_no_answer(self) -> None:
        queries = ("gradient", "梯度", "bf16 mask", "损失", "use_reentrant")
        before = {query: ids(query) for query in queries}
        self.assertTrue(all(before.values()))
        writer.rebuild()
        self.assertEqual({query: ids(query) for query in queries}, before)
        self.assertEqual(
            set(SearchDocument.objects.values_list("algorithm", flat=True)), {ALGORITHM}
        )

    @skipUnless(connection.vendor == "sqlite", "PostgreSQL has one index of each kind")
    def test_the_index_lies_in_few_pieces_also_after_it_was_emptied(self) -> None:
        writer.rebuild()
        with connection.cursor() as cursor:
            for table in TABLES.values():
                cursor.execute(f"SELECT v FROM {table}_config WHERE k = 'automerge'")
                self.assertEqual(cursor.fetchone(), (2,))


class StoreTests(IndexCase):
    def test_counts(self) -> None:
        store = current_store()
        rows = Record.objects.all()
        with_word = [row for row in rows if "overflow" in contents_of(row).weights]
        self.assertEqual(store.term("overflow").documents, len(with_word))
        self.assertEqual(store.count, 21)
        self.assertEqual(store.term("no_such_token"), (0, 0, 0))
        self.assertGreater(store.idf("no_such_token"), store.idf("overflow"))
        # Words common to all error texts say less.
        self.assertGreater(store.rarity(5), 0)
        self.assertLess(store.idf("tensor"), store.rarity(0))

    def test_counts_are_read_once(self) -> None:
        store = current_store()
        tokens = [f"token{n}" for n in range(3000)]
        with self.assertNumQueries(1):
            store.prefetch(tokens)
            store.prefetch(tokens)
            for token in tokens:
                store.idf(token)
        with self.assertNumQueries(1):
            current_store().prefetch(tokens)

    def test_postings(self) -> None:
        engine = current_engine()
        titled = engine.postings(["zebra", "overflow"], "title")
        self.assertEqual(titled["zebra"], [])
        rows = SearchDocument.objects.order_by("id")
        expected = {
            row.pk for row in rows if "overflow" in contents_of(row.record).title
        }
        self.assertEqual(set(titled["overflow"]), expected)
        whole = engine.postings(["overflow", "梯*"], "any")
        self.assertEqual(whole["overflow"], sorted(whole["overflow"]))
        self.assertGreater(len(whole["overflow"]), len(expected))
        among = engine.postings(["overflow"], "any", ["mask", "masks"])["overflow"]
        masked = engine.postings(["mask", "masks"], "any")
        self.assertEqual(
            set(among), set(whole["overflow"]) & {*masked["mask"], *masked["masks"]}
        )

    def test_tokens_are_literal(self) -> None:
        engine = current_engine()
        # Whatever is in it: a token never has a space.
        odd = ['a"b', "a'b", 'x"OR"mask', "a\\", "mask'|'mask", "a&b", ":", "(", "-"]
        for column in ("any", "title", "sign"):
            found = engine.postings([*odd, "mask"], column, ["mask", *odd])
            self.assertEqual([found[token] for token in odd], [[]] * len(odd))
            self.assertTrue(found["mask"])

    @skipUnless(connection.vendor == "sqlite", "PostgreSQL takes lexemes as they are")
    def test_fts5_splits_no_token(self) -> None:
        signs = re.findall(r"\w", "".join(map(chr, range(0x110000))))
        tokens = {token for sign in signs for token in analyse(f"a{sign}b")}
        self.assertGreater(len(tokens), 100_000)
        with connection.cursor() as cursor:
            cursor.execute("SELECT sql FROM sqlite_master WHERE name = 'kb_searchany'")
            (statement,) = cursor.fetchone()
            cursor.execute(statement.replace("kb_searchany", "every_sign"))
            cursor.execute(
                "CREATE VIRTUAL TABLE every_token USING fts5vocab (every_sign, row)"
            )
            cursor.execute(
                "INSERT INTO every_sign (rowid, tokens) VALUES (1, %s)",
                [" ".join(f"x{token}x" for token in sorted(tokens))],
            )
            cursor.execute("SELECT term FROM every_token")
            found = {term for (term,) in cursor.fetchall()}
        # Folded further some may become one, but each keeps both its ends.
        whole = {term for term in found if term[0] == term[-1] == "x"}
        self.assertEqual(found - whole, set())
        self.assertGreater(len(whole), 0.99 * len(tokens))

    def test_nearest_by_the_words_of_messages(self) -> None:
        record = Record.objects.get(pk="NAN-1005")
        record.signatures = [{"kind": "message", "text": "ZebraError: okapi quagga"}]
        record.root_cause_en = "giraffe"
        saving.save(record)
        store = current_store()
        weights = {"okapi": 2.0, "quagga": 2.0, "gradient": 1.0}
        self.assertEqual(store.nearest(weights)[0].record, "NAN-1005")
        self.assertEqual(store.nearest({"giraffe": 1.0}), [])
        self.assertLessEqual(len(store.nearest({"gradient": 1.0})), NEAREST)

    def test_having_puts_sure_keys_first_and_takes_thousands(self) -> None:
        for pk, signatures in (
            ("NAN-1001", [{"kind": "facet", "text": "loss_nan"}]),
            ("NAN-1002", [{"kind": "code", "text": "ZEBRA_MODE=1"}]),
        ):
            record = Record.objects.get(pk=pk)
            record.signatures = signatures
            saving.save(record)
        store = current_store()
        keys = [f"word:w{n}" for n in range(5000)]
        keys += [
            *SearchKey.objects.filter(document__record="NAN-1002").values_list(
                "key", flat=True
            ),
            "facet:loss_nan",
        ]
        found = [document.record for document in store.with_keys(keys)]
        self.assertEqual(found, ["NAN-1002", "NAN-1001"])
        self.assertEqual(store.with_keys([]), [])

    def test_an_empty_index(self) -> None:
        Record.objects.all().delete()
        writer.rebuild()
        store = current_store()
        self.assertEqual((store.count, store.average_length), (0, 1.0))
        self.assertEqual(store.nearest({"nan": 1.0}), [])
        self.assertEqual(ids("nan"), [])
        SearchState.objects.all().delete()
        self.assertEqual(ids("nan"), [])
        self.zebra_again()

    def zebra_again(self) -> None:
        read_sample()
        self.assertEqual(ids("sample"), ["NAN-9001"])
        self.assert_right()

    def test_weights_tell_what_stands_where(self) -> None:
        record = self.zebra()
        (document,) = current_store().documents(
            SearchDocument.objects.filter(record=record).values_list("pk", flat=True)
        )
        self.assertGreaterEqual(document.weight("zebra"), 3)
        self.assertEqual(document.weight("okapi"), 0)
        self.assertEqual(document.signatures, contents_of(record).signatures)


class LoadTests(TestCase):
    def test_a_load_fills_an_index_that_is_empty(self) -> None:
        loaded.shipped()
        with connection.cursor() as cursor:
            cursor.execute("DELETE FROM kb_searchkey")
            cursor.execute("DELETE FROM kb_searchdocument")
        load_records(settings.ISSUES_DIR, inspect=inspect)
        self.assertEqual(list(writer.problems()), [])
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
        self.assertEqual(list(writer.problems()), [])


def postgres_environment() -> dict[str, str]:
    url = os.environ.get("DATABASE_URL", "")
    return os.environ | {
        "DATABASE_URL": url if url.startswith("postgres") else POSTGRES
    }


@tag("servers")
class PostgresTests(TestCase):
    def run_python(self, *argv: str, environ: dict[str, str]) -> str:
        done = subprocess.run(
            [sys.executable, *argv],
            cwd=ROOT,
            env=environ,
            capture_output=True,
            text=True,
            timeout=900,
        )
        self.assertEqual(done.returncode, 0, done.stdout[-4000:] + done.stderr[-4000:])
        return done.stdout

    def test_the_same_answers(self) -> None:
        here = {k: v for k, v in os.environ.items() if k != "DATABASE_URL"}
        sqlite, postgres = (
            json.loads(
                self.run_python("-m", "tests.support.search_answers", "300", environ=e)
            )
            for e in (here, postgres_environment())
        )
        self.assertEqual(sqlite.keys(), postgres.keys())
        self.assertGreater(sum(map(bool, sqlite.values())), 30)
        for query, found in sqlite.items():
            self.assertEqual(found, postgres[query], query)


@skipUnlessDBFeature("test_db_allows_multiple_connections")
class ConcurrentTests(TransactionTestCase):
    def test_writers_wait_for_each_other(self) -> None:
        save_all(make_records(8))
        errors: list[Any] = []

        def edit(numbers: range) -> None:
            try:
                for number in numbers:
                    with transaction.atomic():
                        record = Record.objects.get(pk=f"NAN-{1000 + number}")
                        record.title_en = f"zebra{number} {record.title_en}"[:200]
                        saving.save(record)
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
        self.assertEqual(list(writer.problems()), [])
        self.assertEqual(len(ids("zebra3")), 1)
