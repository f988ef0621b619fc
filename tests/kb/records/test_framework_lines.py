"""Lines of a framework in a record: what may stand there, and that checks run them."""

from __future__ import annotations

from django.test import SimpleTestCase

from kb.choices import FRAMEWORKS
from kb.lookup.facts import TABLES
from kb.records.facts import FACTS_FILE
from kb.records.files import read_folder
from tests.kb.records.test_slips import FolderCase
from tests.support.sample_record import REPRO

COST = 'cost = {en = "Slower.", zh = "更慢。"}\n'
LINE = "[workaround.lines.transformers]\napply = '''\n{apply}'''\nsource = \"s-1\"\n"
ARGUMENTS = "TrainingArguments(..., bf16=True, learning_rate=lr / 10)"
CHECK = """

def workaround_turn_off():
    lr = 2.0
    net = made(TrainingArguments(output_dir="x", bf16={bf16}, learning_rate=lr / 10))
    return {{"nonfinite": net}}


def made(arguments):
    return len(str(arguments)) * 0
"""


class LinesTest(FolderCase):
    def line(self, table: str) -> None:
        self.edit_facts(COST, f"{COST}\n{table}")

    def assert_only(self, problem: str) -> None:
        (found,) = self.problems()
        self.assertIn(problem, found)

    def test_only_known_frameworks_with_a_line_and_a_source(self) -> None:
        self.line(LINE.format(apply="x").replace("transformers", "keras"))
        self.assert_only("workaround[0].lines.keras: unknown key; known are transf")

    def test_an_empty_table_or_line_is_refused(self) -> None:
        self.line("[workaround.lines]\n")
        self.assert_only("workaround[0].lines: must not be empty")

    def test_an_empty_line_is_refused(self) -> None:
        self.line(LINE.format(apply=""))
        self.assert_only("workaround[0].lines.transformers.apply: must not be empty")

    def test_its_source_is_one_of_the_record(self) -> None:
        self.line(LINE.format(apply="x").replace("s-1", "s-9"))
        self.assert_only("lines.transformers.source: no [[source]] has the id 's-9'")


class RunTest(FolderCase):
    """`repro_transformers.py` beside the sample's own repro."""

    def setUp(self) -> None:
        super().setUp()
        self.write("True")

    def write(self, bf16: str) -> None:
        source = REPRO.partition("def workaround_turn_off")[0] + CHECK.format(bf16=bf16)
        (self.folder / "repro_transformers.py").write_text(source)

    def line(self, apply: str) -> None:
        table = LINE.format(apply=apply)
        self.edit_facts(COST, f"{COST}\n{table}")

    def found(self) -> list[str]:
        return [str(problem) for problem in read_folder(self.folder)[1]]

    def test_what_is_printed_is_what_the_check_runs(self) -> None:
        self.line(ARGUMENTS)
        self.assertEqual(self.found(), [])
        self.write("False")
        (problem,) = self.found()
        self.assertIn("workaround_turn_off does not run TrainingArguments(", problem)

    def test_another_function_is_not_what_runs(self) -> None:
        self.line("SFTConfig(..., bf16=True)")
        (problem,) = self.found()
        self.assertIn("workaround_turn_off does not run SFTConfig(", problem)

    def test_a_function_of_that_name_is_no_method(self) -> None:
        self.line("net.str()")
        (problem,) = self.found()
        self.assertIn("workaround_turn_off does not run net.str()", problem)

    def test_what_a_check_runs_is_a_call(self) -> None:
        self.line("bf16: true")
        (problem,) = self.found()
        self.assertIn("has a check, so it must be Python with a call", problem)

    def test_a_check_of_a_framework_runs_a_line(self) -> None:
        (problem,) = self.found()
        self.assertIn("the workaround has no line for it to run", problem)
        self.assertIn("repro_transformers.py", problem)
        self.assertNotIn(FACTS_FILE, problem)


class NamesTest(SimpleTestCase):
    def test_each_framework_is_a_trainer_that_a_paste_can_name(self) -> None:
        self.assertLessEqual(FRAMEWORKS.keys(), TABLES["trainer"].keys())
