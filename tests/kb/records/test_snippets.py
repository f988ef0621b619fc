"""Code that readers paste: it is a repro's own function, whole, and it is shown."""

from __future__ import annotations

import tempfile
from pathlib import Path

from django.conf import settings
from django.test import SimpleTestCase, TestCase, override_settings

from kb.models import Record
from kb.publishing.loading import load_records
from kb.records.files import RecordError, read_record
from kb.records.snippets import expanded, parsed, snippets_of, whole_problems
from runner.evidence.repros import inspect
from tests.support.sample_record import edit, write_sample

FUNCTION = '''\
def apply_turn_off(values, eps=math.inf):
    """Replaces what is not finite in `values`."""
    # Below eps.
    return [value if value < eps else 0 for value in sorted(values)]
'''
DIAGNOSIS = '''\
def diagnose_it(values):
    """True where a value is not finite."""
    return any(not math.isfinite(value) for value in values)
'''
SNIPPET = "import math\n\n" + FUNCTION.rstrip()


class SampleTest(SimpleTestCase):
    """The sample record with its workaround as a function of the repro."""

    def setUp(self) -> None:
        self.root = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.folder = write_sample(self.root)
        repro = self.folder / "repro.py"
        edit(
            repro,
            '"""A sample."""\n',
            f'"""A sample."""\n\nimport math\n\n\n{FUNCTION}',
        )
        edit(
            repro,
            'workaround_turn_off():\n    return {"nonfinite": 0}',
            'workaround_turn_off():\n    return {"nonfinite": len(apply_turn_off([]))}',
        )
        edit(self.folder / "issue.toml", 'apply = "off(1)\\noff(2)"\n', "")
        for name, text in (("en", "Turn it off."), ("zh", "关掉它。")):
            fence = f"```python\napply_turn_off\n```\n\n{text}"
            edit(self.folder / f"article.{name}.md", text, fence)

    def add_diagnosis(self) -> None:
        repro = self.folder / "repro.py"
        edit(repro, "def control():", f"{DIAGNOSIS}\n\ndef control():")
        for check in ("control", "trigger"):
            edit(
                repro,
                f"def {check}():\n    return {{",
                f'def {check}():\n    return {{"diagnose_it": diagnose_it([]), ',
            )
        edit(
            self.folder / "issue.toml",
            "[[claim]]",
            '[[diagnosis]]\nname = "it"\n'
            'text = {en = "True: yours.", zh = "为真：是你的。"}\n\n[[claim]]',
        )

    def problems(self) -> str:
        with self.assertRaises(RecordError) as caught:
            read_record(self.folder)
        return str(caught.exception)


class ReadingTest(SampleTest):
    def test_a_snippet_is_the_function_below_the_imports_that_it_uses(self) -> None:
        self.assertEqual(read_record(self.folder).snippets, {"apply_turn_off": SNIPPET})

    def test_every_printed_snippet_can_be_pasted(self) -> None:
        """Alone in an empty module, all that it names is there."""
        for path in sorted(settings.ISSUES_DIR.glob("*/repro*.py")):
            source = path.read_text()
            for name, code in snippets_of({path.stem: source}).items():
                with self.subTest(f"{path.parent.name} {name}"):
                    module = parsed(code)
                    assert module is not None
                    function = module.body[-1]
                    self.assertEqual(list(whole_problems(module, code, function)), [])

    def test_code_is_not_written_twice(self) -> None:
        edit(self.folder / "issue.toml", 'needs = ""', 'apply = "off()"\nneeds = ""')
        self.assertIn("workaround[0].apply: leave it out", self.problems())

    def test_a_workaround_has_code_or_a_function(self) -> None:
        edit(self.folder / "repro.py", "def apply_turn_off", "def turn_off")
        self.assertIn("workaround[0].apply: is missing", self.problems())

    def test_the_article_prints_the_function_and_no_other_code(self) -> None:
        edit(self.folder / "article.zh.md", "apply_turn_off", "off(1)")
        problems = self.problems()
        self.assertIn("article.zh.md: ### turn_off: needs the fence", problems)
        self.assertIn("article.zh.md: ### turn_off: shows code", problems)
        self.assertNotIn("article.en.md", problems)

    def test_the_check_calls_the_function(self) -> None:
        edit(self.folder / "repro.py", "len(apply_turn_off([]))", "0")
        self.assertIn(
            "repro.py: apply_turn_off: workaround_turn_off must call it",
            self.problems(),
        )

    def test_a_function_is_whole_and_says_what_it_takes(self) -> None:
        edit(self.folder / "repro.py", "value < eps", "value < LIMIT")
        edit(
            self.folder / "repro.py",
            '    """Replaces what is not finite in `values`."""\n',
            "",
        )
        problems = self.problems()
        self.assertIn("apply_turn_off: uses LIMIT", problems)
        self.assertIn("apply_turn_off: needs a docstring", problems)

    def test_one_name_is_one_code_in_all_repros_of_a_record(self) -> None:
        second = self.folder / "repro_second.py"
        second.write_text((self.folder / "repro.py").read_text())
        read_record(self.folder)
        edit(second, "value < eps", "value <= eps")
        self.assertIn(
            "repro_second.py: apply_turn_off: differs from repro.py",
            self.problems(),
        )

    def test_a_diagnosis_is_called_with_and_without_the_bug(self) -> None:
        self.add_diagnosis()
        self.assertIn("diagnose_it", read_record(self.folder).snippets)
        edit(self.folder / "repro.py", '"diagnose_it": diagnose_it([]), ', "")
        self.assertIn("diagnose_it: control must call it", self.problems())

    def test_a_diagnosis_is_short_and_declared(self) -> None:
        self.add_diagnosis()
        edit(self.folder / "issue.toml", 'name = "it"', 'name = "that"')
        long = "    print()\n" * 10 + "    return any("
        edit(self.folder / "repro.py", "    return any(", long)
        problems = self.problems()
        self.assertIn("no repro has the function diagnose_that", problems)
        self.assertIn("no [[diagnosis]] is named 'it'", problems)
        self.assertIn("has 11 lines; the limit is 10", problems)

    def test_only_a_fence_that_names_a_snippet_is_filled(self) -> None:
        text = "```python\napply_a\n```\n`apply_a`\n```log\napply_b\n```\napply_a"
        self.assertEqual(
            expanded(text, {"apply_a": "one\ntwo"}),
            "```python\none\ntwo\n```\n`apply_a`\n```log\napply_b\n```\napply_a",
        )


class LoadedTest(SampleTest, TestCase):
    """The same in the database, on pages and back in files."""

    def setUp(self) -> None:
        super().setUp()
        self.enterContext(override_settings(ISSUES_DIR=self.root))
        self.add_diagnosis()
        load_records(self.root, inspect=inspect)
        self.record = Record.objects.get(pk="NAN-9001")

    def test_the_function_stands_for_the_line_to_copy(self) -> None:
        self.assertEqual(self.record.workarounds[0]["apply"], SNIPPET)
        self.assertIn("import math", self.record.diagnoses[0]["code"])
        html = self.record.html["zh"]["workarounds"]["turn_off"]
        self.assertIn("def apply_turn_off", html)


class ShippedTest(SimpleTestCase):
    def test_the_code_of_workarounds_is_a_function_that_runs(self) -> None:
        prose: dict[str, set[str]] = {}
        for folder in sorted(settings.ISSUES_DIR.glob("*/issue.toml")):
            record = read_record(folder.parent)
            for row in record.facts.get("workaround", []):
                if row["kind"] == "code" and "apply" in row:
                    prose.setdefault(record.id, set()).add(row["name"])
        self.assertEqual(prose, {})
