"""Parameters of a repro: declared, checked by the parent, followed by every check."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from django.conf import settings
from django.test import SimpleTestCase

from portable import harness
from portable.harness import ContractError, ParameterError
from tests.support import parametrized, runs

CHOICE = 'dtype = ["a", "b"]\n# '
HOSTILE: dict[str, Any] = {
    "text": "evil",
    "nan": float("nan"),
    "infinity": float("inf"),
    "negative": -1,
    "a billion": 10**9,
    "beyond every float": 10**400,
    "bool": True,
    "none": None,
    "list": [1],
    "table": {"$float": "nan"},
    "fraction": 1.5,
    "huge text": "9" * 100_000,
    "code": "__import__('os').system('true')",
}


def declared(lines: str) -> str:
    """The sample with other parameters, bounds or variants."""
    at = parametrized.source().index("# [tool.doesitnan.parameters]")
    end = parametrized.source().index("# ///\n", at)
    return parametrized.source()[:at] + lines + parametrized.source()[end:]


class ValuesTest(SimpleTestCase):
    header = parametrized.header()

    def refused(self, values: dict[str, Any]) -> list[str]:
        with self.assertRaises(ParameterError) as caught:
            harness.choose(self.header, values)
        return caught.exception.errors

    def test_hostile_values_are_refused_with_the_name(self) -> None:
        for what, value in HOSTILE.items():
            for name in ("length", "dtype"):
                with self.subTest(what, name=name):
                    (error,) = self.refused({name: value})
                    self.assertTrue(error.startswith(f"{name}: must be "), error)
                    self.assertLess(len(error), 200)

    def test_texts_are_refused_as_well(self) -> None:
        for text in (
            "nan",
            "1e400",
            "-3",
            "1000000000",
            "true",
            "1.5",
            "",
            "9" * 10**5,
        ):
            with self.subTest(text[:20]), self.assertRaises(ParameterError) as caught:
                harness.read_settings(self.header, [f"length={text}"])
            self.assertTrue(caught.exception.errors[0].startswith("length: "))

    def test_an_unknown_name_is_named(self) -> None:
        self.assertEqual(
            self.refused({"\x1b[31m" + "x" * 90: 1})[0],
            "␛[31m"
            + "x" * 35
            + ": no parameter of this repro has that name; it has: "
            + ", ".join(self.header.parameters),
        )

    def test_one_without_parameters_says_so(self) -> None:
        with self.assertRaises(ParameterError) as caught:
            harness.choose(replace(self.header, parameters={}), {"length": 1})
        said = ["length: this repro has no parameters"]
        self.assertEqual(caught.exception.errors, said)

    def test_a_bound_refuses_before_anything_runs(self) -> None:
        self.assertEqual(
            self.refused({"length": 4096}),
            [
                "length: this run would need about 16484 MiB of memory; the limit is "
                "2048 MiB"
            ],
        )

        def start(spec: harness.CheckSpec) -> harness.Report:
            raise AssertionError("it was started")

        with self.assertRaises(ParameterError):
            harness.drive(parametrized.source(), start, parameters={"length": 4096})

    def test_defaults_are_no_choice(self) -> None:
        chosen = harness.choose(self.header, {"length": 6, "scale": 1})
        self.assertEqual(chosen, {})

    def test_values_get_the_type_of_the_declaration(self) -> None:
        chosen = harness.choose(self.header, {"scale": 2, "dtype": "float16"})
        self.assertEqual(chosen, {"dtype": "float16", "scale": 2.0})
        self.assertIsInstance(chosen["scale"], float)
        read = harness.read_settings(self.header, ["length=704", "scale=1e-1"])
        self.assertEqual(read, {"length": 704, "scale": 0.1})

    def test_half_precision_widens_what_is_not_exact(self) -> None:
        header = harness.parse_header(
            parametrized.source().replace(
                "match = {grad = 1e-6}", "match = {grad = 1e-6, length = 0}"
            )
        )
        match = harness.at_values(header, {"dtype": "bfloat16"}).match
        self.assertEqual(match, {"grad": 2.0**-5, "length": 0})
        self.assertEqual(harness.at_values(header, {"length": 7}).match, header.match)


class DeclarationTest(SimpleTestCase):
    def errors(self, lines: str) -> str:
        with self.assertRaises(ContractError) as caught:
            harness.read_repro(declared(lines))
        return "\n".join(caught.exception.errors)

    def test_what_is_declared_must_be_read_and_the_other_way_round(self) -> None:
        errors = self.errors(
            '# [tool.doesitnan.parameters]\n# dtype = ["a", "b"]\n'
            "# length = {min = 1, max = 2, default = 1}\n"
            "# width = {min = 1, max = 2, default = 1}\n"
        )
        self.assertIn("parameters.width: the source never reads it", errors)
        self.assertIn("parameter('scale'): tool.doesitnan.parameters declares", errors)

    def test_a_declaration_that_cannot_be_meant_is_refused(self) -> None:
        for line, said in {
            "length = {min = 1, max = 4}": "needs a list of choices, or min, max",
            "length = {min = 1, max = 4, default = 5}": "its own default",
            "length = {min = 1, max = 1e300, default = 5}": "within 10^12",
            "length = {min = 1, max = 4, default = 2, step = 1}": "unknown key step",
            'dtype = ["a"]': "from 2 to 16 choices",
            'dtype = ["a", 1]': "of one type",
            'dtype = ["a", "a"]': "stands twice",
            'dtype = ["a", "b; rm -rf"]': "cannot be a choice",
            CHOICE + '[tool.doesitnan.bounds]\n# time_s = "dtype * 2"': (
                "bounds.time_s: dtype is no number"
            ),
            CHOICE + '[tool.doesitnan.bounds]\n# disk = "2"': "disk",
            CHOICE + '[tool.doesitnan.bounds]\n# time_s = "2 ** 9"': (
                "a sum of products"
            ),
            CHOICE + '[tool.doesitnan.variants]\n# x = {dtype = "c"}': (
                "variants.x: dtype: must be one of a, b"
            ),
            CHOICE + '[tool.doesitnan.variants]\n# x = {dtype = "a"}': (
                "variants.x: must name other values"
            ),
        }.items():
            with self.subTest(line):
                found = self.errors(f"# [tool.doesitnan.parameters]\n# {line}\n")
                self.assertIn(said, found)

    def test_a_bound_that_the_defaults_exceed_is_refused(self) -> None:
        source = parametrized.source().replace('"100 +', '"3000 +')
        with self.assertRaisesRegex(ContractError, "tool.doesitnan.bounds"):
            harness.parse_header(source)

    def test_formulas(self) -> None:
        values = {"a": 3, "b": 4}
        for formula, wanted in {
            "2": 2.0,
            "a * b / 2 + 1": 7.0,
            "10 / a": 10 / 3,
            "a*a + b*b": 25.0,
        }.items():
            self.assertEqual(harness.amount(formula, values), wanted)
        self.assertEqual(harness.amount("a / b", {"a": 1, "b": 0}), float("inf"))


class RunTest(SimpleTestCase):
    """By the harness alone, cold, under a torch that only names itself."""

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.python = str(runs.stand_in_torch(folder))
        cls.path = folder / "repro.py"
        cls.path.write_text(parametrized.source())

    def drive(self, **values: Any) -> Any:
        start = harness.start_plain(self.python, str(self.path))
        return harness.drive(parametrized.source(), start, parameters=values)

    def test_every_check_follows_the_values(self) -> None:
        found = self.drive(dtype="bfloat16", length=704)
        self.assertEqual(found["parameters"], {"dtype": "bfloat16", "length": 704})
        for check in found["checks"][1:]:
            with self.subTest(check["name"]):
                seen = check["observations"]
                self.assertEqual((seen["dtype"], seen["length"]), ("bfloat16", 704))
                self.assertEqual(seen["scale"], 1)
        self.assertEqual(found["verdict"], "bug_present")
        self.assertIsNone(found["is_affected"])
        self.assertNotIn("variants", found)

    def test_the_code_of_workarounds_runs_in_every_variant(self) -> None:
        found = self.drive()
        self.assertNotIn("parameters", found)
        self.assertEqual(list(found["variants"]), ["bf16", "long"])
        bf16 = found["variants"]["bf16"]
        self.assertEqual(
            [(check["name"], check["outcome"]) for check in bf16["checks"]],
            [("control", "clean"), ("trigger", "bug"), ("workaround_off", "clean")],
        )
        self.assertEqual(bf16["workarounds"], {"off": "verified"})
        self.assertEqual(
            found["variants"]["long"]["workarounds"], {"off": "does_not_help"}
        )

    def test_workarounds_run_as_often_in_a_variant(self) -> None:
        source = parametrized.source().replace("# trials = 1", "# trials = 3")
        self.path.write_text(source)
        start = harness.start_plain(self.python, str(self.path))
        found = harness.drive(source, start)["variants"]
        self.path.write_text(parametrized.source())
        # What has failed once needs no further trial.
        for variant, often in (("bf16", 3), ("long", 1)):
            with self.subTest(variant):
                ran = [check["name"] for check in found[variant]["checks"]]
                self.assertEqual(ran.count("workaround_off"), often)

    def test_nothing_is_known_of_a_variant_without_the_bug(self) -> None:
        source = parametrized.source().replace(
            'bf16 = {dtype = "bfloat16"}', 'fp16 = {dtype = "float16"}'
        )
        self.path.write_text(source)
        start = harness.start_plain(self.python, str(self.path))
        found = harness.drive(source, start)["variants"]["fp16"]
        self.path.write_text(parametrized.source())
        self.assertEqual(found["workarounds"], {"off": "untested"})
        self.assertEqual([c["name"] for c in found["checks"]], ["control", "trigger"])

    def test_a_run_without_the_bug_has_no_variants(self) -> None:
        found = self.drive(dtype="float16")
        self.assertEqual(found["verdict"], "bug_absent")
        self.assertNotIn("variants", found)

    def test_a_child_that_ran_other_values_is_refused(self) -> None:
        start = harness.start_plain(self.python, str(self.path))

        def ignoring(spec: harness.CheckSpec) -> harness.Report:
            spec.parameters.clear()
            return start(spec)

        source = parametrized.source()
        found = harness.drive(source, ignoring, parameters={"length": 704})
        self.assertEqual((found["verdict"], found["reason"]), ("error", "refused"))

    def test_the_command_line(self) -> None:
        command = [sys.executable, str(Path(harness.__file__).parent), str(self.path)]
        command += ["--python", self.python]
        done = subprocess.run(
            [*command, "--set", "length=704", "--set", "dtype=float16"],
            capture_output=True,
            text=True,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("length=704: other values", done.stdout)
        for hostile in ("length=nan", "length=1e400", "length=1000000000", "dtype=x"):
            done = subprocess.run(
                [*command, "--set", hostile], capture_output=True, text=True
            )
            name = hostile.partition("=")[0]
            self.assertEqual(done.returncode, 2)
            self.assertTrue(done.stderr.startswith(f"harness: {name}: must be"))


class ShippedTest(SimpleTestCase):
    def test_at_least_25_records_have_parameters(self) -> None:
        headers = [
            harness.parse_header(path.read_text())
            for path in settings.ISSUES_DIR.glob("*/repro*.py")
        ]
        having = {header.record for header in headers if header.parameters}
        self.assertGreaterEqual(len(having), 25)
