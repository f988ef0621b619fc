"""Slips in a record folder that nothing else would notice, and their lines."""

import tempfile
from pathlib import Path

from django.conf import settings
from django.test import SimpleTestCase

from kb.records.build_slugs import WHOLE, known_builds
from kb.records.facts import facts_problems
from kb.records.files import (
    Problem,
    RecordError,
    RecordFile,
    ReproFacts,
    read_all,
    repro_problems,
)
from kb.records.open_places import open_places
from kb.records.places import line_of_key, located
from tests.support.sample_record import FACTS, edit, write_sample

TOML = '''\
schema = 1
title = {en = "a", zh = "b"}

[[signature]]
kind = "message"
text = """
[[claim]]
kind = "not a key"
"""

[[claim]]
id = "c1"

[[claim]]
id = "c2"
builds = ["*"]
'''


class FolderCase(SimpleTestCase):
    def setUp(self) -> None:
        self.root = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.folder = write_sample(self.root)

    def problems(self) -> list[str]:
        """With their lines, as the commands print them."""
        with self.assertRaises(RecordError) as caught:
            read_all(self.root)
        return [located(self.root, problem) for problem in caught.exception.problems]

    def edit_facts(self, old: str, new: str) -> None:
        edit(self.folder / "issue.toml", old, new)


class BuildTest(FolderCase):
    def claim_about(self, slug: str) -> None:
        self.edit_facts('builds = ["*"]', f'builds = ["{slug}"]')

    def test_a_claim_names_a_build_that_can_exist(self) -> None:
        self.claim_about("2.0.1")
        (text,) = self.problems()
        self.assertRegex(text, r"^sample/issue\.toml:\d+: claim\[0\]\.builds\[0\]: ")
        self.assertIn("no build is called '2.0.1'", text)
        line = (self.folder / "issue.toml").read_text().splitlines()
        self.assertIn("2.0.1", line[int(text.split(":")[1]) - 1])

    def test_builds_of_that_version_are_named(self) -> None:
        self.claim_about("2.0.1")
        (self.folder / "evidence").mkdir()
        (self.folder / "evidence" / "repro_two-2.0.1-cu117.json").write_text("{}")
        self.assertIn("such as 2.0.1-cu117", self.problems()[0])

    def test_builds_nobody_has_run_yet_and_odd_names_that_ran_are_fine(self) -> None:
        self.claim_about("9.9.0-cu999")
        read_all(self.root)
        edit(self.folder / "issue.toml", "9.9.0-cu999", "house-build")
        self.assertEqual(len(self.problems()), 1)
        (self.folder / "evidence").mkdir()
        (self.folder / "evidence" / "repro-house-build.json").write_text("{}")
        read_all(self.root)

    def test_every_slug_of_the_harness_has_the_form(self) -> None:
        known = known_builds(settings.ISSUES_DIR)
        self.assertGreater(len(known), 10)
        for slug in known:
            self.assertRegex(slug, WHOLE)

    def test_an_affected_build_is_a_version_or_a_revision(self) -> None:
        raw = "2.6.0a0+df5bbc09d1.nv24.12"
        self.edit_facts(raw, "git+https://github.com/fla-org/fla@b4ff1936")
        read_all(self.root)
        self.edit_facts("git+https://github.com/fla-org/fla@b4ff1936", "2.6.0-cu124-x")
        self.assertIn("affected[0].builds[0].raw: must be", self.problems()[0])


class BoundTest(SimpleTestCase):
    def problems(self, *events: dict[str, str]) -> list[tuple[str, str]]:
        row = {"package": "torch", "events": list(events), "source": "s-1"}
        return [
            problem
            for problem in facts_problems({"affected": [row]})
            if problem[0].startswith("affected[0].events")
        ]

    def test_a_range_from_a_version_to_itself_holds_nothing(self) -> None:
        ((key, text),) = self.problems({"introduced": "2.4"}, {"fixed": "2.4.0"})
        self.assertEqual(key, "affected[0].events[1].fixed")
        self.assertIn("holds no version", text)

    def test_one_that_ends_and_begins_again_at_once_did_not_end(self) -> None:
        events = {"introduced": "2.1"}, {"fixed": "2.4"}, {"introduced": "2.4"}
        ((key, text),) = self.problems(*events)
        self.assertEqual(key, "affected[0].events[2].introduced")
        self.assertIn("begins again in 2.4", text)

    def test_a_single_version_is_a_range(self) -> None:
        events = {"introduced": "2.4"}, {"last_affected": "2.4"}
        self.assertEqual(self.problems(*events), [])


class OpenPlaceTest(FolderCase):
    def test_a_published_record_has_none(self) -> None:
        edit(self.folder / "article.zh.md", "根本修复。", "TODO：写修复。")
        edit(self.folder / "repro.py", '"""A sample."""', '"""TODO: say it."""')
        self.edit_facts('components = ["sdpa"]', 'components = ["todo_topic"]')
        found = self.problems()
        self.assertEqual(len(found), 3, found)
        for start in ("article.zh.md:28: ", "issue.toml:7: ", "repro.py:11: "):
            self.assertTrue(any(t.startswith(f"sample/{start}") for t in found), found)
        self.assertIn("still to be written, so it cannot be published", found[0])

    def test_a_draft_may_have_them(self) -> None:
        self.edit_facts('components = ["sdpa"]', 'components = ["todo_topic"]')
        self.edit_facts('"published"', '"draft"')
        (record,) = read_all(self.root)
        self.assertIsInstance(record, RecordFile)

    def test_only_the_mark_itself_counts(self) -> None:
        text = "TODOS mytodo_x AUTODO a_TODO TODO1"
        self.assertEqual(list(open_places({"a": text})), [])
        places = list(open_places({"a": "x\nTODO写\nrun_todo_name()"}))
        self.assertEqual([line for _name, line, _text in places], [2])


class PlaceTest(FolderCase):
    def test_keys_have_lines(self) -> None:
        for key, line in {
            "schema": 1,
            "title.zh": 2,
            "signature[0].text": 6,
            "claim[0].id": 12,
            "claim[0].builds": 11,  # not there: the table that lacks it
            "claim[1].builds[0]": 16,
            "claim[7].id": 0,
            "nothing": 0,
        }.items():
            self.assertEqual(line_of_key(TOML, key), line, key)

    def test_sections_checks_and_header_keys_have_lines(self) -> None:
        for problem, start in {
            ("article.en.md", "fix", "is empty"): "sample/article.en.md:26: fix: is",
            (
                "article.en.md",
                "fix",
                "line 1: raw HTML",
            ): "sample/article.en.md:28: fix: raw",
            ("article.en.md", "line 3", "text"): "sample/article.en.md:3: text",
            ("repro.py", "record", "must"): "sample/repro.py:5: record: must",
            ("repro.py", "", "line 7: no"): "sample/repro.py:7: no",
            ("repro.py", "", "tool.doesitnan.bug: x"): "sample/repro.py:8: tool.",
            ("gone.py", "", "is missing"): "sample/gone.py: is missing",
        }.items():
            name, key, message = problem
            text = located(self.root, Problem(f"sample/{name}", key, message))
            self.assertTrue(text.startswith(start), (text, start))

    def test_the_sample_has_what_these_tests_count(self) -> None:
        self.assertEqual(FACTS.splitlines()[6], 'components = ["sdpa"]')


class CheckTest(FolderCase):
    """[[check]]: what a check does, in words."""

    def name(self, check: str) -> None:
        text = 'text = {en = "Turned off", zh = "关掉"}'
        with (self.folder / "issue.toml").open("a") as file:
            file.write(f'\n[[check]]\nname = "{check}"\n{text}\n')

    def test_it_names_a_check_of_a_repro_or_a_workaround(self) -> None:
        self.name("workaround_turn_off")
        (record,) = read_all(self.root)
        self.assertEqual(record.facts["check"][0]["text"]["zh"], "关掉")
        self.name("refuted_nothing")
        (text,) = self.checked()
        self.assertIn("no repro has the check refuted_nothing", text)

    def test_each_stands_once(self) -> None:
        self.name("workaround_turn_off")
        self.name("workaround_turn_off")
        self.assertIn("'workaround_turn_off' stands twice", "".join(self.problems()))

    def checked(self) -> list[str]:
        """Problems that show only beside the repros themselves."""
        (record,) = read_all(self.root)
        header = {"record": record.id}
        facts = ReproFacts("upstream_bug", "cpu", header, ["workaround_turn_off"])
        return [str(row.message) for row in repro_problems(record, {"repro": facts})]
