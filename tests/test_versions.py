"""Is it affected? A table judged by hand, and the rules it rests on."""

from typing import Any

from django.test import SimpleTestCase, TestCase
from django.utils import timezone

from kb.environment import parse_environment
from kb.models import Finding, Record
from kb.versions import affected, answer_for, is_same_build, parse_version

NV2412 = "2.6.0a0+df5bbc09d1.nv24.12"
NV2501 = "2.6.0a0+ecf3bae40a.nv25.01"
NV2408 = "2.5.0a0+872d972e41.nv24.08"
TORCH = "git+https://github.com/pytorch/pytorch@"
FLA = "git+https://github.com/fla-org/flash-linear-attention@"


def torch(*events: dict[str, str], builds: list[dict[str, str]] | None = None) -> Any:
    return {"package": "torch", "events": list(events), "builds": builds or []}


def package(name: str, *events: dict[str, str], builds: Any = ()) -> dict[str, Any]:
    return {"package": name, "events": list(events), "builds": list(builds)}


# What records say. The names stand in the table below.
DOCUMENTED: dict[str, list[dict[str, Any]]] = {
    "stride": [
        torch({"introduced": "2.5.0"}, {"fixed": "2.5.1"}),
        torch(builds=[{"raw": NV2412, "state": "affected"}]),
    ],
    "both nv": [
        torch(
            {"introduced": "2.5.0"},
            {"fixed": "2.6.0"},
            builds=[
                {"raw": NV2412, "state": "affected"},
                {"raw": NV2501, "state": "not_affected"},
            ],
        )
    ],
    "2.11-2.15": [torch({"introduced": "2.11.0"}, {"fixed": "2.15.0"})],
    "always": [torch({"introduced": "0"})],
    "before 2.6": [torch({"introduced": "0"}, {"fixed": "2.6.0"})],
    "to 2.6.0": [torch({"introduced": "2.5.0"}, {"last_affected": "2.6.0"})],
    "twice": [
        torch(
            {"introduced": "2.1.0"},
            {"fixed": "2.2.0"},
            {"introduced": "2.4.0"},
            {"fixed": "2.5.1"},
        )
    ],
    "nightly": [torch({"introduced": "2.7.0.dev20250308"}, {"fixed": "2.8.0"})],
    "from 2.8": [torch({"introduced": "2.8.0"})],
    "only 2.13 cpu": [torch(builds=[{"raw": "2.13.0+cpu", "state": "affected"}])],
    "release 2.5.0": [torch(builds=[{"raw": "2.5.0", "state": "affected"}])],
    "debian": [torch(builds=[{"raw": "1.13.0a0", "state": "affected"}])],
    "fla": [
        package(
            "flash-linear-attention",
            {"introduced": "0"},
            {"fixed": "0.1"},
            builds=[
                {"raw": f"{FLA}aa583eb7822893c07ec7d9e2c63692b24ec90e04",
                 "state": "affected"},
                {"raw": f"{FLA}0c1c0b65a0a459fbccc6d8648b7a5016c274de89",
                 "state": "not_affected"},
            ],
        )
    ],
    "commits": [torch({"introduced": "0"}, {"fixed": "df5bbc09d1"})],
    "nothing": [],
}  # fmt: skip

# (what is installed, what the record says, answer, basis), each judged by hand.
JUDGED: list[tuple[str, str, str, str]] = [
    # Releases: the local part is not compared.
    ("2.5.0", "stride", "affected", "range"),
    ("2.5.0+cu124", "stride", "affected", "range"),
    ("2.5.1", "stride", "not_affected", "range"),
    ("2.5.1+cu124", "stride", "not_affected", "range"),
    ("2.4.1+cu121", "stride", "not_affected", "range"),
    ("2.13.0+cpu", "stride", "not_affected", "range"),
    ("2.10.0", "2.11-2.15", "not_affected", "range"),
    ("2.9.1", "2.11-2.15", "not_affected", "range"),
    ("2.11.0+cu130", "2.11-2.15", "affected", "range"),
    ("2.14.1", "2.11-2.15", "affected", "range"),
    ("2.15.0", "2.11-2.15", "not_affected", "range"),
    ("1.13.1", "before 2.6", "affected", "range"),
    ("2.6.0+cu126", "before 2.6", "not_affected", "range"),
    ("v2.5.1", "before 2.6", "affected", "range"),
    # Timelines.
    ("2.0.1", "twice", "not_affected", "range"),
    ("2.1.2+cu121", "twice", "affected", "range"),
    ("2.2.0", "twice", "not_affected", "range"),
    ("2.4.1", "twice", "affected", "range"),
    ("2.5.1", "twice", "not_affected", "range"),
    # last_affected holds its version with any local part and its post-releases.
    ("2.6.0", "to 2.6.0", "affected", "range"),
    ("2.6.0+cu126", "to 2.6.0", "affected", "range"),
    ("2.6.0.post1", "to 2.6.0", "affected", "range"),
    ("2.6.1", "to 2.6.0", "not_affected", "range"),
    # Post-releases and candidates, where a specifier errs.
    ("2.6.0.post1", "before 2.6", "not_affected", "range"),
    ("2.6.0rc1", "before 2.6", "affected", "range"),
    ("2.5.1rc3", "stride", "affected", "range"),
    # Nightlies order by their date; before the release that has the bug: unknown.
    ("2.7.0.dev20250307", "nightly", "not_affected", "range"),
    ("2.7.0.dev20250308+cu126", "nightly", "affected", "range"),
    ("2.7.0.dev20250401", "nightly", "affected", "range"),
    ("2.8.0.dev20250404", "nightly", "affected", "range"),
    ("2.8.0", "nightly", "not_affected", "range"),
    ("2.8.0.dev20250404", "from 2.8", "unknown", "none"),
    ("2.7.0.dev20250401", "from 2.8", "not_affected", "range"),
    ("2.8.0rc2", "from 2.8", "unknown", "none"),
    # Containers and other builds from source: listed, or unknown.
    (NV2412, "stride", "affected", "listed_build"),
    (NV2412, "both nv", "affected", "listed_build"),
    (NV2501, "both nv", "not_affected", "listed_build"),
    ("2.6.0a0+ecf3bae40a", "both nv", "not_affected", "listed_build"),
    ("2.6.0a0+ecf3bae40a.nv25.1", "both nv", "not_affected", "listed_build"),
    ("2.6.0a0+0123456789.nv24.12", "both nv", "unknown", "none"),
    ("2.6.0a0+df5bbc09d1.nv24.11", "both nv", "unknown", "none"),
    (NV2501, "stride", "unknown", "none"),
    (NV2408, "stride", "unknown", "none"),
    (NV2412, "2.11-2.15", "unknown", "none"),
    (NV2412, "before 2.6", "unknown", "none"),
    (NV2412, "always", "affected", "range"),
    ("2.7.0a0+git1a2b3c4", "stride", "unknown", "none"),
    ("2.4.0+das1.1.git1a2b3c4.abi0.dtk2404", "before 2.6", "unknown", "none"),
    # Debian says 1.13.0a0 and ships 1.13.1.
    ("1.13.0a0", "before 2.6", "unknown", "none"),
    ("1.13.0a0", "2.11-2.15", "unknown", "none"),
    ("1.13.0a0", "always", "affected", "range"),
    ("1.13.0a0", "debian", "affected", "listed_build"),
    # Listed builds without a range.
    ("2.13.0+cpu", "only 2.13 cpu", "affected", "listed_build"),
    ("2.13.0+cu130", "only 2.13 cpu", "unknown", "none"),
    ("2.13.0", "only 2.13 cpu", "unknown", "none"),
    ("2.5.0+cu121", "release 2.5.0", "affected", "listed_build"),
    ("2.5.1", "release 2.5.0", "unknown", "none"),
    # Commits.
    (f"torch @ {TORCH}df5bbc09d1", "stride", "affected", "listed_build"),
    (f"torch @ {TORCH}0123456789", "before 2.6", "unknown", "none"),
    (f"torch @ {TORCH}0123456789", "always", "affected", "range"),
    (f"flash-linear-attention @ {FLA}aa583eb", "fla", "affected", "listed_build"),
    (f"flash-linear-attention @ {FLA}0c1c0b65", "fla", "not_affected", "listed_build"),
    (f"flash-linear-attention @ {FLA}11130f9c", "fla", "unknown", "none"),
    ("fla_nothing==1.0", "fla", "unknown", "none"),
    ("flash_linear_attention==0.1", "fla", "not_affected", "range"),
    ("flash-linear-attention==0.6.0", "fla", "not_affected", "range"),
    ("2.5.0", "commits", "unknown", "none"),
    ("2.5.0", "nothing", "unknown", "none"),
    ("numpy==2.4.6", "stride", "unknown", "none"),
    ("torch==nonsense", "stride", "unknown", "none"),
]


class JudgedTests(SimpleTestCase):
    def test_table(self) -> None:
        for installed, documented, answer, basis in JUDGED:
            with self.subTest(installed=installed, documented=documented):
                env = parse_environment(installed)
                found = affected(DOCUMENTED[documented], "any", env)
                self.assertEqual((found.answer, found.basis), (answer, basis))
                self.assertTrue(all(reason["en"] for reason in found.reasons))

    def test_what_cannot_be_ordered_is_never_called_safe(self) -> None:
        unorderable = [NV2412, NV2501, NV2408, "1.13.0a0", "2.9.0a0+git1234567"]
        ranges = [name for name in DOCUMENTED if name != "both nv"]
        for installed in unorderable:
            for name in ranges:
                with self.subTest(installed=installed, documented=name):
                    found = affected(
                        DOCUMENTED[name], "any", parse_environment(installed)
                    )
                    self.assertNotEqual(found.answer, "not_affected")


class PackagesTests(SimpleTestCase):
    TWO = [
        torch({"introduced": "2.7.0"}),
        package("torchao", {"introduced": "0"}, {"fixed": "0.10.0"}),
    ]

    def judge(self, when: str, *installed: str) -> tuple[str, str]:
        found = affected(self.TWO, when, parse_environment("\n".join(installed)))
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
        found = affected(self.TWO, "all", parse_environment("torch==2.7.0\nnumpy==1.0"))
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
        self.assertEqual(affected(entries, "all", env).basis, "range")
        self.assertEqual(affected(entries, "any", env).basis, "listed_build")


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
        for raw in ("2.6.0+cu124", "2.6.0+cpu", "2.6.0+rocm6.2", "2.6.0.dev20241112"):
            with self.subTest(raw):
                self.assertIsNone(parse_version(raw).commit)
                self.assertTrue(parse_version(raw).is_orderable)


class AnswerTests(TestCase):
    """A run on the very build outweighs what is documented."""

    record: Record

    @classmethod
    def setUpTestData(cls) -> None:
        cls.record = Record.objects.create(
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

    def finding(self, verdict: str, **changes: Any) -> Finding:
        fields: dict[str, Any] = {
            "record": self.record,
            "repro": "repro",
            "fidelity": "upstream_bug",
            "build": "2.6.0-cu124",
            "build_raw": "2.6.0+cu124",
            "device_class": "cpu",
            "check_name": "trigger",
            "verdict": verdict,
            "evidence": "sha256:0",
            "observed_at": timezone.now(),
        }
        return Finding(**{**fields, **changes})

    def judge(self, env: str, *findings: Finding) -> tuple[str, str]:
        found = answer_for(self.record, parse_environment(env), findings)
        return found.answer, found.basis

    def test_a_run_decides(self) -> None:
        present, absent = self.finding("bug_present"), self.finding("bug_absent")
        self.assertEqual(
            self.judge("2.6.0+cu124", present), ("affected", "tested_build")
        )
        self.assertEqual(
            self.judge("2.6.0+cu124", absent), ("not_affected", "tested_build")
        )
        self.assertEqual(
            self.judge("2.6.0+cu124", absent, present), ("affected", "tested_build")
        )

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
        self.assertEqual(self.judge("2.6.0+cu124", *others), ("not_affected", "range"))

    def test_preconditions(self) -> None:
        rows = {
            "torch==2.5.0": ["gpu_arch", "package", "dtype"],
            "torch==2.5.0\nGPU 0: NVIDIA H100 80GB HBM3": ["package", "dtype"],
            "torch==2.5.0\nGPU 0: NVIDIA A100-SXM4-80GB": [
                "gpu_arch",
                "package",
                "dtype",
            ],
            "torch==2.5.0\nflash_attn==2.7.4": ["gpu_arch", "dtype"],
        }
        for env, expected in rows.items():
            with self.subTest(env):
                found = answer_for(self.record, parse_environment(env))
                self.assertEqual(found.answer, "affected")
                self.assertEqual(found.unverified_preconditions, expected)

    def test_a_cpu_build_has_no_gpu_bugs(self) -> None:
        self.assertEqual(self.judge("2.5.0+cpu"), ("not_affected", "range"))

    def test_as_dict(self) -> None:
        found = answer_for(self.record, parse_environment("2.5.0+cu124")).as_dict()
        self.assertEqual(found["is_affected"], True)
        unknown = answer_for(self.record, parse_environment("")).as_dict()
        self.assertEqual((unknown["answer"], unknown["is_affected"]), ("unknown", None))
