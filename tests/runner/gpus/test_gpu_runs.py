"""Runs on a GPU that a file plays: lock, choice, evidence, quarantine."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from django.conf import settings
from django.contrib.auth.models import Permission, User
from django.test import (
    TestCase,
    TransactionTestCase,
    override_settings,
)
from django.utils import timezone

from portable import harness
from portable.harness.process import read_bytes
from runner import sandbox
from runner.builds import registry
from runner.gpus import gpu_run, lock, nvml
from runner.gpus.nvml import Nvidia
from runner.gpus.telemetry import Problem
from runner.models import Build, Device, Run
from runner.runs import host_gpus
from runner.worker import execution
from tests.runner.gpus.test_telemetry import A100, ECC, H100, H200, Played
from tests.support import runs
from tests.support.nvml_answers import Recorded


def reporter(
    uuid: str | None = H200, on_check: Callable[[str], None] = lambda name: None
) -> tuple[gpu_run.StartWith, list[tuple[str | None, list[int]]]]:
    """A start whose checks report as if torch had run on that GPU, and its calls."""
    calls: list[tuple[str | None, list[int]]] = []
    source = runs.source(device="cuda")
    shown: dict[str, dict[str, Any]] = {
        "detector": {"nonfinite": 1},
        "trigger": {"nonfinite": 1, "grad": 1.0},
        "refuted_hope": {"nonfinite": 1},
        "requirements": {},
    }

    def start_with(visible: str | None, held: Sequence[int]) -> harness.Start:
        calls.append((visible, list(held)))

        def start(spec: harness.CheckSpec) -> harness.Report:
            on_check(spec.name)
            hello = runs.hello(harness.source_digest(source))
            gpu = {"class": "cuda", "name": "NVIDIA H200", "capability": "9.0"}
            hello["devices"] = [{**gpu, "memory_mib": 143771, "uuid": uuid}]
            clean = {"nonfinite": 0, "grad": 1.0}
            result = {
                "t": "result",
                "check": spec.name,
                "trial": spec.trial,
                "observations": shown.get(spec.name, clean),
            }
            return harness.Report(hello=hello, messages=[result], exit=0)

        return start

    return start_with, calls


SOURCE = runs.source(device="cuda")


def is_locked(folder: Path, uuid: str) -> bool:
    """Whether a run, or an orphan of one, holds the lock."""
    gpu_lock = lock.try_lock(folder, [uuid])
    if gpu_lock:
        gpu_lock.release()
    return gpu_lock is None


class DriveTest(Played):
    def test_a_run_has_its_gpu_and_tells_of_it(self) -> None:
        start_with, calls = reporter()
        body = gpu_run.drive(SOURCE, start_with, self.rig())
        ((visible, held),) = calls
        self.assertEqual(visible, H200)
        self.assertEqual(len(held), 1)
        self.assertEqual(body["verdict"], "bug_present")
        self.assertEqual(body["device"]["uuid"], H200)
        (gpu,) = body["telemetry"]["devices"]
        self.assertEqual((gpu["uuid"], gpu["name"]), (H200, "NVIDIA H200"))
        self.assertEqual(body["telemetry"]["cpu"], {"peak_mib": 0, "cpu_s": 0})
        self.assertEqual(body["digest"], harness.evidence_digest(body))
        self.assertFalse(is_locked(self.folder / "locks", H200))

    def test_torch_that_cannot_name_its_gpu_used_the_one_it_was_given(self) -> None:
        start_with, _ = reporter(uuid=None)
        body = gpu_run.drive(SOURCE, start_with, self.rig())
        self.assertEqual(body["device"]["uuid"], H200)

    def test_a_run_that_strayed_to_another_gpu_says_nothing(self) -> None:
        start_with, _ = reporter(uuid=H100)
        body = gpu_run.drive(SOURCE, start_with, self.rig())
        self.assertEqual((body["verdict"], body["reason"]), ("error", "device_lost"))
        self.assertIsNone(body["is_affected"])

    def test_ecc_errors_take_the_verdict_away(self) -> None:
        def fail(name: str) -> None:
            if name == "trigger":
                self.change(**{ECC: 1})

        problems: list[Problem] = []

        def note(problem: Problem) -> None:
            # While the lock is held: nobody gets the GPU before it is withdrawn.
            self.assertTrue(is_locked(self.folder / "locks", H200))
            problems.append(problem)

        start_with, _ = reporter(on_check=fail)
        body = gpu_run.drive(SOURCE, start_with, self.rig(on_problem=note))
        self.assertEqual((body["verdict"], body["reason"]), ("error", "device_health"))
        self.assertEqual((body["hits"], body["is_affected"]), (None, None))
        self.assertEqual(body["workarounds"], {"off": "untested"})
        self.assertEqual(
            [(p.reason, p.uuid) for p in problems], [("device_health", H200)]
        )
        (gpu,) = body["telemetry"]["devices"]
        counts = [gpu[w]["ecc"]["uncorrected_volatile"] for w in ("before", "after")]
        self.assertEqual(counts, [0, 1])

    def test_a_cancelled_run_that_spoiled_the_gpu_is_noticed(self) -> None:
        stopped: list[bool] = []

        def fail(name: str) -> None:
            self.change(**{ECC: 1})
            stopped.append(True)

        problems: list[Problem] = []
        start_with, _ = reporter(on_check=fail)
        with self.assertRaises(harness.Cancelled):
            gpu_run.drive(
                SOURCE,
                start_with,
                self.rig(on_problem=problems.append),
                cancelled=lambda: bool(stopped),
            )
        self.assertEqual(len(problems), 1)
        self.assertFalse(is_locked(self.folder / "locks", H200))

    def test_a_cpu_run_locks_nothing_and_sees_no_gpu(self) -> None:
        start_with, calls = reporter()
        body = gpu_run.drive(SOURCE, start_with, self.rig(), on_cpu=True)
        self.assertEqual(calls, [("", [])])
        self.assertEqual(set(body["telemetry"]), {"driver", "cpu"})
        self.assertFalse((self.folder / "locks").exists())

    def test_two_runs_on_one_gpu_wait_for_each_other(self) -> None:
        inside, most = [0], [0]
        guard, met = threading.Lock(), threading.Event()

        def enter(name: str) -> None:
            with guard:
                inside[0] += name == "requirements"
                most[0] = max(most[0], inside[0])
            # The first run stays until the second says that it waits.
            if name == "requirements":
                met.wait(30)
            if name == "refuted_hope":
                with guard:
                    inside[0] -= 1

        said: list[str] = []

        def say(text: str) -> None:
            said.append(text)
            met.set()

        bodies: list[dict[str, Any]] = []

        def run() -> None:
            start_with, _ = reporter(on_check=enter)
            bodies.append(gpu_run.drive(SOURCE, start_with, self.rig(say=say)))

        threads = [threading.Thread(target=run) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([body["verdict"] for body in bodies], ["bug_present"] * 2)
        self.assertEqual(most[0], 1)
        self.assertEqual(len(said), 1)
        self.assertIn("another run has the GPU", said[0])


CUDA_TORCH = """\
import os
from types import SimpleNamespace as N
__version__ = "9.9.0+cu130"
version = N(cuda="13.0", hip=None, git_version="0" * 40)
seen = os.environ.get("CUDA_VISIBLE_DEVICES", "unset")
gpu = N(name="NVIDIA H200", major=9, minor=0, total_memory=143771 << 20)
cuda = N(
    is_available=lambda: seen.startswith("GPU-"),
    device_count=lambda: len(seen.split(",")),
    get_device_properties=lambda index: gpu,
)
backends = N(cudnn=N(version=lambda: 92000))
"""

DRIVER = """
import sys
from pathlib import Path
from runner import sandbox
from runner.gpus import gpu_run, nvml
from tests.support.nvml_answers import Recorded
python, repro, locks, answers = sys.argv[1:]
gpu_run.drive(
    Path(repro).read_text(),
    lambda visible, held: sandbox.start_in(
        python, repro, gpus=visible, hold_fds=held, on_line=print
    ),
    gpu_run.HostGpus(Path(locks), nvml.Nvidia(Recorded(Path(answers)))),
    on_event=lambda *words: print(*words, flush=True),
)
"""


class KilledTest(Played):
    def test_the_gpu_of_a_killed_driver_is_free_once_its_checks_are_dead(self) -> None:
        python = runs.stand_in_torch(self.folder / "build", "9.9.0+cu130")
        package = self.folder / "build" / "lib" / "torch" / "__init__.py"
        package.write_text(CUDA_TORCH)
        repro = self.folder / "hangs_for_this_test.py"
        hangs = "import time\ntime.sleep(600)"
        repro.write_text(runs.source(device="cuda", control=hangs))
        locks = self.folder / "locks"
        with subprocess.Popen(
            [sys.executable, "-c", DRIVER, python, repro, locks, self.path],
            cwd=settings.BASE_DIR,
            stdout=subprocess.PIPE,
            text=True,
        ) as driver:
            assert driver.stdout
            next(line for line in driver.stdout if line.startswith("control started"))
            self.assertTrue(is_locked(locks, H200))
            driver.kill()
            driver.wait()
            lock.wait_for(locks, [[H200]]).release()
            left = [
                path.parent.name
                for path in Path("/proc").glob("[0-9]*/cmdline")
                if repro.name.encode() in read_bytes(str(path))
            ]
            self.assertEqual(left, [])


class ChoiceTest(Played):
    def choices(self, header: str, **fields: Any) -> list[tuple[str, ...]]:
        source = SOURCE.replace('device = "cuda"', f'device = "cuda"\n# {header}')
        parsed, _ = harness.read_repro(source)
        return gpu_run.candidates(self.rig(**fields), parsed)

    def test_a_run_gets_gpus_that_fit(self) -> None:
        self.play("two_gpus")
        self.assertEqual(self.choices('min_capability = "9.0"'), [(H100,)])
        self.assertEqual(self.choices('min_capability = "8.0"'), [(A100,), (H100,)])
        self.assertEqual(self.choices("min_memory_gib = 80"), [(A100,)])
        self.assertEqual(self.choices("min_devices = 2"), [(A100, H100)])
        # None fits: the harness is to say so, of what there is.
        self.assertEqual(self.choices('min_capability = "12.0"'), [(A100,), (H100,)])

    def test_one_that_is_withdrawn_is_not_taken(self) -> None:
        self.play("two_gpus")
        found = self.choices('min_capability = "8.0"', avoided=lambda: {A100})
        self.assertEqual(found, [(H100,)])

    def test_what_the_claim_assigned_stands(self) -> None:
        self.assertEqual(self.choices("timeout_s = 5", chosen=(A100,)), [(A100,)])


class OnSite(Played):
    """The site reads the answers from the file, too."""

    def setUp(self) -> None:
        super().setUp()
        site = override_settings(DATA_DIR=self.folder)
        site.enable()
        self.addCleanup(site.disable)
        played = Nvidia(Recorded(self.path))
        here = mock.patch.object(nvml, "Nvidia", lambda: played)
        here.start()
        self.addCleanup(here.stop)
        host_gpus.clear_cache()
        self.addCleanup(host_gpus.clear_cache)


class RunTest(OnSite, TransactionTestCase):
    """A run of the queue on a GPU, from claim to finish, in the sandbox."""

    def setUp(self) -> None:
        super().setUp()
        python = runs.stand_in_torch(self.folder / "build", "9.9.0+cu130")
        package = self.folder / "build" / "lib" / "torch" / "__init__.py"
        package.write_text(CUDA_TORCH)
        runs.make_build("9.9.0-cu130", "9.9.0+cu130")
        runs.install(python, "9.9.0-cu130", devices=[{"class": "cuda"}])

    def claimed(self, **fields: Any) -> Run:
        repro = runs.make_repro(
            runs.source(
                device="cuda",
                control="import torch\nprint('sees', torch.seen)\n"
                "return {'nonfinite': 0, 'grad': 1.0}",
            )
        )
        return runs.make_run(
            repro,
            build=Build.objects.get(),
            device="cuda",
            state="running",
            attempt=1,
            worker="w",
            gpu=H200,
            **fields,
        )

    def spoiling(self, **answers: Any) -> Any:
        """The GPU changes as soon as a check is to be started."""
        real = sandbox.start_in

        def start_in(*args: Any, **options: Any) -> Any:
            self.change(**answers)
            return real(*args, **options)

        return mock.patch.object(sandbox, "start_in", start_in)

    def test_the_run_sees_its_gpu_only_and_the_evidence_names_it(self) -> None:
        run = self.claimed()
        self.assertTrue(execution.execute(run))
        run.refresh_from_db()
        self.assertEqual((run.verdict, run.reason), ("bug_present", None))
        assert run.evidence
        self.assertEqual(run.evidence.body["device"]["uuid"], H200)
        self.assertEqual(run.evidence.body["telemetry"]["devices"][0]["uuid"], H200)
        said = run.log.filter(stream="stdout").values_list("text", flat=True)
        self.assertIn(f"sees {H200}", list(said))

    def test_a_run_that_left_ecc_errors_ends_without_evidence(self) -> None:
        run = self.claimed()
        Device.objects.create(
            host=registry.host_name(), uuid=H200, last_seen=timezone.now()
        )
        with (
            self.spoiling(**{ECC: 2}),
            self.assertLogs("runner.runs.host_gpus", "ERROR"),
        ):
            execution.execute(run)
        run.refresh_from_db()
        self.assertEqual(
            (run.state, run.verdict, run.reason), ("finished", "error", "device_health")
        )
        self.assertIsNone(run.evidence)
        row = Device.objects.get()
        self.assertEqual(row.state, Device.State.QUARANTINED)
        self.assertIn(f"0 before, 2 after (run {run.pk})", row.reason)
        self.assertTrue(run.log.filter(text__contains="ECC errors").exists())


class SiteTest(OnSite, TestCase):
    def device(self, uuid: str = H200, **fields: Any) -> Device:
        return Device.objects.create(
            host=registry.host_name(), uuid=uuid, last_seen=timezone.now(), **fields
        )

    def test_a_worker_offers_what_nvml_lists(self) -> None:
        self.play("two_gpus")
        row = runs.install(self.folder / "python", devices=[{"class": "cuda"}])
        first, second = host_gpus.offered([row])
        self.assertEqual((first["uuid"], first["capability"]), (A100, "8.0"))
        self.assertEqual(
            (second["name"], second["memory_mib"]), ("NVIDIA H100 80GB HBM3", 81559)
        )
        self.assertEqual(second["driver"], "580.159.03")

    def test_where_nvml_is_silent_it_offers_what_torch_saw(self) -> None:
        self.answers["nvmlInit"] = {"error": "LibRmVersionMismatch"}
        self.write()
        gpu = {"class": "cuda", "name": "NVIDIA H200", "capability": "9.0"}
        rows = [runs.install(self.folder / name, devices=[gpu, gpu]) for name in "ab"]
        offered = host_gpus.offered(rows)
        self.assertEqual([row["uuid"] for row in offered], ["cuda-0", "cuda-1"])
        self.assertEqual({row["name"] for row in offered}, {"NVIDIA H200"})
        # Such a GPU is locked like any other; torch knows it by its number.
        start_with, calls = reporter(uuid=None)
        body = gpu_run.drive(SOURCE, start_with, self.rig(chosen=("cuda-1",)))
        self.assertEqual([(seen, len(held)) for seen, held in calls], [("1", 1)])
        self.assertEqual(body["verdict"], "bug_present")
        self.assertNotIn("devices", body["telemetry"])

    def test_a_quarantine_stays_until_an_operator_lifts_it(self) -> None:
        self.device()
        rig = host_gpus.for_run()
        assert rig.on_problem
        rig.on_problem(Problem("device_health", H200, "129 MiB were not given back"))
        row = Device.objects.get()
        self.assertEqual(row.state, Device.State.QUARANTINED)
        self.assertEqual(row.reason, "device_health: 129 MiB were not given back")
        self.assertEqual(rig.avoided(), {H200})
        header, _ = harness.read_repro(SOURCE)
        self.assertEqual(gpu_run.candidates(rig, header), [])
        self.assertEqual(host_gpus.pause(Device.objects.all()), 0)
        self.assertEqual(host_gpus.lift(Device.objects.all()), 1)
        row.refresh_from_db()
        self.assertEqual((row.state, row.reason), (Device.State.READY, ""))
        self.assertEqual(gpu_run.candidates(rig, header), [(H200,)])

    def test_a_gpu_no_worker_announced_is_quarantined_too(self) -> None:
        host_gpus.quarantine(Problem("device_lost", H200, "gone"))
        self.assertEqual(Device.objects.get().state, Device.State.QUARANTINED)

    def test_only_who_may_change_devices_lifts_it(self) -> None:
        row = self.device(state=Device.State.QUARANTINED, reason="device_health: x")
        user = User.objects.create_user("operator", password="x", is_staff=True)
        view = Permission.objects.get(codename="view_device")
        user.user_permissions.add(view)
        self.client.force_login(user)
        act = {"action": "use_again", "_selected_action": [row.pk]}
        url = "/admin/runner/device/"
        self.assertNotContains(self.client.get(url), "use_again")
        self.client.post(url, act)
        row.refresh_from_db()
        self.assertEqual(row.state, Device.State.QUARANTINED)
        user.user_permissions.add(Permission.objects.get(codename="change_device"))
        self.assertContains(self.client.post(url, act, follow=True), "in use again: 1")
        row.refresh_from_db()
        self.assertEqual(row.state, Device.State.READY)

    def test_the_page_shows_the_gpus_and_why_one_is_out(self) -> None:
        reason = "device_health: 129 MiB were not given back"
        self.device(name="NVIDIA H200", state="quarantined", reason=reason)
        page = self.client.get("/en/builds/")
        self.assertContains(page, "NVIDIA H200")
        self.assertContains(page, reason)
        self.assertContains(page, "quarantined")
