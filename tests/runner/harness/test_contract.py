"""The contract of a repro: header, checks, predicates, requirements."""

from __future__ import annotations

import json
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any
from unittest import mock

from django.test import SimpleTestCase

from portable import harness
from portable.harness import ContractError, Header, contract, toml
from portable.harness.contract import MetricError
from tests import ROOT

SHIPPED = sorted(
    [*ROOT.glob("fixtures/issues/*/repro*.py"), *ROOT.glob("tests/repros/*.py")]
)

HEADER = """\
# /// script
# requires-python = ">=3.9"
# dependencies = ["torch>=2.0", "numpy"]
# [tool.doesitnan]
# record = "NAN-0002"
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "nonfinite > 0"
# match = {grad_norm = 1e-6}
# ///
"""
CHECKS = """
def control(): ...
def detector(): ...
def trigger(): ...
"""


def header_with(old: str, new: str) -> str:
    assert old in HEADER
    return HEADER.replace(old, new)


def with_line(line: str) -> str:
    """The header with one more line, its tenth."""
    return header_with("# ///\n", f"# {line}\n# ///\n")


def errors_of(source: str) -> list[str]:
    try:
        harness.read_repro(source)
    except ContractError as error:
        return error.errors
    return []


class HeaderTest(SimpleTestCase):
    def test_every_key_is_read(self) -> None:
        source = """\
#!/usr/bin/env python3
# /// script
# dependencies = [
#   "torch>=2.4",  # a comment
# ]
# [tool.doesitnan]
# record = "NAN-0006"
# fidelity = "real_kernel"
# device = "cuda"
# min_capability = "9.0"
# min_memory_gib = 0.5
# min_devices = 2
# needs = ["compiler", "loader"]
# stack = {transformers = "4.34.1"}
# bug = ["nonfinite > 0", "loss is_nonfinite"]
# match_waived = "the rounding differs"
# expect = {ran = "cudnn"}
# trials = 5
# timeout_s = 300
# memory_mib = 4096
# env = {all = {A = "1"}, trigger = {B = ""}}
# ///
"""
        self.assertEqual(
            harness.parse_header(source),
            Header(
                record="NAN-0006",
                fidelity="real_kernel",
                device="cuda",
                min_capability="9.0",
                min_memory_gib=0.5,
                min_devices=2,
                needs=("compiler", "loader"),
                stack={"transformers": "4.34.1"},
                bug=("nonfinite > 0", "loss is_nonfinite"),
                match_waived="the rounding differs",
                expect={"ran": "cudnn"},
                trials=5,
                timeout_s=300,
                memory_mib=4096,
                env={"all": {"A": "1"}, "trigger": {"B": ""}},
                dependencies=("torch>=2.4",),
            ),
        )

    def test_defaults(self) -> None:
        header = harness.parse_header(HEADER)
        self.assertEqual(header.trials, 1)
        self.assertEqual(header.timeout_s, 60)
        self.assertEqual(header.memory_mib, 2048)
        self.assertEqual(header.min_devices, 1)
        self.assertEqual((header.needs, header.stack, header.env), ((), {}, {}))

    def test_one_wrong_line_is_one_error_that_names_the_key(self) -> None:
        own = "tool.doesitnan."
        wrong = {
            'fidelity = "upstream_bug"': (
                'fidelity = "bug"',
                own + "fidelity: must be",
            ),
            'record = "NAN-0002"': ('record = "TB-1"', own + "record: must look like"),
            'device = "cpu"': ('device = "mps"', own + "device: must be one of"),
            'bug = "nonfinite > 0"': ("bug = []", own + "bug: must not be empty"),
            "match = {grad_norm = 1e-6}": ("match = {X = 1}", own + "match: 'X'"),
            '"torch>=2.0"': ('"torch>=2.0,<3"', "dependencies: 'torch>=2.0,<3': only"),
            '"numpy"': ('"numpy==2.1"', "dependencies: 'numpy==2.1': only lower"),
            '">=3.9"': ('">=3.9,<3.13"', "requires-python: only a lower bound"),
        }
        for old, (new, message) in wrong.items():
            with self.subTest(new):
                errors = errors_of(header_with(old, new) + CHECKS)
                self.assertEqual(len(errors), 1, errors)
                self.assertTrue(errors[0].startswith(message), errors[0])

    def test_wrong_values_of_added_keys(self) -> None:
        wrong = {
            "surprise = 1": "tool.doesitnan.surprise: unknown key",
            "trials = 0": "tool.doesitnan.trials: must be from 1 to 100",
            "trials = true": "tool.doesitnan.trials: must be an integer",
            "timeout_s = inf": "tool.doesitnan.timeout_s: must be a number",
            'needs = ["gpu"]': "tool.doesitnan.needs: must be one of",
            'needs = "compiler"': "tool.doesitnan.needs: must be a list",
            'any_device = "mps"': "tool.doesitnan.any_device: must be true",
            'any_device = true\n# needs = ["loader"]': "tool.doesitnan.any_device:",
            'min_capability = "9.0"': "tool.doesitnan.min_capability: only where",
            'match_waived = "why"': "tool.doesitnan.match: stands beside",
            'env = {all = {PATH = "/tmp"}}': "tool.doesitnan.env: PATH is set by",
            'env = {all = {LD_PRELOAD = "x"}}': "tool.doesitnan.env: LD_PRELOAD is",
            'env = {workaround_no = {A = "1"}}': "tool.doesitnan.env.workaround_no:",
            "expect = {ran = [1]}": "tool.doesitnan.expect: must be a text",
        }
        for line, message in wrong.items():
            with self.subTest(line):
                source = with_line(line) + CHECKS
                errors = errors_of(source)
                self.assertEqual(len(errors), 1, errors)
                self.assertTrue(errors[0].startswith(message), errors[0])

    def test_all_problems_are_told_at_once(self) -> None:
        source = HEADER.replace('"upstream_bug"', "1").replace('"cpu"', "2")
        self.assertEqual(len(errors_of(source + CHECKS)), 2)

    def test_missing_keys_are_named(self) -> None:
        errors = errors_of("# /// script\n# [tool.doesitnan]\n# ///\n" + CHECKS)
        self.assertEqual(
            errors,
            [f"tool.doesitnan.{key}: missing" for key in ("fidelity", "device", "bug")],
        )
        errors = errors_of('# /// script\n# dependencies = ["torch"]\n# ///\n')
        self.assertEqual(errors, ["tool.doesitnan: missing"])

    def test_syntax_errors_name_the_line(self) -> None:
        for line, message in {
            'x = "a': "line 10: expected a value",
            "x = 1979-05-27": "line 10: expected a value",
            "a.b = 1": "line 10: dotted keys",
            "[[tool.x]]": "line 10: arrays of tables",
            "x = 1 2": "line 10: expected the end of the line",
            "x = {a = 1,}": "line 10: expected a key",
            'x = "\\q"': "line 10: unknown escape",
            'device = "cuda"': "line 10: device stands twice",
            "[tool.doesitnan]": "line 10: this table stands twice",
        }.items():
            with self.subTest(line):
                errors = errors_of(with_line(line))
                self.assertEqual(len(errors), 1)
                self.assertTrue(errors[0].startswith(message), errors[0])

    def test_the_block_must_stand_once_and_be_closed(self) -> None:
        self.assertIn("must stand", errors_of(CHECKS)[0])
        self.assertIn("must stand", errors_of(HEADER + HEADER)[0])
        self.assertIn("no closing", errors_of(HEADER.replace("# ///\n", ""))[0])

    def test_windows_line_ends_read_the_same(self) -> None:
        self.assertEqual(
            harness.parse_header(HEADER.replace("\n", "\r\n")),
            harness.parse_header(HEADER),
        )


class TomlTest(SimpleTestCase):
    def both(self, text: str) -> None:
        self.assertEqual(toml.Toml(text).parse(), tomllib.loads(text))

    def test_reads_shipped_headers_as_tomllib_does(self) -> None:
        self.assertGreater(len(SHIPPED), 1)
        for path in SHIPPED:
            source = path.read_text()
            if "# /// script" in source:
                with self.subTest(path.name):
                    self.both(contract.header_block(source)[0])

    def test_reads_each_form_as_tomllib_does(self) -> None:
        for text in (
            "",
            "# only a comment",
            'a = "\\"\\\\ \\u4e2d \\U0001F600 \\t"\nb = \'c:\\x\'\n"quoted key" = 1',
            "a = [1, +2, -3, 1_000, 0]\nb = [\n  1, # one\n  2,\n]\nc = []",
            "a = [1.5, 1e-6, -2E+3, 1_0.0_1, inf, -inf]",
            "a = true # yes\nb = false",
            "a = {b = {c = [1, {d = 2}]}, e = {}}",
            "x = 1\n[a]\ny = 2\n[ a . b ]\nz = 3\n['c d']",
        ):
            with self.subTest(text):
                self.both(text)

    def test_refuses_what_it_does_not_read(self) -> None:
        for text in (
            r'a = "\ud800"',
            "a = 0x10",
            'a = """x"""',
            "a = 01",
            "a = 1.",
            "a =",
            "= 1",
            "a",
        ):
            with self.subTest(text), self.assertRaises(harness.TomlError):
                toml.Toml(text).parse()


class ChecksTest(SimpleTestCase):
    def test_order_is_that_of_the_contract(self) -> None:
        source = """
def refuted_b(): ...
def helper(x): ...
def workaround_z(): ...
def trigger(): ...
def requires(): ...
def workaround_a(): ...
def detector(): ...
def reference(): ...
def control(): ...
"""
        self.assertEqual(
            harness.list_checks(source),
            [
                "reference",
                "control",
                "detector",
                "trigger",
                "workaround_z",
                "workaround_a",
                "refuted_b",
            ],
        )

    def test_nothing_is_executed(self) -> None:
        harness.list_checks("raise SystemExit(3)\n" + CHECKS)

    def test_problems_name_line_and_check(self) -> None:
        for source, errors in (
            ("", ["control: missing", "detector: missing", "trigger: missing"]),
            (CHECKS + "def reference(x): ...", ["line 5: reference: a check takes no"]),
            (CHECKS + "def requires(*x): ...", ["line 5: requires: a check takes no"]),
            (CHECKS + "def refuted_a(x, /): ...", ["line 5: refuted_a: a check takes"]),
            (CHECKS + "def control(): ...", ["line 5: control: defined twice"]),
            (
                CHECKS + "async def refuted_a(): ...",
                ["line 5: refuted_a: a check is a"],
            ),
            (CHECKS + "def workaround_(): ...", ["line 5: workaround_: name it in"]),
            (CHECKS + "def refuted_A(): ...", ["line 5: refuted_A: name it in"]),
            ("def control(:", ["line 1: "]),
            ("\0", ["the source cannot be parsed"]),
        ):
            with self.subTest(source):
                with self.assertRaises(ContractError) as caught:
                    harness.list_checks(source)
                found = caught.exception.errors
                self.assertEqual(len(found), len(errors), found)
                for got, begin in zip(found, errors, strict=True):
                    # NUL is a SyntaxError in some Pythons, a ValueError in others.
                    if source != "\0":
                        self.assertTrue(got.startswith(begin), got)

    def test_a_workaround_needs_a_match_or_a_reason(self) -> None:
        source = header_with("# match = {grad_norm = 1e-6}\n", "") + CHECKS
        self.assertEqual(errors_of(source), [])
        [error] = errors_of(source + "def workaround_a(): ...")
        self.assertIn("tool.doesitnan.match: missing", error)


class PredicateTest(SimpleTestCase):
    SEEN: dict[str, Any] = {
        "count": 3,
        "norm": 0.5,
        "flag": False,
        "ran": "cudnn",
        "nan": float("nan"),
        "inf": {"$float": "inf"},
        "losses": [1.0, {"$float": "nan"}],
        "steps": [1, 2],
    }

    def test_holds(self) -> None:
        for source, expected in {
            "count > 0": True,
            "count>=4": False,
            "count != 3": False,
            "norm <= 5e-1": True,
            "norm == 0.5": True,
            "flag == false": True,
            "flag != false": False,
            'ran == "cudnn"': True,
            'ran != "a == b"': True,
            "inf > 1e300": True,
            "nan is_nonfinite": True,
            "inf is_nonfinite": True,
            "norm is_nonfinite": False,
            "losses is_nonfinite": True,
            "steps is_nonfinite": False,
        }.items():
            with self.subTest(source):
                self.assertIs(harness.predicate_holds(source, self.SEEN), expected)

    def test_what_cannot_be_answered_is_a_metric_error(self) -> None:
        for source in (
            "missing > 0",
            "missing is_nonfinite",
            "flag > 0",
            "flag == 0",
            "count == false",
            "ran == 1",
            'count == "3"',
            "nan > 0",
            "nan != 0",
            "losses > 0",
            "ran is_nonfinite",
            "flag is_nonfinite",
        ):
            with self.subTest(source), self.assertRaises(MetricError):
                harness.predicate_holds(source, self.SEEN)

    def test_what_is_no_predicate_is_refused(self) -> None:
        for source in (
            "count",
            "count >",
            "> 0",
            "count = 0",
            "Count > 0",
            "count > NaN",
            "count > zero",
            "flag < true",
            'ran >= "a"',
            "count > [1]",
            "countis_nonfinite",
            "count > 0 and flag == true",
            "__import__('os') == 1",
        ):
            with self.subTest(source), self.assertRaises(ValueError):
                harness.parse_predicate(source)


H200 = {"class": "cuda", "name": "H200", "capability": "9.0", "memory_mib": 143_000}
A10 = {"class": "cuda", "name": "A10", "capability": "8.6", "memory_mib": 22_700}
B300 = {"class": "cuda", "name": "B300", "capability": "10.3", "memory_mib": 270_000}


def cuda(**wants: Any) -> Header:
    return Header("upstream_bug", "cuda", ("nonfinite > 0",), **wants)


def cpu(**wants: Any) -> Header:
    return Header("upstream_bug", "cpu", ("nonfinite > 0",), **wants)


class StackTest(SimpleTestCase):
    """What the evidence says of the packages that a repro needs."""

    def found(self, origin: str | None) -> Any:
        root = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.enterContext(mock.patch.object(sys, "path", [str(root), *sys.path]))
        self.enterContext(mock.patch.dict(sys.modules))
        (root / "from_a_commit.py").write_text("")
        info = root / "from_a_commit-0.1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Name: from_a_commit\nVersion: 0.1\n")
        if origin is not None:
            (info / "direct_url.json").write_text(origin)
        torch = mock.Mock(__version__="2.13.0+cpu")
        header = cpu(stack={"from_a_commit": "git+https://example.org/it@1234"})
        facts = harness.cheap_facts(torch, header, {"packages": {}})
        return facts["packages"]["from_a_commit"]

    def test_a_package_from_a_repository_is_named_by_its_commit(self) -> None:
        origin = {"url": "https://example.org/it", "vcs_info": {"commit_id": "1234ab"}}
        self.assertEqual(self.found(json.dumps(origin)), "0.1@1234ab")

    def test_any_other_by_its_version(self) -> None:
        for origin in (None, "{}", '{"url": "file:///it", "dir_info": {}}', "["):
            with self.subTest(origin):
                self.assertEqual(self.found(origin), "0.1")


class RequirementTest(SimpleTestCase):
    FACTS: dict[str, Any] = {
        "python": "3.11.7",
        "torch": "2.13.0+cpu",
        "devices": [],
        "missing": [],
        "packages": {"numpy": "2.4.6", "triton": None},
    }

    def test_table_of_devices(self) -> None:
        for header, devices, reason in (
            (cpu(), [], None),
            (cpu(), [A10], None),
            (cuda(), [], "device"),
            (cuda(), [A10], None),
            (cuda(min_capability="9.0"), [], "device"),
            (cuda(min_capability="9.0"), [A10], "capability"),
            (cuda(min_capability="9.0"), [H200], None),
            (cuda(min_capability="9.0"), [B300], None),
            (cuda(min_capability="8.9"), [{"class": "cuda"}], "capability"),
            (cuda(min_capability="9.0"), [A10, H200], "capability"),
            (cuda(min_capability="9.0"), [H200, A10], None),
            (cuda(min_memory_gib=40), [A10], "memory"),
            (cuda(min_memory_gib=40), [H200], None),
            (cuda(min_devices=2), [H200], "devices"),
            (cuda(min_devices=2), [H200, H200], None),
            (cuda(min_devices=2, min_capability="9.0"), [H200, A10], "capability"),
        ):
            with self.subTest(header=header, devices=devices):
                facts = dict(self.FACTS, devices=devices)
                self.assertEqual(harness.unmet_requirement(header, facts), reason)

    def test_table_of_versions(self) -> None:
        for dependencies, torch, reason in (
            (["torch>=2.13"], "2.13.0+cpu", None),
            (["torch>=2.13.1"], "2.13.0+cpu", "api"),
            (["torch>=2.5"], "2.10.0", None),
            (["torch>=1.13"], "1.13.0a0", None),
            (["torch>=2.6.0"], "2.6.0a0+df5bbc09d1.nv24.12", None),
            (["torch>=2.13"], "2.13.0.dev20260901+cu130", None),
            (["torch>=2.0"], "1.13.0a0", "api"),
            (["torch>=2.0"], "", "api"),
            (["torch", "numpy>=2.0"], "2.13.0", None),
            (["torch", "numpy>=3"], "2.13.0", "stack:numpy"),
            (["torch", "triton"], "2.13.0", "stack:triton"),
        ):
            with self.subTest(dependencies=dependencies, torch=torch):
                facts = dict(self.FACTS, torch=torch)
                header = cpu(dependencies=tuple(dependencies))
                self.assertEqual(harness.unmet_requirement(header, facts), reason)
        old = cpu(requires_python=">=3.12")
        self.assertEqual(harness.unmet_requirement(old, self.FACTS), "api")

    def test_table_of_what_only_trying_tells(self) -> None:
        for wants, facts, reason in (
            ({"stack": {"fla": "1"}}, {"missing": ["fla"]}, "stack:fla"),
            ({"needs": ("compiler",)}, {}, "compiler"),
            ({"needs": ("compiler",)}, {"compiler": False}, "compiler"),
            ({"needs": ("compiler",)}, {"compiler": "true"}, "compiler"),
            ({"needs": ("compiler",)}, {"compiler": True}, None),
            ({"needs": ("loader", "loopback")}, {"loader": True}, "loopback"),
            ({"needs": ("loader",)}, {"loader": False}, "loader"),
            # Nothing is tried after what failed.
            ({"needs": ("loopback", "compiler")}, {"loopback": False}, "loopback"),
            ({}, {"compiler": False}, None),
            ({}, {"said": "needs\n a new API"}, "said:needs a new API"),
        ):
            with self.subTest(wants=wants, facts=facts):
                found = harness.unmet_requirement(cpu(**wants), {**self.FACTS, **facts})
                self.assertEqual(found, reason)

    def test_the_device_is_named_before_the_stack(self) -> None:
        facts = dict(self.FACTS, missing=["fla"])
        self.assertEqual(harness.unmet_requirement(cuda(), facts), "device")
        self.assertEqual(harness.unmet_requirement(cpu(), facts), "stack:fla")
