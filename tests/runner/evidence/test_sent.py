"""What was sent is told apart from what ran here, and decides nothing."""

from __future__ import annotations

import json
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import TestCase, override_settings
from django.urls import reverse
from django.utils import timezone

from kb.choices import SHIPPED
from kb.findings import results, standings
from kb.lookup import answer
from kb.models import Finding, Flip, Repro, TestedBuild
from runner import access
from runner.evidence import store
from runner.evidence.disagreement import disagreements
from runner.evidence.exchange import receive_evidence
from runner.models import Evidence, Sweep
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

    def asked(self) -> tuple[str, str]:
        env = f"torch=={runs.STAND_IN}"
        found = answer.affected_by(self.record, env)["affected"]
        return found["answer"], found["basis"]

    def ours_before(self) -> None:
        """The bug, run here on the build before."""
        runs.run_on(self.repro, OLDER_RAW)

    def test_no_answer_rests_on_it_however_many_send_it(self) -> None:
        for day, name in enumerate(("somebody", "another", "a-third"), start=1):
            at = f"2026-01-{day:02}T00:00:00Z"
            send(evidence(self.repro, bug=False, started_at=at), name)
        self.assertEqual(self.asked(), ("unknown", "none"))
        self.assertFalse(Finding.objects.exists())

    def test_it_takes_nothing_from_what_is_documented(self) -> None:
        events = [{"introduced": "9.0"}]
        entry = {"package": "torch", "events": events, "source": "x"}
        self.record.affected = [entry]
        send(self.forged)
        self.assertEqual(self.asked(), ("affected", "range"))

    def test_it_makes_no_flip_no_range_and_no_tested_build(self) -> None:
        self.ours_before()
        send(self.forged)
        self.assertEqual(Flip.objects.count(), 0)
        self.assertEqual(self.record.standing.first_good, "")
        rows = list(self.record.findings.all())
        self.assertEqual(results.summary(rows)["absent"], 0)
        tested = TestedBuild.objects.values_list("slug", flat=True)
        self.assertEqual(list(tested), [OLDER])

    def test_the_matrix_does_not_show_it(self) -> None:
        self.ours_before()
        send(self.forged)
        cells = self.client.get("/api/v1/records/NAN-9001/matrix").json()["cells"]
        self.assertEqual([cell["build"] for cell in cells], [OLDER])
        whole = self.client.get("/en/matrix/?format=json").json()
        self.assertEqual(whole["builds"], [OLDER])

    def test_it_is_not_derived_when_its_record_is_loaded_again(self) -> None:
        send(self.forged)
        store.refresh_staleness(self.record)
        self.assertFalse(Finding.objects.exists())

    def test_it_replaces_and_contradicts_nothing_of_ours(self) -> None:
        store.add(runs.make_evidence(self.repro, bug=True), store.SITE)
        send(self.forged)
        row = Finding.objects.triggers().get()
        self.assertEqual((row.origin, row.verdict), ("site", "bug_present"))
        self.assertEqual(disagreements(self.record), [])

    def test_its_own_page_says_where_ours_differs(self) -> None:
        store.add(runs.make_evidence(self.repro, bug=True), store.SITE)
        send(self.forged)
        sent = Evidence.objects.get(origin="somebody")
        (found,) = disagreements(self.record, sent)
        origins = [side.evidence.origin for side in found.sides]
        self.assertEqual(origins, ["site", "somebody"])

    def test_no_page_shows_it_as_a_verdict_of_ours(self) -> None:
        """Where single evidence stands: of its record, and its own."""
        self.client.get("/en/NAN-9001/", follow=True)
        send(self.forged)
        (row,) = Evidence.objects.all()
        said = "Sent by somebody; not run here."
        html = self.client.get(row.get_absolute_url()).text
        self.assertEqual(html.count(said), 3, "to see, and twice for a preview")
        for path in ("/en/NAN-9001/", row.get_absolute_url()):
            html = self.client.get(path, follow=True).text
            with self.subTest(path):
                self.assertIn("bug not seen by somebody; not run here", html)
                self.assertNotIn("<b>PASS</b>", html)
                self.assertNotIn("answer-pass", html)

    def test_the_same_object_reviewed_into_the_repository_decides(self) -> None:
        send(self.forged)
        with tempfile.TemporaryDirectory() as root:
            folder = Path(root) / self.record.slug / "evidence"
            folder.mkdir(parents=True)
            (folder / "x.json").write_text(json.dumps(self.forged))
            call_command("load_evidence", root, verbosity=0)
        row = Evidence.objects.get()
        self.assertEqual((row.origin, row.sender), (SHIPPED, ""))
        self.assertEqual(self.asked(), ("not_affected", "tested_build"))


class DeletedTest(TestCase):
    """An operator deletes what somebody sent, and nothing else."""

    def setUp(self) -> None:
        self.repro = runs.make_repro()
        store.add(runs.make_evidence(self.repro, bug=True), store.SITE)
        send(evidence(self.repro, bug=False))
        runs.make_sweep(record=self.repro.record, origin="somebody")
        user = User.objects.create_user("op", is_staff=True)
        access.ensure_groups()
        user.groups.set(access.Group.objects.filter(name__in=("viewer", "operator")))
        self.client.force_login(user)

    def delete(self, kind: str, *rows: Evidence | Sweep) -> int:
        """Mark rows in the list and delete them, and say yes; the status."""
        data = {
            "action": "delete_selected",
            "_selected_action": [row.pk for row in rows],
            "post": "yes",
        }
        path = reverse(f"admin:runner_{kind}_changelist")
        return self.client.post(path, data).status_code

    def test_what_was_sent_goes_from_the_pages_too(self) -> None:
        page = "/en/NAN-9001/"
        self.assertIn("somebody", self.client.get(page, follow=True).text)
        rows = Evidence.objects.filter(origin="somebody")
        self.assertEqual(self.delete("evidence", *rows), 302)
        self.assertEqual(Evidence.objects.get().origin, "site")
        self.assertNotIn("somebody", self.client.get(page, follow=True).text)
        self.assertEqual(self.delete("sweep", Sweep.objects.get()), 302)
        self.assertFalse(Sweep.objects.exists())

    def test_what_is_ours_stays(self) -> None:
        self.assertEqual(self.delete("evidence", *Evidence.objects.all()), 403)
        self.assertTrue(Evidence.objects.filter(origin="site").exists())
        sweep = Sweep.objects.get()
        Sweep.objects.update(origin="site")
        self.assertEqual(self.delete("sweep", sweep), 403)
        self.assertTrue(Sweep.objects.exists())


@override_settings(EVIDENCE_PER_HOUR=2)
class RateTest(TestCase):
    def setUp(self) -> None:
        self.repro = runs.make_repro()
        self.secret = runs.token_of("laptop", "evidence")

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
