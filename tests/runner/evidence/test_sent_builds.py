"""Builds have a name by proof: what is sent makes none and bends none."""

from __future__ import annotations

import json
from typing import Any
from unittest import mock

from django.test import TestCase

from kb.models import Finding
from portable import harness
from runner.builds import registry
from runner.evidence import exchange, store
from runner.evidence.disagreement import disagreements
from runner.evidence.exchange import receive_evidence
from runner.evidence.store import EvidenceRefused
from runner.models import Build, Evidence
from runner.pages import run_page
from tests.support import runs

SLUG, RAW = "2.16.0-cpu", "2.16.0+cpu"


class SentBuildTest(TestCase):
    def setUp(self) -> None:
        self.repro = runs.make_repro()

    def body(self, **build: Any) -> dict[str, Any]:
        body = runs.make_evidence(self.repro, bug=False)
        body["build"].update(build)
        if "slug" not in build:
            slug = harness.build_slug(body["build"]["raw"], body["build"]["cuda"])
            body["build"]["slug"] = slug
        return runs.signed(body)

    def send(self, name: str = "somebody", **build: Any) -> Evidence:
        return receive_evidence(json.dumps(self.body(**build)).encode(), name)

    def refused(self, **build: Any) -> str:
        with self.assertRaises(EvidenceRefused) as caught:
            self.send(**build)
        self.assertFalse(Evidence.objects.exists())
        return str(caught.exception)

    def identity(self, **facts: Any) -> dict[str, Any]:
        identity = runs.hello(self.repro.digest)["identity"]
        return {**identity, "slug": SLUG, "raw": RAW, "git": "1" * 40, **facts}

    def test_a_version_is_no_free_text(self) -> None:
        for raw in (
            *("pwned", "2.16", "2.16.0 final", "2.16.0+buy.now", "2.16.0+visit.me"),
            *("99999.0.0", "torch 2.16.0", "2.16.0+cpu.", "2.16.0+", "v2.16.0"),
        ):
            with self.subTest(raw):
                self.assertIn("version", self.refused(raw=raw))

    def test_other_facts_are_no_free_texts_either(self) -> None:
        for fact in (
            *({"git": "hello"}, {"cuda": "cheap"}, {"python": "snake"}),
            *({"platform": "my home"}, {"cudnn": "x"}, {"dist": "buy it"}),
            {"slug": "anything-debian"},
        ):
            with self.subTest(fact):
                self.refused(**fact)

    def test_versions_that_torch_has_are_taken(self) -> None:
        for raw in (
            *("2.16.0", "2.16.0+cu128", "2.16.0a0+gitdf5bbc0", "2.16.0.post1"),
            *("2.16.0.dev20260101+rocm6.4", "2.16.0a0+ecf3bae40a.nv25.01"),
            *("2.0.1+cu117.with.pypi.cudnn", "2.16.0rc1+xpu"),
        ):
            with self.subTest(raw):
                self.assertTrue(self.send(raw=raw).created)
        self.assertTrue(self.send(raw="1.13.0a0", slug="1.13.1-debian").created)

    def test_what_is_sent_makes_no_build(self) -> None:
        row = self.send(raw=RAW)
        self.assertEqual((row.build, row.build_slug), (None, SLUG))
        self.assertFalse(Build.objects.exists())
        page = self.client.get(row.get_absolute_url()).text
        self.assertIn(f'on <span class="mono">{SLUG}</span>', page)
        listed = self.client.get(f"/api/v1/evidence?build={SLUG}").json()["items"]
        self.assertEqual([item["build"] for item in listed], [SLUG])

    def test_nobody_locks_another_sender_out(self) -> None:
        """Neither by a version nor by a commit, known here or made up."""
        honest = {"raw": RAW, "git": "2" * 40}
        for known in (False, True):
            if known:
                registry.save_identity(self.identity())
            for lie in ({"raw": "2.16.0"}, {"raw": RAW, "git": "c" * 40}):
                with self.subTest(lie, known=known):
                    self.send("ann", **lie)
                    row = self.send("bob", **honest)
                    self.assertTrue(row.created)
                    self.assertEqual(row.body["build"]["git"], "2" * 40)
                    Evidence.objects.all().delete()
        build = Build.objects.get()
        self.assertEqual((build.raw, build.git), (RAW, "1" * 40))

    def test_nor_an_installation_or_evidence_of_ours(self) -> None:
        self.send(raw="2.16.0", git="c" * 40)
        build = registry.save_identity(self.identity())
        self.assertEqual((build.raw, build.git), (RAW, "1" * 40))
        store.add(self.body(raw=RAW, git="1" * 40), store.SITE)
        self.assertEqual(Evidence.objects.get(origin="site").build, build)
        self.assertEqual(set(Finding.objects.values_list("origin")), {("site",)})

    def test_a_build_that_is_proven_is_nobody_s_to_rename(self) -> None:
        registry.save_identity(self.identity())
        runs.install("python", SLUG)
        with self.assertRaises(registry.BuildError):
            registry.save_identity(self.identity(git="3" * 40))
        with self.assertRaises(EvidenceRefused):
            store.add(self.body(raw="2.16.0", slug=SLUG), store.SITE)

    def test_another_torch_of_that_name_disagrees_with_nothing(self) -> None:
        bug = runs.make_evidence(self.repro, bug=True)
        store.add(bug, store.SITE)
        same = self.send(**bug["build"])
        self.assertEqual(len(disagreements(self.repro.record, same)), 1)
        other = self.send("ann", **bug["build"] | {"git": "c" * 40})
        self.assertEqual(disagreements(self.repro.record, other), [])

    def test_a_sender_names_so_many_builds(self) -> None:
        with mock.patch.object(exchange, "MAX_BUILDS", 2):
            for minor in (16, 17):
                self.send(raw=f"2.{minor}.0+cpu")
            self.send(raw="2.17.0+cpu", git="3" * 40)
            with self.assertRaisesMessage(EvidenceRefused, "more than 2 builds"):
                self.send(raw="2.18.0+cpu")
            self.send("another", raw="2.18.0+cpu")

    def test_what_others_sent_takes_no_place_of_ours_on_a_page(self) -> None:
        ours = store.add(self.body(raw=RAW), store.SITE)
        for day in range(1, 4):
            body = self.body(raw=RAW) | {"started_at": f"2026-10-0{day}T00:00:00Z"}
            data = json.dumps(runs.signed(body)).encode()
            receive_evidence(data, "somebody")
        with mock.patch.object(run_page, "EVIDENCE_SHOWN", 2):
            shown = [row.evidence for row in run_page.evidence_rows(ours.record)]
        self.assertEqual(len(shown), 2)
        self.assertIn(ours, shown)
