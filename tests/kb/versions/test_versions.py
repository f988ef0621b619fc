"""Is it affected? A table judged by hand, and the rules it rests on."""

import tomllib
from typing import Any

from django.test import SimpleTestCase, TestCase

from kb.environments.environment import Environment, parse_environment
from kb.models import Finding, Record
from kb.publishing import saving
from kb.versions.affected import Answer, answer_for, by_ranges
from kb.versions.ranges import is_same_build, parse_version
from tests import TESTS
from tests.support.findings import finding

NV2412 = "2.6.0a0+df5bbc09d1.nv24.12"
NV2501 = "2.6.0a0+ecf3bae40a.nv25.01"
TABLE = tomllib.loads((TESTS / "environments" / "judged.toml").read_text())


def torch(*events: dict[str, str], builds: list[dict[str, str]] | None = None) -> Any:
    return {"package": "torch", "events": list(events), "builds": builds or []}


def package(name: str, *events: dict[str, str], builds: Any = ()) -> dict[str, Any]:
    return {"package": name, "events": list(events), "builds": list(builds)}


def judge(installed: str, documented: str) -> Answer:
    record = Record(**{"preconditions": [], **TABLE["records"][documented]})
    return answer_for(record, parse_environment(installed))


def documented(entries: list[Any], when: str, env: Environment) -> Answer:
    return by_ranges(Record(affected=entries, affected_when=when), env)


class JudgedTests(SimpleTestCase):
    """The table in tests/environments/judged.toml."""

    def test_table(self) -> None:
        for group in TABLE["pairs"].values():
            for installed, documented, answer, basis, why in group:
                with self.subTest(installed=installed, documented=documented, why=why):
                    found = judge(installed, documented)
                    self.assertEqual((found.answer, found.basis), (answer, basis))
                    self.assertTrue(found.reasons)
                    for item in found.reasons:
                        self.assertTrue(item["en"] and item["zh"])

    def test_no_pair_twice(self) -> None:
        pairs = [tuple(row[:2]) for group in TABLE["pairs"].values() for row in group]
        self.assertEqual(len(pairs), len(set(pairs)))

    def test_what_cannot_be_ordered_is_never_called_safe(self) -> None:
        """Whatever bound is near, and for forks and commits whatever the bound."""
        commit = "torch @ git+https://github.com/pytorch/pytorch@0123456789abcdef"
        for minor in range(1, 16):
            for event in ("fixed", "last_affected"):
                entry = torch({"introduced": "0"}, {event: f"2.{minor}.0"})
                for installed in (commit, "2.8.0+musa", "2.8.0+git1234567", "nv27.03"):
                    self.assert_unknown(entry, f"torch=={installed}")
                for near in (minor - 1, minor, minor + 1):
                    self.assert_unknown(
                        entry, f"torch==2.{max(near, 0)}.0a0+git1234567"
                    )
            for near in (minor - 1, minor, minor + 1):
                entry = torch({"introduced": f"2.{minor}.0"})
                self.assert_unknown(entry, f"torch==2.{near}.0a0+git1234567.nv24.08")

    def assert_unknown(self, entry: Any, installed: str) -> None:
        with self.subTest(installed=installed, events=entry["events"]):
            found = documented([entry], "any", parse_environment(installed))
            self.assertNotEqual(found.answer, "not_affected")


class PackagesTests(SimpleTestCase):
    TWO = [
        torch({"introduced": "2.7.0"}),
        package("torchao", {"introduced": "0"}, {"fixed": "0.10.0"}),
    ]

    def judge(self, when: str, *installed: str) -> tuple[str, str]:
        found = documented(self.TWO, when, parse_environment("\n".join(installed)))
        return found.answer, found.basis

    def test_all(self) -> None:
        rows = [
            (("torch==2.7.0", "torchao==0.9.0"), ("affected", "range")),
            (("torch==2.7.0", "torchao==0.10.0"), ("not_affected", "range")),
            (("torch==2.6.0", "numpy==1.0"), ("not_affected", "range")),
            (("torch==2.7.0", "numpy==1.0"), ("unknown", "none")),
        ]
        for installed, expected in rows:
            with self.subTest(installed):
                self.assertEqual(self.judge("all", *installed), expected)

    def test_any(self) -> None:
        rows = [
            (("torch==2.7.0", "numpy==1.0"), ("affected", "range")),
            (("torch==2.6.0", "torchao==0.10.0"), ("not_affected", "range")),
            (("torch==2.6.0", "numpy==1.0"), ("unknown", "none")),
        ]
        for installed, expected in rows:
            with self.subTest(installed):
                self.assertEqual(self.judge("any", *installed), expected)

    def test_a_reason_per_package_in_both_languages(self) -> None:
        found = documented(
            self.TWO, "all", parse_environment("torch==2.7.0\nnumpy==1.0")
        )
        self.assertEqual(
            [item["package"] for item in found.reasons], ["torch", "torchao"]
        )
        self.assertIn("2.7.0", found.reasons[0]["zh"])
        self.assertIn("torchao", found.reasons[1]["en"])

    def test_all_rests_on_its_weakest_ground(self) -> None:
        entries = [
            torch(builds=[{"raw": NV2412, "state": "affected"}]),
            package("peft", {"introduced": "0.15.0"}),
        ]
        env = parse_environment(f"torch=={NV2412}\npeft==0.15.0")
        self.assertEqual(documented(entries, "all", env).basis, "range")
        self.assertEqual(documented(entries, "any", env).basis, "listed_build")


class BuildTests(SimpleTestCase):
    def test_parts_of_a_container_version(self) -> None:
        build = parse_version(NV2501)
        self.assertEqual((build.nv, build.commit), ((25, 1), "ecf3bae40a"))
        self.assertEqual(str(build.public), "2.6.0a0")
        self.assertFalse(build.is_orderable)

    def test_months_of_containers_are_numbers(self) -> None:
        one, other = parse_version("2.6.0a0+nv25.01"), parse_version("2.6.0a0+nv25.1")
        self.assertTrue(is_same_build(one, other))
        self.assertFalse(is_same_build(one, parse_version("2.6.0a0+nv25.10")))

    def test_cuda_is_not_a_commit(self) -> None:
        builds = ("2.6.0+cu124", "2.6.0-cu124", "2.6.0cu124", "2.6.0+cpu")
        for raw in (*builds, "2.6.0+rocm6.2", "2.6.0.dev20241112"):
            with self.subTest(raw):
                self.assertIsNone(parse_version(raw).commit)
                self.assertTrue(parse_version(raw).is_orderable)


class AnswerTests(TestCase):
    """A run on the very build outweighs what is documented."""

    record: Record

    @classmethod
    def setUpTestData(cls) -> None:
        cls.record = Record(
            id="NAN-9001",
            slug="example",
            publication="published",
            affected=[torch({"introduced": "2.5.0"}, {"fixed": "2.6.0"})],
            preconditions=[
                {"key": "gpu_arch", "value": "sm_90", "text": {}},
                {"key": "package", "value": "flash-attn", "text": {}},
                {"key": "dtype", "value": "bf16", "text": {}},
            ],
        )
        saving.save(cls.record)

    def finding(self, verdict: str, **changes: Any) -> Finding:
        return finding(self.record, "2.6.0+cpu", verdict, **changes)

    def judge(self, env: str, *findings: Finding) -> tuple[str, str]:
        found = answer_for(self.record, parse_environment(env), findings)
        return found.answer, found.basis

    def test_a_run_decides(self) -> None:
        present, absent = self.finding("bug_present"), self.finding("bug_absent")
        for runs, answer in (
            ((present,), "affected"),
            ((absent,), "not_affected"),
            ((absent, present), "affected"),
        ):
            self.assertEqual(self.judge("2.6.0+cpu", *runs), (answer, "tested_build"))

    def test_a_list_without_the_package_outweighs_a_run(self) -> None:
        self.record.affected, self.record.preconditions = [], []
        self.record.fixes = [{"package": "verl", "version": "0.4.0", "kind": "fix"}]
        present = self.finding("bug_present")
        self.assertEqual(self.judge("torch 2.6.0+cpu", present)[0], "affected")
        listed = "torch==2.6.0+cpu\nsympy==1.13.1\nfilelock==3.1\nnetworkx==3.3\n"
        self.assertEqual(self.judge(listed, present), ("not_affected", "range"))
        self.assertEqual(self.judge(f"{listed}verl==0.3.0", present)[0], "affected")

    def test_a_run_on_the_cpu_does_not_clear_a_gpu(self) -> None:
        self.record.affected = [torch({"introduced": "2.5.0"})]
        absent = self.finding("bug_absent", build_raw="2.6.0+cu124")
        found = answer_for(self.record, parse_environment("2.6.0+cu124"), [absent])
        self.assertEqual((found.answer, found.basis), ("affected", "range"))
        self.assertIn("not seen", found.reasons[-1]["en"])

    def test_the_bug_on_the_cpu_counts_where_its_cause_holds(self) -> None:
        present = self.finding("bug_present", build_raw="2.6.0+cu124")
        self.record.preconditions = []
        for holds, expected in (
            ({"devices": ["any"], "why": "formula"}, ("affected", "tested_build")),
            ({"devices": ["cpu", "cuda"], "why": "seen"}, ("not_affected", "range")),
            ({"devices": ["cpu"], "why": "kernel"}, ("affected", "tested_build")),
        ):
            with self.subTest(holds):
                self.record.holds_on = holds
                self.assertEqual(self.judge("2.6.0+cu124", present), expected)
        card = "2.6.0+cu124\nGPU 0: NVIDIA A100-SXM4-80GB"
        self.assertEqual(self.judge(f"torch=={card}", present)[0], "not_affected")

    def test_a_run_decides_for_its_packages_alone(self) -> None:
        self.record.preconditions = []
        self.record.affected = [package("peft", {"introduced": "0.1"}, {"fixed": "1"})]
        made = {"packages": {"peft": "0.5"}}
        present = self.finding("bug_present", made_with=made)
        for env, expected in (
            ("torch==2.6.0+cpu\npeft==0.5", ("affected", "tested_build")),
            ("torch==2.6.0+cpu\npeft==0.6", ("affected", "range")),
            ("torch==2.6.0+cpu\npeft==1.0", ("not_affected", "range")),
            ("torch==2.6.0+cpu", ("unknown", "none")),
        ):
            with self.subTest(env):
                self.assertEqual(self.judge(env, present), expected)

    def test_a_run_with_another_cudnn_or_card_does_not_decide(self) -> None:
        self.record.holds_on = {"devices": ["cuda"], "why": "library"}
        self.record.affected = []
        made = {"cudnn": "91900", "capability": "9.0"}
        where = {"build_raw": "2.6.0+cu124", "device_class": "cuda"}
        clean = self.finding("bug_absent", **where, made_with=made)
        for rest, expected in (
            ("nvidia-cudnn-cu12==9.19.0.56\nGPU 0: NVIDIA H200", "not_affected"),
            ("nvidia-cudnn-cu12==9.26.0.51\nGPU 0: NVIDIA H200", "unknown"),
            ("GPU 0: NVIDIA H200", "unknown"),
            ("nvidia-cudnn-cu12==9.19.0.56", "unknown"),
        ):
            with self.subTest(rest):
                found = self.judge(f"torch==2.6.0+cu124\n{rest}", clean)
                self.assertEqual(found[0], expected)

    def test_what_does_not_decide(self) -> None:
        others = [
            self.finding("bug_present", build_raw="2.6.0+cu126"),
            self.finding("bug_present", fidelity="mechanism_model"),
            self.finding("bug_present", stale=True),
            self.finding("bug_present", check_name="workaround_x"),
            self.finding("not_applicable"),
            self.finding("inconclusive"),
            self.finding("error"),
        ]
        self.assertEqual(self.judge("2.6.0+cpu", *others), ("not_affected", "range"))

    def test_preconditions(self) -> None:
        rows = {
            "torch==2.5.0": ["gpu_arch", "package", "dtype"],
            "torch==2.5.0\nGPU 0: NVIDIA H100 80GB HBM3": ["package", "dtype"],
            "torch==2.5.0\nGPU 0: some other card": ["gpu_arch", "package", "dtype"],
            "torch==2.5.0\nflash_attn==2.7.4": ["gpu_arch", "dtype"],
        }
        for env, expected in rows.items():
            with self.subTest(env):
                found = answer_for(self.record, parse_environment(env))
                self.assertEqual(found.answer, "affected")
                self.assertEqual(found.unverified_preconditions, expected)

    def test_another_gpu_has_not_the_bug(self) -> None:
        env = parse_environment("torch==2.5.0\nGPU 0: NVIDIA A100-SXM4-80GB")
        found = answer_for(self.record, env)
        self.assertEqual((found.answer, found.basis), ("not_affected", "range"))
        self.assertEqual(found.unverified_preconditions, ["package", "dtype"])
        self.assertIn("A100", found.reasons[0]["zh"])

    def test_a_cpu_build_has_no_gpu_bugs(self) -> None:
        self.assertEqual(self.judge("2.5.0+cpu"), ("not_affected", "range"))

    def test_as_dict(self) -> None:
        found = answer_for(self.record, parse_environment("2.5.0+cu124")).as_dict()
        self.assertEqual(found["is_affected"], True)
        unknown = answer_for(self.record, parse_environment("")).as_dict()
        self.assertEqual((unknown["answer"], unknown["is_affected"]), ("unknown", None))


class DoubtTests(SimpleTestCase):
    """What is not known is said, and what is missing is named."""

    def record(self, **changes: Any) -> Record:
        fields: dict[str, Any] = {
            "affected": [torch({"introduced": "2.4.0"}, {"fixed": "2.6.0"})],
            "affected_when": "any",
            "fixes": [{"package": "torch", "version": "2.6.0", "kind": "root_fix"}],
            "environment": ["PyTorch 2.4.0"],
        }
        return Record(**{**fields, **changes})

    def finding(self, verdict: str, raw: str, reason: str = "") -> Finding:
        return finding(None, raw, verdict, verdict_reason=reason)

    def judge(self, env: str, *findings: Finding, **changes: Any) -> Answer:
        record = self.record(**changes)
        return answer_for(record, parse_environment(env), findings)

    def test_two_installers_that_contradict_each_other(self) -> None:
        found = self.judge("torch==2.4.1\n[conda] pytorch 2.7.0")
        self.assertEqual(found.answer, "unknown")
        self.assertIn("2.4.1", found.reasons[0]["en"])
        self.assertIn("2.7.0", found.reasons[0]["zh"])
        same = self.judge("torch==2.4.1\n[conda] pytorch 2.4.1")
        self.assertEqual(same.answer, "affected")

    def test_a_device_that_nobody_reported(self) -> None:
        for env, name in (
            ("torch==2.4.1+rocm6.1", "ROCm"),
            ("torch==2.4.1\nGPU: Apple M2 Max", "MPS"),
            ("torch==2.4.1\nGPU: Ascend 910B", "NPU"),
            ("torch==2.4.1+cpu\ntorch-npu==2.4.0", "NPU"),
        ):
            with self.subTest(env):
                found = self.judge(env)
                self.assertEqual(found.answer, "unknown")
                self.assertIn(name, found.reasons[0]["en"])
        seen = {"devices": ["cpu", "rocm"], "why": "seen"}
        reported = self.judge("torch==2.4.1+rocm6.1", holds_on=seen)
        self.assertEqual(reported.answer, "affected")
        self.assertEqual(self.judge("torch==2.4.1\nGPU: H100").answer, "affected")

    def test_a_mac_computes_on_its_cpu_or_on_mps(self) -> None:
        mac = "PyTorch version: 2.4.1\nCUDA used to build PyTorch: None\nOS: macOS 14.1"
        for env, device, answer in (
            (mac, "mps", "affected"),
            (mac, "cpu", "affected"),
            (mac, "cuda", "not_affected"),
            (mac.replace("macOS", "Ubuntu"), "mps", "not_affected"),
        ):
            with self.subTest(env, device=device):
                holds = {"devices": [device], "why": "kernel"}
                self.assertEqual(self.judge(env, holds_on=holds).answer, answer)

    def test_whether_a_run_confirmed_a_fix_is_said(self) -> None:
        clean = self.finding("bug_absent", "2.6.0+cpu")
        before = self.finding("bug_absent", "2.3.0+cpu")
        for runs, said in (
            ((), "No run here has confirmed"),
            ((before,), "No run here has confirmed"),
            ((clean,), "torch 2.6.0+cpu, on CPU, did not show the bug"),
        ):
            with self.subTest(said):
                found = self.judge("torch==2.7.0", *runs)
                self.assertEqual((found.answer, found.basis), ("not_affected", "range"))
                self.assertIn(said, found.reasons[0]["en"])
        self.assertEqual(self.judge("torch==2.5.0").answer, "affected")

    def test_a_fix_inside_the_range_leaves_it_open(self) -> None:
        fixes = [{"package": "torch", "version": "2.5.0", "kind": "guarded"}]
        found = self.judge("torch==2.5.1", fixes=fixes)
        self.assertEqual((found.answer, found.basis), ("unknown", "none"))

    def test_a_root_fix_in_another_package_ends_it(self) -> None:
        fix = {"package": "nvidia-cudnn-cu13", "version": "9.26", "kind": "root_fix"}
        for env, answer in (
            ("torch==2.5.0\nnvidia-cudnn-cu13==9.26.0.51", "not_affected"),
            ("torch==2.5.0\nnvidia-cudnn-cu12==9.30.0.1", "not_affected"),
            ("torch==2.5.0\nnvidia-cudnn-cu13==9.25.1.1", "affected"),
            ("torch==2.5.0", "affected"),
        ):
            with self.subTest(env):
                self.assertEqual(self.judge(env, fixes=[fix]).answer, answer)

    def test_a_fix_for_other_devices_leaves_it_open(self) -> None:
        fix = {"package": "torch", "version": "2.6.0", "kind": "root_fix"}
        fixes = [{**fix, "devices": ["cpu"]}]
        anywhere = {"devices": ["any"], "why": "formula"}
        for env, answer in (
            ("torch==2.7.0+cu128", "unknown"),
            ("torch==2.7.0+cpu", "not_affected"),
            ("torch==2.7.0", "not_affected"),
            ("torch==2.5.0+cu124", "affected"),
        ):
            with self.subTest(env):
                found = self.judge(env, fixes=fixes, holds_on=anywhere)
                self.assertEqual(found.answer, answer)

    def test_a_stretch_of_which_nobody_knows(self) -> None:
        entry = torch({"introduced": "2.11.0"}, {"fixed": "2.15.0"})
        silent = [{"introduced": "2.5.0"}, {"fixed": "2.11.0"}]
        for raw, answer in (
            ("2.4.1", "not_affected"),
            ("2.10.0", "unknown"),
            ("2.11.0", "affected"),
            ("2.15.0", "not_affected"),
        ):
            with self.subTest(raw):
                entries = [{**entry, "unknown": silent}]
                found = self.judge(raw, affected=entries, fixes=[])
                self.assertEqual(found.answer, answer)

    def test_what_does_not_exist_there(self) -> None:
        lacks = self.finding("not_applicable", "2.1.0+cpu", "said:no x: it has no rms")
        found = self.judge("torch==2.0.1", lacks)
        self.assertEqual(found.answer, "not_affected")
        self.assertIn("does not exist in torch 2.0.1", found.reasons[0]["en"])
        other = self.finding("not_applicable", "2.1.0+cpu", "device")
        self.assertIn("outside", self.judge("torch==2.0.1", other).reasons[0]["en"])
        self.assertIn("outside", self.judge("torch==2.2.0", lacks).reasons[0]["en"])

    def test_a_commit_whoever_owns_the_repository(self) -> None:
        commit = "b4ff1936aa0c1d2e3f405162738495a6b7c8d9e0"
        listed = {
            "raw": f"git+https://github.com/fla-org/flash-linear-attention@{commit}",
            "state": "affected",
        }
        changes = {
            "affected": [package("flash-linear-attention", builds=[listed])],
            "fixes": [],
        }
        for address in (
            f"git+https://github.com/sustcsonglin/flash-linear-attention@{commit[:9]}",
            f"git+ssh://git@github.com/fla-org/flash-linear-attention.git@{commit}",
            "flash-linear-attention @ https://github.com/sustcsonglin/"
            f"flash-linear-attention/archive/{commit}.zip",
        ):
            with self.subTest(address):
                found = self.judge(address, **changes)
                self.assertEqual(
                    (found.answer, found.basis), ("affected", "listed_build")
                )
