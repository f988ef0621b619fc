"""Builds have a name by proof: what is sent invents none and occupies none."""

from __future__ import annotations

import json
from typing import Any

from django.test import TestCase

from kb.models import Finding
from runner import harness
from runner.builds import registry
from runner.evidence import store
from runner.evidence.exchange import receive_evidence
from runner.evidence.store import EvidenceRefused
from runner.models import Build, Evidence
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

    def send(self, **build: Any) -> Evidence:
        return receive_evidence(json.dumps(self.body(**build)).encode(), "somebody")

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

    def test_a_real_installation_takes_its_name_back(self) -> None:
        self.send(raw="2.16.0", slug=SLUG, git="2" * 40)
        self.assertEqual(Finding.objects.filter(build=SLUG).exists(), True)
        build = registry.save_identity(self.identity())
        self.assertEqual((build.raw, build.git), (RAW, "1" * 40))
        self.assertFalse(Finding.objects.filter(build=SLUG).exists())
        store.refresh_staleness(self.repro.record)
        self.assertFalse(Finding.objects.filter(build=SLUG).exists())
        self.assertEqual(Evidence.objects.count(), 1)

    def test_so_does_evidence_of_ours(self) -> None:
        self.send(raw="2.16.0", slug=SLUG)
        store.add(self.body(raw=RAW), store.SITE)
        self.assertEqual(Build.objects.get(slug=SLUG).raw, RAW)
        self.assertEqual(set(Finding.objects.values_list("origin")), {("site",)})

    def test_a_build_that_is_proven_is_nobody_s_to_rename(self) -> None:
        registry.save_identity(self.identity())
        runs.install("python", SLUG)
        self.assertIn("here", self.refused(raw="2.16.0", slug=SLUG))
        self.assertIn("commit", self.refused(raw=RAW, git="2" * 40))
        with self.assertRaises(registry.BuildError):
            registry.save_identity(self.identity(git="3" * 40))

    def test_what_is_sent_fills_no_blanks_of_a_build(self) -> None:
        Build.objects.create(slug=SLUG, raw=RAW)
        self.send(raw=RAW, git="2" * 40)
        self.assertEqual(Build.objects.get(slug=SLUG).git, "")
