"""Record folders: what is read, and what is refused."""

import re
import tempfile
from pathlib import Path

from django.test import SimpleTestCase

from kb.records.articles import scan, split_workarounds
from kb.records.files import (
    RecordError,
    ReproFacts,
    digest_of,
    read_all,
    read_record,
    repro_problems,
)
from tests.support import brief_record
from tests.support.sample_record import CHINESE, ENGLISH, FILES, edit, write_sample


class FolderTest(SimpleTestCase):
    def setUp(self) -> None:
        self.root = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.folder = write_sample(self.root)

    def problems(self) -> list[str]:
        with self.assertRaises(RecordError) as caught:
            read_record(self.folder)
        return [str(problem) for problem in caught.exception.problems]

    def assert_problem(self, *starts: str) -> None:
        found = self.problems()
        self.assertEqual(len(found), len(starts), found)
        for start in starts:
            self.assertTrue(any(text.startswith(start) for text in found), found)


class ReadingTest(FolderTest):
    def test_a_record_is_read_whole(self) -> None:
        record = read_record(self.folder)
        self.assertEqual((record.id, record.slug), ("NAN-9001", "sample"))
        self.assertEqual(record.facts["signature"][0]["text"], FACT_TEXT)
        self.assertEqual(record.articles["zh"]["root_cause"], "未确定。")
        self.assertIn("## not a heading", record.articles["en"]["symptom"])
        self.assertEqual(list(record.repros), ["repro"])

    def test_workarounds_are_split_by_name(self) -> None:
        text = read_record(self.folder).articles["en"]["workaround"]
        expected = {"": "Before any of them.", "turn_off": "Turn it off."}
        self.assertEqual(split_workarounds(text), expected)

    def test_evidence_and_hidden_files_are_no_content(self) -> None:
        before = read_record(self.folder).files_digest
        (self.folder / "evidence").mkdir()
        (self.folder / ".repro.py.swp").write_text("x")
        self.assertEqual(read_record(self.folder).files_digest, before)

    def test_windows_line_ends_are_read(self) -> None:
        before = read_record(self.folder).articles
        path = self.folder / "article.en.md"
        path.write_bytes(ENGLISH.replace("\n", "\r\n").encode())
        self.assertEqual(read_record(self.folder).articles, before)

    def test_the_digest_covers_names_and_bytes(self) -> None:
        files = as_bytes()
        renamed = {name.replace("repro", "repro_b"): files[name] for name in files}
        longer = {**files, "repro.py": files["repro.py"] + b"\n"}
        digests = {digest_of(files), digest_of(renamed), digest_of(longer)}
        self.assertEqual(len(digests), 3)


class FactsTest(FolderTest):
    def spoil(self, old: str, new: str) -> None:
        edit(self.folder / "issue.toml", old, new)

    def test_each_broken_key_is_named(self) -> None:
        cases = [
            ('upstream = "open"', 'upstream = "maybe"', "upstream"),
            ('upstream = "open"\n', "", "upstream"),
            ("schema = 1", "schema = 2", "schema"),
            ('id = "NAN-9001"', 'id = "TB-1"', "id"),
            ('slug = "sample"', 'slug = "other"', "slug"),
            ("related = []", "related = []\ncolour = 1", "colour"),
            ("related = []", 'related = "NAN-0001"', "related"),
            ('["sdpa"]', '["sdpa", "sdpa"]', "components[1]"),
            ('zh = "一个样例"', 'zh = "A sample"', "title.zh"),
            ('zh = "一个样例"', 'zh = ""', "title.zh"),
            (', zh = "一个样例"', "", "title"),
            ("一行说明", "一行\\n说明", "symptom.zh"),
            ('{fixed = "2.15.0"}', '{fixed = "two"}', "affected[0].events[1].fixed"),
            ('{fixed = "2.15.0"}', '{fixed = "2.1.0"}', "affected[0].events"),
            ('{introduced = "2.11.0"}, ', "", "affected[0].events"),
            ('seen = "printed"\n', "", "signature[0].seen"),
            ('seen = "printed"', 'seen = "heard"', "signature[0].seen"),
            ('seen = "printed"', 'seen = "reported"', "signature[0].source"),
            (PRINTED, 'seen = "printed"\nsource = "s-1"\n\n[', "signature[0].source"),
            (PRINTED, 'seen = "reported"\nsource = "s-2"\n\n[', "signature[0].source"),
            ('kind = "message"', 'kind = "facet"', "signature[0].seen"),
            ('state = "affected"', 'state = "bad"', "affected[0].builds[0].state"),
            ('version = "2.15.0"', 'version = "soon"', "fix[0].version"),
            ('kind = "root_fix"', 'kind = "cured"', "fix[0].kind"),
            ('name = "turn_off"', 'name = "turn-off"', "workaround[0].name"),
            ('expects = "clean"\n', "", "claim[0].expects"),
            ('check = "repro:workaround_turn_off"\n', "", "claim[0].check"),
            ('"repro:workaround_turn_off"', '"repro"', "claim[0].check"),
            ('source = "s-1"', 'source = "s-2"', "affected[0].source"),
            ("https://example.org/1", "javascript:alert(1)", "source[0].url"),
            ("https://example.org/1", "", "source[0].url"),
            ('date = "2025-03-20"', 'date = "March"', "source[0].date"),
            ('"NAN-9001"', '"NAN-9001"\nstate = "refuted"', "state"),
            ('"A report"', '"A \\u0000 report"', "source[0].title"),
            ('"published"', '"withdrawn"', "withdrawn_because"),
            (HOLDS, "", "holds_on"),
            (HOLDS, 'holds_on = {devices = [], why = "seen"}', "holds_on.devices"),
            ('["any"]', '["gpu"]', "holds_on.devices[0]"),
            ('["any"]', '["any", "cpu"]', "holds_on.devices"),
            ('["any"]', '["cpu"]', "holds_on.why"),
            ('why = "shared"', 'why = "seen"', "holds_on.why"),
        ]
        for old, new, key in cases:
            with self.subTest(key=key, new=new):
                (self.folder / "issue.toml").write_text(FILES["issue.toml"])
                self.spoil(old, new)
                self.assert_problem(f"issue.toml: {key}: ")

    def test_a_claims_state_cannot_be_typed_in(self) -> None:
        self.spoil('id = "c1"', 'id = "c1"\nstate = "verified"')
        self.assert_problem("issue.toml: claim[0].state: unknown key")

    def test_repeated_ids_are_refused(self) -> None:
        self.spoil('id = "c2"', 'id = "c1"')
        self.assert_problem("issue.toml: claim[1].id: 'c1' stands twice")

    def test_every_problem_is_reported_at_once(self) -> None:
        self.spoil('upstream = "open"', 'upstream = "maybe"')
        self.spoil('kind = "code"', 'kind = "magic"')
        self.spoil('source = "s-1"', 'source = "s-2"')
        edit(self.folder / "article.zh.md", "## 根因", "## 原因")
        (self.folder / "notes.txt").write_text("x")
        self.assert_problem(
            "issue.toml: upstream: must be one of",
            "issue.toml: workaround[0].kind: must be one of",
            "issue.toml: affected[0].source: no [[source]]",
            "article.zh.md: line 14: unknown heading",
            "article.zh.md: root_cause: heading “## 根因” is missing",
            "notes.txt: does not belong",
        )

    def test_what_is_no_toml_or_no_text_is_one_problem(self) -> None:
        (self.folder / "issue.toml").write_text("schema = \n")
        (self.folder / "repro.py").write_bytes(b"\xff\xfe")
        self.assert_problem("issue.toml: is not TOML", "repro.py: is not UTF-8")
        (self.folder / "issue.toml").write_text(f"a = {'[' * 5000}")
        self.assert_problem("issue.toml: is not TOML", "repro.py: is not UTF-8")

    def test_a_table_that_is_none_and_an_id_that_is_no_text_are_named(self) -> None:
        text = FILES["issue.toml"]
        for table in ("source", "workaround", "claim"):
            kept = re.sub(rf"\n\[\[{table}\]\](?:\n[^\[\n].*)*", "", text)
            (self.folder / "issue.toml").write_text(f"{table} = 3\n{kept}")
            self.assertIn(
                f"issue.toml: {table}: must be an array, not int",
                self.problems(),
            )
        for odd in ("3", "[]", "{x = []}"):
            (self.folder / "issue.toml").write_text(
                text.replace('id = "s-1"', f"id = {odd}")
            )
            with self.subTest(odd):
                self.assertIn("source[0].id: must look", "\n".join(self.problems()))

    def test_a_brief_article_without_facts_is_not_judged(self) -> None:
        for name, content in brief_record.FILES.items():
            (self.folder / name).write_text(content)
        (self.folder / "issue.toml").write_text("schema = \n")
        self.assert_problem("issue.toml: is not TOML")

    def test_a_missing_file_is_one_problem(self) -> None:
        (self.folder / "issue.toml").unlink()
        self.assert_problem("issue.toml: is missing")


class ArticleTest(FolderTest):
    def test_each_fault_is_found(self) -> None:
        cases = [
            ("## Fix", "## Remedy", "line 26: unknown heading", "fix: heading"),
            ("## Fix", "## Fix\n\na\n\n## Fix", "line 30: heading “## Fix” stands"),
            ("## Symptom", "Hello\n\n## Symptom", "line 1: text before"),
            ("A root fix.", "", "fix: is empty"),
            ("A root fix.", "# Big", "fix: line 1: only ###"),
            ("A root fix.", "Big\n---", "fix: line 2: dashes turn the line above"),
            ("A root fix.", "a <b>bold</b> fix", "fix: line 1: raw HTML"),
            ("A root fix.", "<!-- note -->", "fix: line 1: raw HTML"),
            ("A root fix.", "![x](https://e.org/x.png)", "fix: line 1: images"),
            ("A root fix.", "```python\nx", "fix: line 1: the code fence"),
            ("A root fix.", "a \x1b[31m b", "fix: holds a control character"),
            ("### turn_off", "### turn_on", "workaround: needs the headings"),
            ("Turn it off.", "", "workaround: “### turn_off” has no text"),
        ]
        for old, new, *starts in cases:
            with self.subTest(new=new):
                (self.folder / "article.en.md").write_text(ENGLISH)
                edit(self.folder / "article.en.md", old, new)
                self.assert_problem(*(f"article.en.md: {start}" for start in starts))

    def test_code_may_hold_anything(self) -> None:
        code = "`<b>`, x < y, torch<2.5\n\n```html\n# <b>\n![x](y)\n```"
        for name, old in (("en", "A root fix."), ("zh", "根本修复。")):
            edit(self.folder / f"article.{name}.md", old, f"{old}\n\n{code}")
        self.assertIn("<b>", read_record(self.folder).articles["en"]["fix"])

    def test_swapped_sections_are_refused(self) -> None:
        path = self.folder / "article.en.md"
        swapped = ENGLISH.replace("## Environment", "## X")
        swapped = swapped.replace("## Root cause", "## Environment")
        path.write_text(swapped.replace("## X", "## Root cause"))
        self.assert_problem("article.en.md: headings: wrong order")

    def test_chinese_prose_must_be_chinese(self) -> None:
        edit(self.folder / "article.zh.md", "未确定。", "Not established.")
        self.assert_problem("article.zh.md: root_cause: the Chinese text holds no")

    def test_chinese_in_code_only_is_not_chinese_prose(self) -> None:
        edit(self.folder / "article.zh.md", "未确定。", "`未确定`\n\n```\n未确定\n```")
        self.assert_problem("article.zh.md: root_cause: the Chinese text holds no")

    def test_chinese_equal_to_english_is_refused(self) -> None:
        edit(self.folder / "article.en.md", "Not established.", "未确定。")
        self.assert_problem("article.zh.md: root_cause: the Chinese text equals")

    def test_logs_are_never_translated(self) -> None:
        edit(self.folder / "article.zh.md", "loss: nan", "loss: 0.0")
        self.assert_problem("article.zh.md: symptom: the ```log fences differ")

    def test_a_longer_fence_holds_a_shorter_one(self) -> None:
        lines, fences = scan("````\n```\n## x\n````\n## y")
        self.assertEqual([line.fenced for line in lines], [True] * 4 + [False])
        self.assertEqual(fences[0].body, "```\n## x")


class ReproTest(FolderTest):
    def facts(self, **changes: object) -> dict[str, ReproFacts]:
        header = {"record": changes.get("record", "NAN-9001")}
        checks = changes.get("checks", ["control", "detector", "workaround_turn_off"])
        fidelity = str(changes.get("fidelity", "upstream_bug"))
        return {"repro": ReproFacts(fidelity, "cpu", header, list(checks))}  # type: ignore[call-overload]

    def check(self, **changes: object) -> list[str]:
        record = read_record(self.folder)
        found = repro_problems(record, self.facts(**changes))
        return [str(problem) for problem in found]

    def test_what_fits_is_accepted(self) -> None:
        self.assertEqual(self.check(), [])

    def test_the_header_names_its_record(self) -> None:
        self.assertIn("repro.py: record: must be", self.check(record="NAN-0001")[0])

    def test_a_claim_names_a_check_that_exists(self) -> None:
        self.assertIn("claim[0].check: repro.py has no", self.check(checks=[])[0])
        found = repro_problems(read_record(self.folder), {})
        self.assertIn("claim[0].check: there is no repro.py", str(found[0]))

    def test_a_workaround_check_names_a_workaround(self) -> None:
        checks = ["workaround_turn_off", "workaround_pray"]
        found = self.check(checks=checks)
        self.assertEqual(len(found), 1)
        self.assertIn("no [[workaround]] is named 'pray'", found[0])
        model = self.check(checks=checks, fidelity="mechanism_model")
        self.assertEqual(model, [])


class SetTest(FolderTest):
    def test_ids_aliases_and_relations_are_checked_between_records(self) -> None:
        other = write_sample(self.root, "second")
        edit(other / "issue.toml", 'slug = "sample"', 'slug = "second"')
        edit(other / "issue.toml", "related = []", 'related = ["NAN-0042"]')
        with self.assertRaises(RecordError) as caught:
            read_all(self.root)
        texts = sorted(str(problem) for problem in caught.exception.problems)
        shared = "example/project#1 belongs to several records"
        self.assertEqual(
            texts,
            [
                f"sample/issue.toml: aliases: {shared}",
                "sample/issue.toml: id: NAN-9001 is used by 2 folders",
                f"second/issue.toml: aliases: {shared}",
                "second/issue.toml: id: NAN-9001 is used by 2 folders",
                "second/issue.toml: related: there is no other record NAN-0042",
            ],
        )

    def test_problems_of_all_folders_are_reported(self) -> None:
        other = write_sample(self.root, "second")
        edit(self.folder / "issue.toml", '"nan_grad"', '"nan"')
        (other / "article.en.md").unlink()
        with self.assertRaises(RecordError) as caught:
            read_all(self.root)
        files = {problem.file for problem in caught.exception.problems}
        self.assertLessEqual({"sample/issue.toml", "second/article.en.md"}, files)

    def test_a_root_that_is_no_folder_is_refused(self) -> None:
        with self.assertRaises(RecordError):
            read_all(self.root / "nowhere")


HOLDS = 'holds_on = {devices = ["any"], why = "shared"}'
PRINTED = 'seen = "printed"\n\n['
FACT_TEXT = 'UserWarning: "strides" \\ differ'


def as_bytes() -> dict[str, bytes]:
    files = {**FILES, "article.zh.md": CHINESE}
    return {name: files[name].encode() for name in sorted(files)}
