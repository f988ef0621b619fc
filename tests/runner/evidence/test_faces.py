"""What was sent is told apart from what ran here, and settles nothing by itself."""

from __future__ import annotations

import json
from datetime import timedelta
from io import StringIO
from typing import Any
from unittest import mock

from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import TestCase, override_settings
from django.utils import timezone

from kb.findings import results, standings
from kb.lookup import answer
from kb.models import Finding, Flip, Repro, TestedBuild
from kb.syndication.badges import verdict
from runner.evidence import origins, store
from runner.evidence.disagreement import disagreements
from runner.evidence.exchange import receive_evidence
from runner.models import Evidence, Sweep
from runner.models.token import Token
from tests.support import runs

OLDER, OLDER_RAW = "9.8.0-cpu", "9.8.0+cpu"


def evidence(repro: Repro, *, bug: bool, **changes: Any) -> dict[str, Any]:
    return runs.signed({**runs.make_evidence(repro, bug=bug), **changes})


def send(body: dict[str, Any], name: str = "somebody") -> None:
    assert receive_evidence(json.dumps(body).encode(), name).created


class SentTest(TestCase):
    """A forged "bug absent" on a build that nobody ran here."""

    def setUp(self) -> None:
        self.repro = runs.make_repro()
        self.record = self.repro.record
        standings.refresh(self.record)
        self.forged = evidence(self.repro, bug=False)

    def asked(self) -> dict[str, Any]:
        env = f"torch=={runs.STAND_IN}"
        found: dict[str, Any] = answer.affected_by(self.record, env)["affected"]
        return found

    def ours_before(self) -> None:
        """The bug, run here on the build before."""
        body = runs.make_evidence(self.repro, bug=True)
        body["build"].update(slug=OLDER, raw=OLDER_RAW)
        store.add(runs.signed(body), store.SITE)

    def test_a_look_up_says_who_sent_it_and_not_that_it_was_tested(self) -> None:
        send(self.forged)
        found = self.asked()
        self.assertEqual((found["answer"], found["basis"]), ("unknown", "sent"))
        self.assertIsNone(found["is_affected"])
        said = " ".join(row["en"] for row in found["reasons"])
        self.assertIn("somebody", said)

    def test_it_takes_nothing_from_what_is_documented(self) -> None:
        self.record.affected = [
            {
                "package": "torch",
                "events": [{"introduced": "9.0"}],
                "source": "x",
            }
        ]
        send(self.forged)
        found = self.asked()
        self.assertEqual((found["answer"], found["basis"]), ("affected", "range"))
        self.assertIn("somebody", found["reasons"][-1]["en"])
        self.assertIn("somebody", found["reasons"][-1]["zh"])

    def test_it_makes_no_flip_no_range_and_no_tested_build(self) -> None:
        self.ours_before()
        send(self.forged)
        self.assertEqual(Flip.objects.count(), 0)
        self.assertEqual(self.record.standing.first_good, "")
        rows = list(self.record.findings.all())
        self.assertEqual(results.summary(rows)["absent"], 0)
        tested = TestedBuild.objects.values_list("slug", flat=True)
        self.assertEqual(list(tested), [OLDER])

    def test_the_badge_says_that_it_was_sent(self) -> None:
        send(self.forged)
        made = verdict.make(self.record.pk, runs.SLUG, "", "en")
        self.assertEqual(made.right, "◌ SENT · not confirmed")
        self.assertIsNone(verdict.verdict_of(self.record.pk, [runs.SLUG], ""))

    def test_matrix_data_name_the_origin(self) -> None:
        self.ours_before()
        send(self.forged)
        cells = self.client.get("/api/v1/records/NAN-9001/matrix").json()["cells"]
        faces = [(row["build"], row["origin"], row["confirmed"]) for row in cells]
        self.assertEqual(faces, [(OLDER, "site", True), (runs.SLUG, "somebody", False)])
        page = "/en/matrix/?record=NAN-9001&format=json"
        rows = [
            (row["build"], row["origin"], row["confirmed"])
            for row in self.client.get(page).json()["cells"]
            if row["check"] == "trigger"
        ]
        self.assertIn((runs.SLUG, "somebody", False), rows)

    def test_a_run_here_that_agrees_is_what_is_shown(self) -> None:
        send(self.forged)
        older = evidence(self.repro, bug=False, started_at="2026-01-01T00:00:00Z")
        store.add(older, store.SITE)
        self.assertEqual(self.asked()["basis"], "tested_build")
        self.assertEqual(Finding.objects.triggers().get().origin, "site")

    def test_two_senders_that_agree_settle_it_unless_a_third_contradicts(self) -> None:
        self.ours_before()
        send(self.forged)
        second = evidence(self.repro, bug=False, started_at="2026-02-01T00:00:00Z")
        send(second, "another")
        found = self.asked()
        self.assertEqual((found["answer"], found["basis"]), ("not_affected", "sent"))
        self.assertIn("it is confirmed", found["reasons"][0]["en"])
        made = verdict.make(self.record.pk, runs.SLUG, "", "en")
        self.assertIn("sent by another, confirmed", made.right)
        self.assertEqual(Flip.objects.get().build, runs.SLUG)
        third = evidence(self.repro, bug=True, started_at="2026-01-01T00:00:00Z")
        send(third, "a-third")
        self.assertEqual(self.asked()["answer"], "unknown")
        self.assertEqual(Flip.objects.count(), 0)
        (found,) = disagreements(self.record)
        self.assertEqual(
            sorted(side.evidence.origin for side in found.sides),
            ["a-third", "another", "somebody"],
        )

    def test_two_tokens_of_one_user_are_one_sender(self) -> None:
        second = evidence(self.repro, bug=False, started_at="2026-02-01T00:00:00Z")
        for body, name in ((self.forged, "laptop"), (second, "cluster")):
            receive_evidence(json.dumps(body).encode(), name, "ann")
        self.assertEqual(self.asked()["answer"], "unknown")
        third = evidence(self.repro, bug=False, started_at="2026-03-01T00:00:00Z")
        receive_evidence(json.dumps(third).encode(), "desk", "ben")
        self.assertEqual(self.asked()["answer"], "not_affected")

    def test_nothing_sent_replaces_what_stands(self) -> None:
        store.add(runs.make_evidence(self.repro, failure="timeout"), store.SITE)
        send(self.forged)
        row = Finding.objects.triggers().get()
        self.assertEqual((row.origin, row.verdict), ("site", "error"))

    def test_a_maintainer_confirms_it(self) -> None:
        send(self.forged)
        origins.confirm(Evidence.objects.all())
        found = self.asked()
        self.assertEqual((found["answer"], found["basis"]), ("not_affected", "sent"))

    def test_no_page_shows_it_as_a_verdict_of_ours(self) -> None:
        """Where single evidence stands: of its record, of its build, and its own."""
        send(self.forged)
        (row,) = Evidence.objects.all()
        said = "That is what somebody says, who sent it; nobody has confirmed it."
        html = self.client.get(row.get_absolute_url()).text
        self.assertEqual(html.count(said), 3, "to see, and twice for a preview")
        paths = ("/en/NAN-9001/", f"/en/builds/{runs.SLUG}/", row.get_absolute_url())
        for path in paths:
            html = self.client.get(path, follow=True).text
            with self.subTest(path):
                self.assertIn("bug not seen, says somebody; not confirmed", html)
                self.assertNotIn("<b>PASS</b>", html)
                self.assertNotIn("answer-pass", html)
        origins.confirm(Evidence.objects.all())
        for path in paths:
            html = self.client.get(path, follow=True).text
            with self.subTest(path):
                self.assertIn("sent by somebody, confirmed", html)
                self.assertNotIn("nobody has confirmed", html)

    def test_a_run_here_with_its_verdict_bears_it_out(self) -> None:
        send(self.forged)
        store.add(runs.make_evidence(self.repro, bug=True), store.SITE)
        row = Evidence.objects.get(origin="somebody")
        path = row.get_absolute_url()
        self.assertIn("says somebody; not confirmed", self.client.get(path).text)
        same = evidence(self.repro, bug=False, started_at="2026-01-09T00:00:00Z")
        store.add(same, store.SITE)
        self.assertIn("sent by somebody, confirmed", self.client.get(path).text)

    def test_the_matrix_shows_it_and_infers_nothing(self) -> None:
        send(self.forged)
        runs.install("python")
        rows = self.client.get("/en/matrix/?format=json").json()["rows"]
        cell = rows[0]["cells"][runs.SLUG]
        self.assertEqual((cell["origin"], cell["confirmed"]), ("somebody", False))
        html = self.client.get("/en/matrix/?show=all").text
        self.assertIn("bug not seen, says somebody; not confirmed", html)
        self.assertNotIn("PASS", html.partition("<table")[2].partition("</table")[0])


class WithdrawnTest(TestCase):
    """An origin is taken back as a whole, and kept for the record."""

    def setUp(self) -> None:
        self.repro = runs.make_repro()
        self.record = self.repro.record
        standings.refresh(self.record)
        at = "2026-02-01T00:00:00Z"
        send(evidence(self.repro, bug=False))
        send(evidence(self.repro, bug=False, started_at=at), "another")

    def command(self, *words: str) -> str:
        out = StringIO()
        call_command("origins", *words, stdout=out)
        return out.getvalue()

    def test_all_that_it_sent_leaves_the_standings_at_once(self) -> None:
        self.assertTrue(Finding.objects.triggers().get().confirmed)
        self.assertEqual(TestedBuild.objects.count(), 1)
        told = self.command("withdraw", "another")
        self.assertIn("another: 1 evidence withdrawn", told)
        row = Finding.objects.triggers().get()
        self.assertEqual((row.origin, row.confirmed), ("somebody", False))
        self.assertEqual(TestedBuild.objects.count(), 0)
        self.command("withdraw", "somebody")
        self.assertEqual(Finding.objects.count(), 0)
        self.assertEqual(Evidence.objects.filter(withdrawn=True).count(), 2)
        self.assertEqual(disagreements(self.record), [])

    def test_sweeps_and_evidence_go_together_or_not_at_all(self) -> None:
        runs.make_sweep(record=self.record, origin="somebody")
        with (
            mock.patch.object(store, "derive", side_effect=KeyboardInterrupt),
            self.assertRaises(KeyboardInterrupt),
        ):
            origins.withdraw("somebody")
        self.assertFalse(Sweep.objects.filter(withdrawn=True).exists())
        self.assertFalse(Evidence.objects.filter(withdrawn=True).exists())
        self.assertEqual(origins.withdraw("somebody"), 2)

    def test_it_stays_away_when_its_record_is_loaded_again(self) -> None:
        self.command("withdraw", "somebody")
        self.command("withdraw", "another")
        store.refresh_staleness(self.record)
        self.assertEqual(Finding.objects.count(), 0)

    def test_it_can_be_restored(self) -> None:
        self.command("withdraw", "another")
        self.assertIn("1 evidence restored", self.command("restore", "another"))
        self.assertTrue(Finding.objects.triggers().get().confirmed)

    def test_what_is_ours_is_nobody_s_to_withdraw(self) -> None:
        for name in ("site", "repository", "nobody-known"):
            with self.subTest(name), self.assertRaises(CommandError):
                self.command("withdraw", name)

    def test_the_list_tells_who_sent_how_much(self) -> None:
        self.command("withdraw", "another")
        told = self.command("list")
        self.assertIn("somebody  1 evidence, 0 withdrawn", told)
        self.assertIn("another  1 evidence, 1 withdrawn", told)

    def test_a_page_of_withdrawn_evidence_says_so(self) -> None:
        self.command("withdraw", "another")
        row = Evidence.objects.get(origin="another")
        self.assertIn(
            "has been withdrawn", self.client.get(row.get_absolute_url()).text
        )
        items = self.client.get("/api/v1/evidence").json()["items"]
        said = {item["origin"]: item["withdrawn"] for item in items}
        self.assertEqual(said, {"somebody": False, "another": True})


@override_settings(EVIDENCE_PER_HOUR=2)
class RateTest(TestCase):
    def setUp(self) -> None:
        self.repro = runs.make_repro()
        user = User.objects.create_user("ann")
        end = timezone.now() + timedelta(days=1)
        _token, self.secret = Token.issue("laptop", user, ["evidence"], end)

    def post(self, day: int) -> Any:
        at = f"2026-01-{day:02}T00:00:00Z"
        return self.client.post(
            "/api/v1/evidence",
            json.dumps(evidence(self.repro, bug=True, started_at=at)),
            "application/json",
            headers={"Authorization": f"Bearer {self.secret}"},
        )

    def test_a_token_sends_so_much_in_an_hour(self) -> None:
        self.assertEqual([self.post(day).status_code for day in (1, 2)], [201, 201])
        refused = self.post(3)
        self.assertEqual(refused.status_code, 429)
        self.assertGreater(int(refused["Retry-After"]), 3000)
        self.assertEqual(Evidence.objects.count(), 2)
        self.assertEqual(set(Evidence.objects.values_list("sender")), {("ann",)})
        hour = timezone.now() - timedelta(minutes=61)
        Evidence.objects.update(added_at=hour)
        self.assertEqual(self.post(3).status_code, 201)
