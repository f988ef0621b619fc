"""Feeds of the flips of one record and one component."""

from __future__ import annotations

from xml.etree import ElementTree

from kb.publishing import saving
from tests.kb.releases.test_comparison import ComparisonCase

ATOM = "{http://www.w3.org/2005/Atom}"


class FeedTest(ComparisonCase):
    def setUp(self) -> None:
        super().setUp()
        self.records[0].components = ["sdpa"]
        saving.save(self.records[0])
        self.verdicts(0, v2_5_1=True, v2_6_0=False, v2_7_0=True)
        self.verdicts(1, v2_5_1=True, v2_6_0=True, v2_7_0=False)

    def entries(self, path: str) -> set[str]:
        answer = self.client.get(f"/en/{path}/feed.atom")
        self.assertEqual(answer.status_code, 200, path)
        root = ElementTree.fromstring(answer.content)
        links = [entry.find(f"{ATOM}link") for entry in root.iter(f"{ATOM}entry")]
        return {
            link.attrib["href"].rpartition("/en/")[2]
            for link in links
            if link is not None
        }

    def test_each_tells_its_own_flips(self) -> None:
        first = {
            "NAN-9001/sample-9001/#first_good:2.6.0-cpu:cpu",
            "NAN-9001/sample-9001/#first_bad:2.7.0-cpu:cpu",
        }
        second = {"NAN-9002/sample-9002/#first_good:2.7.0-cpu:cpu"}
        self.assertEqual(self.entries("NAN-9001"), first)
        self.assertEqual(self.entries("components/sdpa"), first)
        self.assertEqual(self.entries("NAN-9002"), second)
        self.assertEqual(self.entries("NAN-9003"), set())

    def test_what_there_is_not(self) -> None:
        for path in ("NAN-0999", "components/zebra", "components/sdp"):
            with self.subTest(path):
                answer = self.client.get(f"/en/{path}/feed.atom")
                self.assertEqual(answer.status_code, 404)
