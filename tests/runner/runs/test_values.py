"""A run with values of its own: asked for, kept apart, never the record's verdict."""

from __future__ import annotations

import copy
import json
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.test import TestCase
from django.urls import reverse
from django.utils import timezone

from kb.findings import claims, variants
from kb.models import Finding, Repro, Standing
from portable import harness
from runner.evidence import disagreement, exchange, store
from runner.models import Build, Evidence, Run
from runner.runs import ledger, submission
from tests.runner.harness.test_parameters import HOSTILE
from tests.support import parametrized, runs

BF16 = {"dtype": "bfloat16"}


class ValuesTest(TestCase):
    def setUp(self) -> None:
        self.repro = parametrized.make_repro()
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        runs.install(runs.stand_in_torch(folder))
        self.build = Build.objects.get(slug=runs.SLUG)

    def submit(self, **values: Any) -> submission.Submitted:
        return submission.submit(self.repro, self.build, "cpu", 1, values=values)

    def finish(self, *, bug: bool = True) -> Run:
        run = runs.claimed(worker="w1")
        values = json.loads(run.parameters or "{}")
        ledger.finish(run, runs.make_evidence(self.repro, bug=bug, values=values))
        run.refresh_from_db()
        return run


class QueueTest(ValuesTest):
    def test_values_are_part_of_the_question(self) -> None:
        plain, mine = self.submit(), self.submit(**BF16)
        self.assertNotEqual(plain.run.pk, mine.run.pk)
        self.assertEqual(mine.run.settings, ["dtype=bfloat16"])
        self.assertTrue(mine.run.get_absolute_url().endswith("/?dtype=bfloat16"))
        self.assertEqual(self.submit(dtype="bfloat16", length=6).run.pk, mine.run.pk)
        self.assertEqual(self.submit(length=6).run.pk, plain.run.pk)

    def test_a_fresh_result_answers_for_its_own_values_only(self) -> None:
        self.submit(**BF16)
        finished = self.finish()
        self.assertEqual(self.submit(**BF16).run.pk, finished.pk)
        self.assertFalse(self.submit().cached)

    def test_hostile_values_queue_nothing(self) -> None:
        for what, value in HOSTILE.items():
            with self.subTest(what), self.assertRaises(harness.ParameterError):
                self.submit(length=value)
        self.assertFalse(Run.objects.exists())


class VerdictTest(ValuesTest):
    """What they show stands nowhere but with them."""

    def test_they_leave_no_finding_and_no_standing(self) -> None:
        self.submit(**BF16)
        run = self.finish()
        self.assertEqual(
            (run.verdict, run.evidence.settings), ("bug_present", ["dtype=bfloat16"])
        )
        self.assertFalse(Finding.objects.exists())
        store.refresh_staleness(self.repro.record)
        self.assertFalse(Finding.objects.exists())

    def test_they_change_nothing_of_what_was_found(self) -> None:
        self.submit()
        self.finish()
        before = self.shown()
        self.submit(**BF16)
        self.finish(bug=False)
        self.assertEqual(self.shown(), before)
        self.assertEqual(disagreement.disagreements(self.repro.record), [])

    def shown(self) -> Any:
        page = self.client.get(self.repro.record.get_absolute_url()).content.decode()
        return (
            list(
                Finding.objects.order_by("check_name").values_list(
                    "check_name", "outcome", "evidence"
                )
            ),
            list(Standing.objects.values_list("facets", "first_bad", "first_good")),
            page.count("v-fail"),
            self.client.get("/api/v1/records/NAN-9001").json()["results"],
        )

    def test_two_values_of_one_build_do_not_disagree(self) -> None:
        for bug, origin in ((True, "site"), (False, "other-site")):
            body = runs.make_evidence(self.repro, bug=bug, values=BF16)
            store.add(body, origin)
        self.assertEqual(Evidence.objects.count(), 2)
        self.assertEqual(disagreement.disagreements(self.repro.record), [])

    def test_variants_say_where_a_workaround_holds(self) -> None:
        store.add(runs.make_evidence(self.repro), "site")
        names = set(Finding.objects.values_list("check_name", flat=True))
        self.assertLessEqual({"variant_bf16 off", "variant_long off"}, names)
        findings = list(Finding.objects.all())
        self.assertEqual(claims.workaround_status("off", findings)[0], "verified")
        found = variants.reach("off", findings, [self.repro])
        self.assertEqual(
            found.holds, {"dtype": ["float32", "bfloat16"], "length": [6, 7]}
        )
        self.assertEqual(found.held, "fp32, bf16 · length 6, 7")
        self.assertEqual(found.fails, [])
        failing = Finding.objects.filter(check_name="variant_long off")
        failing.update(outcome="bug")
        found = variants.reach("off", Finding.objects.all(), [self.repro])
        self.assertEqual((found.held, found.failed), ("fp32, bf16", "length 7"))


class ReceivedTest(ValuesTest):
    """Evidence that somebody sent."""

    def sent(self, **values: Any) -> dict[str, Any]:
        body = runs.make_evidence(self.repro, values=values or None)
        body["started_at"] = (timezone.now() - timedelta(days=1)).isoformat()
        return runs.signed(body)

    def refused(self, body: dict[str, Any]) -> str:
        with self.assertRaises(store.EvidenceRefused) as caught:
            exchange.receive_evidence(
                json.dumps(runs.signed(body)).encode(), "somebody"
            )
        return str(caught.exception)

    def test_values_and_variants_are_taken(self) -> None:
        for body in (self.sent(), self.sent(length=704)):
            row = exchange.receive_evidence(json.dumps(body).encode(), "somebody")
            self.assertTrue(row.created)
        self.assertEqual(row.settings, ["length=704"])

    def test_old_evidence_without_variants_stays_valid(self) -> None:
        body = self.sent()
        del body["variants"]
        data = json.dumps(runs.signed(body)).encode()
        self.assertTrue(exchange.receive_evidence(data, "somebody").created)

    def test_values_that_the_repro_does_not_allow_are_refused(self) -> None:
        for what, value in HOSTILE.items():
            if what in ("nan", "infinity", "beyond every float"):
                continue  # No JSON that this harness writes.
            body = self.sent(length=704)
            body["parameters"] = {"length": value}
            with self.subTest(what):
                self.assertTrue(self.refused(body))
        body = self.sent(length=704)
        body["parameters"] = {"length": 6}
        self.assertIn("one is the default", self.refused(body))
        body["parameters"] = {}
        self.assertIn("left out where none", self.refused(body))

    def test_the_verdict_of_other_values_is_not_passed_off_as_the_records(self) -> None:
        body = self.sent(length=704)
        del body["parameters"]
        self.assertIn("is_affected", self.refused(body))

    def test_a_variant_that_says_otherwise_is_refused(self) -> None:
        good = self.sent()

        def changed(change: Any) -> str:
            body = copy.deepcopy(good)
            change(body["variants"]["bf16"])
            return self.refused(body)

        self.assertIn(
            "it says otherwise",
            changed(lambda v: v["workarounds"].update(off="does_not_help")),
        )
        self.assertIn(
            "no variant bf16 like that",
            changed(lambda v: v.update(parameters={"dtype": "float16"})),
        )
        self.assertIn(
            "give bug",
            changed(lambda v: v["checks"][2]["observations"].update(nonfinite=1)),
        )
        self.assertIn(
            "not those that run", changed(lambda v: v["checks"].pop(0) and None)
        )
        self.assertIn("keys of a variant", changed(lambda v: v.pop("workarounds")))
        self.assertIn("1 to 400", changed(lambda v: v.update(checks=[])))


class AskedTest(ValuesTest):
    """By the form and by the API."""

    def post(self, **values: Any) -> Any:
        body = {"record": "NAN-9001", "build": runs.SLUG, "parameters": values}
        return self.client.post(
            "/api/v1/runs", json.dumps(body), content_type="application/json"
        )

    def test_over_the_api(self) -> None:
        answer = self.post(length=704)
        self.assertEqual(answer.status_code, 202)
        self.assertEqual(answer.json()["parameters"], {"length": 704})
        self.finish()
        run = self.client.get(answer["Location"]).json()
        self.assertEqual((run["verdict"], run["is_affected"]), ("bug_present", None))
        self.assertIn("Runs with length=704 on torch", run["sentence"]["en"])
        self.assertIn("取 length=704 时", run["sentence"]["zh"])

    def test_hostile_values_are_refused_by_name(self) -> None:
        for what, value in HOSTILE.items():
            if what in ("nan", "infinity"):
                continue  # No JSON.
            with self.subTest(what):
                answer = self.post(length=value)
                wanted = 400 if value is None else 422
                self.assertEqual(answer.status_code, wanted, answer.content[:200])
                (error,) = answer.json()["errors"]
                self.assertEqual(error["pointer"], "/parameters/length")
                self.assertLess(len(answer.content), 2000)
        self.assertFalse(Run.objects.exists())

    def test_by_the_form(self) -> None:
        page = self.client.get(self.repro.record.get_absolute_url() + "?length=704")
        html = page.content.decode()
        self.assertIn('name="set-repro-dtype"', html)
        self.assertIn('max="4096" step="1" value="704"', html)
        answer = self.client.post(
            run_address(self.repro),
            {
                "repro": "repro",
                "build": runs.SLUG,
                "set-repro-length": "704",
                "set-repro-dtype": "float32",
                "set-repro-scale": "",
            },
        )
        self.assertEqual(answer.status_code, 302)
        self.assertTrue(answer["Location"].endswith("/?length=704"))
        self.finish()
        html = self.client.get(answer["Location"]).content.decode()
        self.assertIn("length=704", html.partition("</title>")[0])
        self.assertIn('name="set-repro-length" value="704"', html)

    def test_the_form_refuses_by_name(self) -> None:
        for text in ("evil", "NaN", "1e400", "-1", "1000000000", "9" * 10_000):
            with self.subTest(text[:20]):
                answer = self.client.post(
                    run_address(self.repro),
                    {"repro": "repro", "build": runs.SLUG, "set-repro-length": text},
                )
                self.assertEqual(answer.status_code, 400)
                self.assertIn("length: must be a whole number", answer.content.decode())
        self.assertFalse(Run.objects.exists())

    def test_what_is_no_longer_here_is_named(self) -> None:
        for form, said in (
            ({"repro": "repro", "build": "9.9.9-cpu"}, "torch build: it is not here"),
            ({"repro": "gone", "build": runs.SLUG}, "repro: it is not here"),
        ):
            answer = self.client.post(run_address(self.repro), form)
            self.assertContains(answer, said, status_code=400)


def run_address(repro: Repro) -> str:
    return reverse("run-create", args=[repro.record_id])
