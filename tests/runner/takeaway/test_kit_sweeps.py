"""Sweeps of a kit: what time is left for, cell by cell, killed and gone on with."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from typing import Any

from django.core.management import call_command
from django.test import tag

from kb.choices import SHIPPED
from runner.models import Build, Run, Sweep
from runner.takeaway import sweeps
from tests.support import parametrized, runs
from tests.support.kits import KitCase
from tests.support.ordinary_user import ordinary

DTYPES = ["float32", "bfloat16", "float16"]


@tag("any_database", "long")
class KitSweepTest(KitCase):
    def add_swept(self, waits_for: str = "", device: str = "cpu") -> Any:
        """A repro that shows the bug but in float16, and may wait in bfloat16."""
        text = parametrized.source().replace('device = "cpu"', f'device = "{device}"')
        if waits_for:
            waiting = f'if DTYPE == "bfloat16":\n        open({waits_for!r}).read()\n'
            text = text.replace(
                "def control():\n", f"def control():\n    {waiting}", 1
            ).replace("# bf16 = {dtype", "# half = {dtype")
            text = text.replace('half = {dtype = "bfloat16"}', "half = {length = 8}")
        return runs.make_repro(text)

    def dtypes(self) -> list[list[str]]:
        found = self.whole().get("sweeps", [])
        return [[cell["at"]["dtype"] for cell in body["cells"]] for body in found]

    def test_killed_within_a_sweep_it_goes_on_at_the_next_cell(self) -> None:
        user = ordinary(self.python)
        pipe = self.folder / "pipe"
        repro = self.add_swept(str(pipe))
        os.mkfifo(pipe, 0o644)
        self.make()
        user.own(self.folder)
        arguments = ("--resume", "evidence.json", "--budget-s", "9999")
        process = self.start(*arguments, prefix=user.prefix)
        self.until(process, "dtype=bfloat16")
        process.kill()
        process.wait()
        self.assertEqual(self.dtypes(), [DTYPES[:1]])
        self.assertNotIn("digest", self.whole()["sweeps"][0])
        first = self.whole()["sweeps"][0]["cells"][0]
        evidence = self.folder / "evidence.json"
        call_command("load_evidence", evidence, origin="node-7", verbosity=0)
        self.assertFalse(Sweep.objects.exists(), "it lacks cells")
        pipe.unlink()
        pipe.write_text("")
        process = self.start(*arguments, prefix=user.prefix)
        out, err = process.communicate(timeout=300)
        self.assertEqual(process.returncode, 0, err)
        self.assertNotIn("dtype=float32", err, "that cell was done")
        self.assertEqual(self.dtypes(), [DTYPES])
        self.assertEqual(self.whole()["sweeps"][0]["cells"][0], first)
        self.assertIn("NAN-9001 repro · dtype: bug in 2 of 3 cells", out)
        call_command("load_evidence", evidence, origin="node-7", verbosity=0)
        sweep = Sweep.objects.get()
        self.assertEqual((sweep.origin, sweep.repro_digest), ("node-7", repro.digest))
        with self.settings(ISSUES_DIR=self.folder / "issues"):
            call_command("load_evidence", evidence, keep="h100", verbosity=0)
        (kept,) = self.folder.glob("issues/*/sweeps/*.json")
        self.assertEqual(kept.name, f"repro-dtype-{runs.SLUG}-h100.json")
        page = self.client.get("/NAN-9001", follow=True).content.decode()
        self.assertIn("node-7 · uploaded by a user, not re-run by us", page)
        self.assertIn("cells where dtype ≠ float16", page)
        self.assertEqual(list(self.scratch.iterdir()), [], "something was left behind")

    def test_without_time_that_was_given_it_only_says_what_there_is(self) -> None:
        self.add_swept()
        self.make()
        status, out, _ = self.run_kit("--json", "evidence.json")
        self.assertEqual((status, self.dtypes()), (0, []))
        self.assertIn("Sweeps of parameters left out: 1, with at most 3 cells", out)
        arguments = ("--resume", "evidence.json", "--sweeps", "only")
        status, out, err = self.run_kit(*arguments)
        self.assertEqual((status, self.dtypes()), (0, [DTYPES]), err)
        self.assertIn("Sweeps of parameters, if time is left: 1, with", out)
        status, out, _ = self.run_kit("--resume", "evidence.json", "--sweeps", "no")
        self.assertEqual((status, self.dtypes()), (0, [DTYPES]), "nothing is lost")

    def test_cells_of_another_driver_or_source_stay_in_the_file(self) -> None:
        self.add_swept()
        self.make()
        arguments = ("--sweeps", "only")
        self.run_kit("--json", "evidence.json", *arguments)
        whole = self.whole()
        (done,) = whole["sweeps"]
        part = {key: done[key] for key in done if key not in ("digest", "duration_s")}
        part["device"] = {**part["device"], "driver": "1.0"}
        part["cells"] = part["cells"][:1]
        other = {**done, "repro": {**done["repro"], "digest": "sha256:0"}}
        whole["sweeps"] = [other, part]
        (self.folder / "evidence.json").write_text(json.dumps(whole))
        status, _, err = self.run_kit("--resume", "evidence.json", *arguments)
        self.assertEqual(
            (status, self.dtypes()), (0, [DTYPES, DTYPES[:1], DTYPES]), err
        )
        found = self.whole()["sweeps"]
        self.assertEqual(found[:2], [other, part])
        status, _, err = self.run_kit("--resume", "evidence.json", *arguments)
        self.assertEqual((status, self.whole()["sweeps"]), (0, found), err)

    def test_what_is_left_at_the_end_is_said(self) -> None:
        self.add_swept(str(self.folder / "pipe"))
        os.mkfifo(self.folder / "pipe")
        self.make()
        # Nobody writes to that pipe.
        process = self.start("--json", "evidence.json", "--sweeps", "after")
        self.until(process, "dtype=bfloat16")
        self.interrupt(process)
        out, err = process.communicate(timeout=300)
        self.assertEqual((process.returncode, self.dtypes()), (130, [DTYPES[:1]]), err)
        self.assertIn("dtype: unfinished, cells so far: 1", out)
        self.assertIn("Unfinished sweeps: 1", out)
        # The start itself takes longer than that.
        arguments = ("--resume", "evidence.json", "--budget-s", "0.001")
        status, _, err = self.run_kit(*arguments)
        self.assertEqual((status, self.dtypes()), (0, [DTYPES[:1]]), err)
        # Who asks for nothing else is told that they are not done.
        status, _, err = self.run_kit(*arguments, "--sweeps", "only")
        self.assertEqual((status, self.dtypes()), (1, [DTYPES[:1]]), err)

    def test_where_the_repro_cannot_apply_nothing_is_swept(self) -> None:
        text = parametrized.source() + "\n\ndef requires():\n    return 'not here'\n"
        runs.make_repro(text)
        self.make()
        status, _, _ = self.run_kit("--json", "evidence.json", "--sweeps", "after")
        self.assertEqual((status, self.dtypes()), (0, []))
        status, _, _ = self.run_kit("--json", "other.json", "--sweeps", "only")
        (body,) = self.whole("other.json")["sweeps"]
        self.assertEqual((status, body["unmet"]), (0, "said:not here"))

    def test_on_a_gpu_its_cells_are_those_of_that_gpu(self) -> None:
        uuid = self.put_gpu()
        self.add_swept(device="cuda")
        self.make()
        done = self.run_on_gpu("--json", "evidence.json", "--sweeps", "after")
        self.assertEqual(done.returncode, 0, done.stderr)
        (body,) = self.whole()["sweeps"]
        self.assertEqual(len(body["cells"]), 3)
        self.assertEqual(
            (body["device"]["name"], body["device"]["uuid"]), ("TEST GPU", uuid)
        )
        evidence = self.folder / "evidence.json"
        call_command("load_evidence", evidence, origin="test-gpu", verbosity=0)
        self.assertEqual(Sweep.objects.get().device, "cuda")
        page = self.client.get("/NAN-9001", follow=True).content.decode()
        self.assertIn("test-gpu · uploaded by a user", page)

    def test_what_was_swept_before_is_swept_again(self) -> None:
        repro = self.add_swept()
        ours = {"length": {"values": [1, 2]}}
        facts = {
            "record": repro.record,
            "repro_name": "repro",
            "repro_digest": repro.digest,
            "build": Build.objects.create(slug=runs.SLUG, raw=runs.STAND_IN),
            "device": "cpu",
            "trials": 1,
            "protocol": 1,
            "state": Run.State.FINISHED,
            "started_at": datetime(2026, 1, 2, tzinfo=UTC),
        }
        for origin, axes in (
            ("node-7", {"scale": {"between": [0, 1]}}),
            (SHIPPED, ours),
        ):
            Sweep.objects.create(
                **facts, origin=origin, axes=axes, names=list(axes), digest=origin
            )
        found = sweeps.of_repros([repro])
        wanted = [[{"name": "length", "values": [1, 2]}]]
        self.assertEqual(found, {repro.pk: wanted})
        self.assertEqual(json.loads(json.dumps(found[repro.pk])), wanted)

    def test_a_repro_of_numbers_is_swept_over_the_first_within_its_bounds(self) -> None:
        text = parametrized.source()
        text = text.replace('# dtype = ["float32", "bfloat16", "float16"]\n', "")
        text = text.replace('# bf16 = {dtype = "bfloat16"}\n', "")
        text = text.replace('parameter("dtype")', '"float32"')
        wanted = [[{"name": "length", "values": [1, 6]}]]
        self.assertEqual(sweeps.declared(text), wanted, "4096 takes too much memory")
        self.assertEqual(sweeps.declared(runs.source()), [])
