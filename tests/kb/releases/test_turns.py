"""What arrives with each release and what leaves, and where a release's page is."""

from __future__ import annotations

from kb.releases.turns import of_releases
from tests.kb.releases.test_comparison import ComparisonCase, finding


class TurnsTest(ComparisonCase):
    def test_a_record_arrives_once_and_leaves_once(self) -> None:
        record = self.records[0]
        self.keep(
            0,
            finding(record, "2.5.1", True),
            finding(record, "2.6.0", False),
            finding(record, "2.6.0", False, local="cu124"),
        )
        self.verdicts(1, v2_5_1=False, v2_6_0=True)
        self.verdicts(2, v2_5_1=None)
        found = [
            (turns.release, *([row.pk for row in rows] for rows in turns[1:]))
            for turns in of_releases()
        ]
        wanted = ("2.6.0", [self.records[1].pk], [record.pk])
        self.assertEqual(found, [("2.5.1", [], []), wanted])

    def test_a_release_is_a_comparison_with_its_predecessor(self) -> None:
        self.verdicts(0, v2_5_1=True, v2_6_0=False)
        page = self.client.get("/en/releases/2.6/", follow=True)
        self.assertEqual(page.redirect_chain[-1][0], "/en/compare/2.5.1...2.6.0/")
        first = self.client.get("/zh/releases/2.5.1/")
        self.assertRedirects(first, "/zh/compare/")
        self.assertContains(self.client.get("/zh/compare/"), '"/zh/releases/2.5.1/"')
        for name in ("2.7.0", "2.6.0-cpu", "zebra"):
            self.assertEqual(self.client.get(f"/en/releases/{name}/").status_code, 404)
