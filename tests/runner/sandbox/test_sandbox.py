"""Tiers and what makes them, views, cold starts in every tier, and what is left."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any
from unittest import SkipTest, mock

from django.template import Context, Template
from django.test import SimpleTestCase, tag
from django.utils import translation

from portable import harness
from runner import sandbox
from runner.gpus import nvml
from runner.models import Worker
from runner.sandbox import (
    bubblewrap,
    cgroups,
    coldstart,
    layout,
    policy,
    probes,
    scratch as scratches,
    tiers,
    uids,
    view,
)
from runner.sandbox.tiers import Layers
from tests.support import jails, runs
from tests.support.builds import torch_python
from tests.support.sites import wait_for

RECORD = jails.ROOT / "fixtures/issues/checkpoint-reentrant-lost-grad/repro.py"
NOBODY = 65534
# Layers switched off -> the tiers that can be left on any machine.
ROADS = {
    "": "ABCD",
    "bubblewrap": "ABCD",
    "cgroup": "BCD",
    "bubblewrap,cgroup": "BCD",
    "namespaces": "CD",
    "namespaces,cgroup": "CD",
    "landlock": "ABD",
    "namespaces,landlock": "D",
    "seccomp": "D",
    "namespaces,landlock,seccomp,cgroup": "D",
}


def whole_machine(layers: Layers) -> bool:
    return bool(layers.namespaces and layers.landlock and layers.seccomp)


class TierTest(SimpleTestCase):
    def test_letters(self) -> None:
        boxed = Layers(namespaces="unshare", seccomp=True)
        for layers, letter in (
            (boxed._replace(cgroup="v2", landlock=4), "A"),
            (boxed._replace(cgroup="v1"), "A"),
            (boxed, "B"),
            (Layers(seccomp=True, landlock=1, cgroup="v2"), "C"),
            (Layers(seccomp=True), "D"),
            (Layers(landlock=7), "D"),
            (Layers(namespaces="bubblewrap", landlock=7, cgroup="v2"), "D"),
            (Layers(), "D"),
        ):
            with self.subTest(layers=layers):
                self.assertEqual(tiers.letter(layers), letter)
        self.assertTrue(tiers.reaches("A", "B") and not tiers.reaches("C", "B"))

    def test_each_missing_layer_is_named_with_its_reason_and_remedy(self) -> None:
        full = Layers("bubblewrap", 7, True, "v2", "own")
        for good in (full, full._replace(uid="shared")):
            self.assertNotIn("No ", tiers.describe(good).reason_en)
            self.assertNotIn("same user", tiers.describe(good).reason_en)
        self.assertEqual(set(tiers.LAYERS), set(Layers._fields))
        for name, layer in tiers.LAYERS.items():
            without = full._replace(**{name: None})
            if name == "uid":
                without = Layers(landlock=7, seccomp=True, cgroup="v2")
            found = tiers.describe(without, {name: "because of that"})
            with self.subTest(name=name):
                self.assertIn(f"{layer.missing[0]} (because of that).", found.reason_en)
                self.assertIn(
                    f"{layer.missing[1]}（because of that）。", found.reason_zh
                )
                self.assertIn(layer.remedy[0], found.remedy_en)
                self.assertIn(layer.remedy[1], found.remedy_zh)
                self.assertEqual(found.layers, without._asdict())
                self.assertEqual(sandbox.stored_tier(found._asdict()), found)

    def test_evidence_without_layers_tells_what_its_letter_means(self) -> None:
        self.assertEqual(sandbox.evidence_tier("D", None), sandbox.TIERS["D"])
        self.assertIsNone(sandbox.evidence_tier("Z", None))
        held = sandbox.evidence_tier("B", {"namespaces": "unshare", "seccomp": True})
        self.assertIn("No cgroup.", held.reason_en if held else "")

    def test_pages_say_it_in_the_language_of_the_reader(self) -> None:
        page = Template("{% load runs %}{% tier_line of %}")
        held = tiers.describe(Layers("unshare", 7, True), {"cgroup": "not here"})
        worker = Worker(name="w", tier="B", sandbox=held._asdict())
        evidence = {"tier": "B", "limits": {"layers": held.layers}}
        for of in (worker, evidence, "B"):
            with translation.override("en"):
                self.assertIn("Tier B", page.render(Context({"of": of})))
            with translation.override("zh-hans"):
                self.assertIn("已隔离", page.render(Context({"of": of})))
        text = page.render(Context({"of": worker}))
        self.assertIn("No cgroup (not here)", text)
        self.assertIn("unshare · Landlock 7 · seccomp", text)
        self.assertIn("–", page.render(Context({"of": Worker(name="old")})))


class CapabilitiesTest(SimpleTestCase):
    def test_without_one_layer_or_several(self) -> None:
        for road, possible in ROADS.items():
            without = frozenset(filter(None, road.split(",")))
            found = sandbox.tier(without)
            with self.subTest(without=road):
                self.assertIn(found.tier, possible)
                if whole_machine(jails.here()):
                    best = (
                        possible[0] if jails.here().cgroup else possible.strip("A")[0]
                    )
                    self.assertEqual(found.tier, best[0])
                for name in without & set(tiers.LAYERS):
                    self.assertFalse(found.layers[name])
                    self.assertIn("(switched off)", found.reason_en)

    def test_a_layer_that_does_not_exist_is_an_error(self) -> None:
        with self.assertRaisesRegex(ValueError, "no layer selinux"):
            sandbox.capabilities({"selinux"})

    def test_without_bubblewrap_on_the_path_it_goes_on_by_itself(self) -> None:
        command = [sys.executable, "-m", "runner.sandbox", "--probe", "--json"]
        done = jails.run(command, env={"PATH": "/nonexistent"})
        found = json.loads(done.stdout)
        self.assertEqual(found["reasons"]["bubblewrap"], "not installed")
        if jails.has("unshare"):
            self.assertEqual(found["layers"]["namespaces"], "unshare")

    def test_a_container_without_namespaces_is_tier_c_and_says_why(self) -> None:
        done = jails.run([*jails.as_docker_does(), *self.probe()])
        found = json.loads(done.stdout)
        wanted = "C" if jails.here().landlock else "D"
        self.assertEqual(found["tier"], wanted, found)
        self.assertIn("No namespaces ([Errno 1] unshare", found["reason_en"])
        self.assertIn("seccomp profile that permits unshare", found["remedy_en"])
        self.assertIn("没有命名空间", found["reason_zh"])
        self.assertIn("bubblewrap", found["reasons"])

    def test_a_container_that_refuses_landlock_too_is_tier_d(self) -> None:
        done = jails.run([*jails.as_docker_does("landlock"), *self.probe()])
        found = json.loads(done.stdout)
        self.assertEqual(found["tier"], "D", found)
        self.assertTrue(found["layers"]["seccomp"])
        self.assertIn("No Landlock (OSError: [Errno 38]", found["reason_en"])

    def probe(self) -> list[str]:
        return [sys.executable, "-m", "runner.sandbox", "--probe", "--json"]

    def test_elsewhere_than_on_linux_nothing_is_started(self) -> None:
        with mock.patch.object(sys, "platform", "darwin"):
            found = probes._capabilities.__wrapped__(frozenset())
            with mock.patch.object(probes, "_capabilities", lambda without: found):
                self.assertEqual(sandbox.tier().tier, "E")
                start = sandbox.start_in(sys.executable, str(RECORD))
        report = start(harness.CheckSpec("control"))
        self.assertEqual(report.failure, "refused")
        self.assertIn("darwin", report.log_text)

    def test_a_layer_that_breaks_its_promise_does_not_count(self) -> None:
        told = {"status": 256, "error": None}
        with (
            mock.patch.object(probes, "final_packet", lambda started: told),
            self.assertRaises(probes.Failed),
        ):
            probes.probed(Layers(seccomp=True))


class BubblewrapTest(SimpleTestCase):
    """The arguments are the policy: none may go unnoticed."""

    ENTRIES = [
        {"kind": "symlink", "to": "usr/bin", "target": "/bin"},
        {"kind": "bind", "source": "/usr", "target": "/usr"},
        {"kind": "empty", "target": "/usr/src/app"},
        {"kind": "bind", "source": "/b/1", "target": "/usr/src/app/b/1"},
        {"kind": "file", "target": "/etc/hosts", "text": "x"},
        {"kind": "bind", "source": "/c", "target": "/cache", "write": True},
        {
            "kind": "bind",
            "source": "/dev/nvidia0",
            "target": "/dev/nvidia0",
            "device": 1,
        },
    ]
    FIXED = (
        "bwrap --new-session --as-pid-1 --unshare-pid --unshare-net "
        "--unshare-ipc --unshare-uts --hostname localhost"
    )
    VIEW = (
        "--proc /proc --dev /dev --size 16777216 --tmpfs /tmp "
        "--size 16777216 --tmpfs /dev/shm "
        "--symlink usr/bin /bin --ro-bind /usr /usr "
        "--dir /usr/src --size 1048576 --tmpfs /usr/src/app "
        "--dir /usr/src/app/b --ro-bind /b/1 /usr/src/app/b/1 "
        "--dir /etc --perms 0444 --ro-bind-data 9 /etc/hosts "
        "--bind /c /cache --dev-bind /dev/nvidia0 /dev/nvidia0 "
        "--remount-ro /usr/src/app --remount-ro / --"
    )

    def line(self, root: bool) -> str:
        made = bubblewrap.arguments("bwrap", self.ENTRIES, {"/etc/hosts": 9}, root=root)
        return " ".join(made)

    def test_for_root(self) -> None:
        self.assertEqual(self.line(True), f"{self.FIXED} {self.VIEW}")

    def test_for_an_ordinary_user(self) -> None:
        ids = {"geteuid": lambda: 1000, "getegid": lambda: 1001}
        with mock.patch.multiple(os, **ids):
            made = self.line(False)
        users = "--unshare-user --uid 1000 --gid 1001"
        self.assertEqual(made, f"{self.FIXED} {users} {self.VIEW}")


class ViewTest(SimpleTestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(os.path.realpath(folder.name))

    def places(self, found: layout.Layout, **options: Any) -> dict[str, str]:
        entries = view.build_view(found, **options)
        return {e["target"]: e.get("source", e["kind"]) for e in entries}

    def test_only_what_is_needed(self) -> None:
        places = self.places(layout.layout_of(sys.executable))
        secret = {"/", "/home", "/root", "/etc", "/var", "/tmp", str(jails.ROOT)}
        self.assertFalse(secret & set(places))
        self.assertEqual(places[view.INSIDE_JAIL], str(view.JAIL))
        self.assertNotIn(str(jails.ROOT / "config"), places)

    def test_what_failed_once_is_asked_again(self) -> None:
        python = self.folder / "python"
        python.symlink_to(sys.executable)
        with mock.patch.object(subprocess, "run", side_effect=BlockingIOError):
            self.assertEqual(layout.layout_of(str(python)).folders, ())
        self.assertTrue(layout.layout_of(str(python)).folders)

    def test_every_name_of_a_linked_folder_is_there(self) -> None:
        real = self.folder / "real"
        (real / "lib").mkdir(parents=True)
        link = self.folder / "link"
        link.symlink_to(real)
        places = self.places(layout.Layout(sys.executable, (str(link / "lib"),)))
        self.assertEqual(places[str(link / "lib")], str(real / "lib"))
        self.assertEqual(places[str(real / "lib")], str(real / "lib"))

    def test_what_is_hidden_stays_hidden_but_for_a_build_in_it(self) -> None:
        build = self.folder / "site/var/builds/b"
        build.mkdir(parents=True)
        found = layout.Layout(sys.executable, (str(self.folder), str(build)))
        hidden = self.folder / "site"
        entries = view.build_view(found, hidden=[str(hidden)])
        targets = [e["target"] for e in entries]
        wide, cover, inner = map(targets.index, map(str, (self.folder, hidden, build)))
        self.assertLess(wide, cover)
        self.assertLess(cover, inner)
        self.assertEqual(entries[cover]["kind"], "empty")
        beside = self.places(found, hidden=["/nowhere/in/view"])
        self.assertNotIn("/nowhere/in/view", beside)

    def test_only_the_devices_of_the_gpus_of_the_run(self) -> None:
        for number, uuid in enumerate(("GPU-a", "GPU-b")):
            (self.folder / f"nvidia{number}").touch()
            told = self.folder / "gpus" / str(number) / "information"
            told.parent.mkdir(parents=True)
            told.write_text(
                f"Model: \t\t X\nGPU UUID: \t {uuid}\nDevice Minor: \t {number}\n"
            )
        (self.folder / "nvidiactl").touch()
        places = {"DEVICES": self.folder, "PROC_GPUS": self.folder / "gpus"}
        with mock.patch.multiple(nvml, **places):
            for visible, names in (
                ("GPU-b", "nvidia1 nvidiactl"),
                ("GPU-a,GPU-b", "nvidia0 nvidia1 nvidiactl"),
                ("", "nvidia0 nvidia1 nvidiactl"),
                ("GPU-unknown", "nvidia0 nvidia1 nvidiactl"),
            ):
                found = [Path(path).name for path in nvml.device_nodes(visible)]
                self.assertEqual(" ".join(found), names)
            entries = view.gpu_entries("GPU-b")
            self.assertEqual(entries[0]["target"], "/sys")
            self.assertTrue(all(entry["device"] for entry in entries[1:]))

    def test_a_record_can_hide_gpus_but_not_choose_them(self) -> None:
        name = "CUDA_VISIBLE_DEVICES"
        for asked, given, wanted in (("0,1", "GPU-a", "GPU-a"), ("", "GPU-a", "")):
            env = policy.environment("/s", {name: asked}, gpus=given)
            self.assertEqual(env[name], wanted)

    def test_wide_folders_do_not_come_along_on_the_search_path(self) -> None:
        for path in ("/", "/root", "/tmp", str(Path.home()), str(jails.ROOT)):
            self.assertTrue(layout.too_wide(path), path)
        self.assertFalse(layout.too_wide(str(jails.ROOT / ".venv/lib")))
        self.assertIn(f"{jails.ROOT}/lib", layout.narrow(str(jails.ROOT)))

    def test_a_build_that_others_cannot_read_runs_as_the_workers_user(self) -> None:
        build = self.folder / "build"
        build.mkdir(mode=0o755)
        self.folder.chmod(0o700)
        known = layout.Layout("/bin/sh", (str(build),))
        closed = layout.closed_part
        self.assertEqual(closed(known, with_parents=False), "")
        self.assertEqual(closed(known, with_parents=True), str(self.folder))
        build.chmod(0o700)
        self.assertEqual(closed(known, with_parents=False), str(build))
        layers = Layers("bubblewrap", uid="own")
        self.assertEqual(policy.layers_with(layers, known).uid, "shared")


class ColdStartTest(SimpleTestCase):
    """What holds a check, seen by the check, in every tier that is to be had here."""

    def setUp(self) -> None:
        self.folder = Path(
            self.enterContext(tempfile.TemporaryDirectory(prefix="with space "))
        )
        self.folder.chmod(0o755)
        self.python = runs.stand_in_torch(self.folder)

    def report(
        self, lines: str, road: str = "", header: str = "", **options: Any
    ) -> harness.Report:
        path = self.folder / "repro.py"
        path.write_text(
            runs.source(control=lines).replace("# trials", f"{header}# trials")
        )
        start = sandbox.start_in(
            str(self.python),
            str(path),
            gpus="",
            without=filter(None, road.split(",")),
            **options,
        )
        return start(harness.CheckSpec("control", timeout_s=60, memory_mib=1024))

    def test_what_cannot_be_started_leaves_nothing_open(self) -> None:
        path = self.folder / "group"
        path.mkdir()
        group = cgroups.Group("v2", path, path)
        start = sandbox.start_in(str(self.python), str(self.python), gpus="")
        before = set(Path("/proc/self/fd").iterdir())
        # Its file is not there, as where somebody has removed it.
        with self.assertRaises(FileNotFoundError):
            coldstart.launch({}, [], [], {}, b"", group, "", start)
        self.assertEqual(set(Path("/proc/self/fd").iterdir()), before)
        self.assertFalse(path.exists())

    def observations(self, lines: str, road: str = "", **options: Any) -> Any:
        report = self.report(lines, road, **options)
        self.assertIsNone(report.failure, report.log_text)
        return report.messages[0]["observations"]

    def test_limits_hold_inside(self) -> None:
        for road in ("", "namespaces", "namespaces,landlock,seccomp,cgroup"):
            found = self.observations(
                "import resource as r\n"
                "limits = r.RLIMIT_FSIZE, r.RLIMIT_CORE, r.RLIMIT_NOFILE\n"
                "return {'limits': [float(r.getrlimit(n)[1]) for n in limits]}",
                road,
            )
            self.assertEqual(found["limits"][0], sandbox.FILE_MIB * 2**20)
            self.assertLessEqual(found["limits"][1], 1)
            self.assertLessEqual(found["limits"][2], 4096)

    def test_secrets_stay_out_and_folders_go(self) -> None:
        for road in ("", "bubblewrap", "namespaces", "namespaces,landlock,seccomp"):
            with mock.patch.dict(os.environ, {"SECRET_KEY": "s", "DATABASE_URL": "d"}):
                found = self.observations(
                    "import os\n"
                    "open('left', 'w').close()\n"
                    "names = ','.join(sorted(os.environ))\n"
                    "gpus = os.environ['CUDA_VISIBLE_DEVICES']\n"
                    "return {'names': names, 'home': os.environ['HOME'],"
                    " 'gpus': gpus, 'file': __file__}",
                    road,
                )
            with self.subTest(road=road):
                self.assertNotRegex(str(found["names"]), "SECRET|DATABASE|DJANGO")
                self.assertEqual(found["gpus"], "")
                if found["home"] != view.SCRATCH:
                    self.assertFalse(Path(str(found["home"])).parent.exists())
                self.assertEqual(found["file"], f"{found['home']}/repro.py")

    def test_a_linked_interpreter_is_found(self) -> None:
        link = self.folder / "links" / "python"
        link.parent.mkdir()
        link.symlink_to("../python")
        self.python = link
        for road in ("", "bubblewrap", "namespaces"):
            self.observations("return {'nonfinite': 0, 'grad': 1.0}", road)

    def test_an_interpreter_may_be_named_from_here(self) -> None:
        with contextlib.chdir(self.folder):
            away = f"../{self.folder.name}/{self.python.relative_to(self.folder)}"
            self.python = Path(away)
            for road in ("", "bubblewrap", "namespaces"):
                self.observations("return {'nonfinite': 0, 'grad': 1.0}", road)

    def test_no_interpreter_is_a_report_not_an_exception(self) -> None:
        start = sandbox.start_in(str(self.folder / "gone"), "repro.py")
        report = start(harness.CheckSpec("control"))
        self.assertEqual(report.failure, "build_missing")

    def test_what_is_no_program_is_a_missing_build(self) -> None:
        self.python.write_bytes(b"\x7fELF is not one")
        for road in ("", "bubblewrap", "namespaces"):
            report = self.report("return {'nonfinite': 0, 'grad': 1.0}", road)
            self.assertEqual(report.failure, "build_missing", report.log_text)

    def test_what_needs_sockets_is_refused_in_tier_c(self) -> None:
        if not jails.here().landlock:
            self.skipTest("this machine has no tier C")
        for need in ("loader", "loopback"):
            report = self.report("", "namespaces", f'# needs = ["{need}"]\n')
            self.assertEqual(report.failure, "refused")
            self.assertIn(f"needs {need}, which sandbox tier C", report.log_text)

    def test_a_cgroup_that_cannot_be_made_refuses_the_check(self) -> None:
        if not jails.here().cgroup:
            self.skipTest("this process cannot make cgroups")
        with mock.patch.object(cgroups.Cgroups, "create", side_effect=OSError("full")):
            report = self.report("return {'nonfinite': 0, 'grad': 1.0}")
        self.assertEqual(report.failure, "refused")
        self.assertIn("full", report.log_text)

    def test_the_compile_cache_is_kept_for_those_who_need_a_compiler(self) -> None:
        cache = self.folder / "cache"
        lines = (
            "import getpass, os, tempfile\n"
            "cache = os.environ['TORCHINDUCTOR_CACHE_DIR']\n"
            "with open(cache + '/built', 'a') as f: f.write('x')\n"
            # default_cache_dir() of Inductor, whose precompiled headers ask no setting.
            "headers = f'{tempfile.gettempdir()}/torchinductor_{getpass.getuser()}'\n"
            "return {'cache': cache, 'size': os.stat(cache + '/built').st_size,\n"
            " 'headers': os.path.realpath(headers) == os.path.realpath(cache)}"
        )
        needs = '# needs = ["compiler"]\n'
        for number, road in enumerate(("", "bubblewrap"), 1):
            found = self.observations(
                lines, road, compile_cache=str(cache), header=needs
            )
            self.assertEqual(found["size"], number, (road, found))
            self.assertIs(found["headers"], True)
        found = self.observations(lines, compile_cache=str(cache))
        self.assertEqual((found["size"], found["headers"]), (1, False))
        self.assertEqual((cache / "built").read_text(), "xx")
        # Another user than the one who filled it begins anew.
        found = self.observations(
            lines, "namespaces", compile_cache=str(cache), header=needs
        )
        self.assertIn(found["size"], (1, 3))

    def test_deep_folders_are_removed_all_the_same(self) -> None:
        lines = (
            "import os\n"
            "for n in range(2000):\n"
            "    os.mkdir('d'); os.chdir('d')\n"
            "return {'home': os.environ['HOME']}"
        )
        found = self.observations(lines, "namespaces,landlock,seccomp,cgroup")
        self.assertFalse(Path(found["home"]).parent.exists())

    def test_the_command_prints_json_only(self) -> None:
        path = self.folder / "repro.py"
        path.write_text(runs.source())
        command = [sys.executable, "-m", "runner.sandbox", str(path), "--json"]
        done = jails.run([*command, "--python", str(self.python)])
        self.assertEqual(done.returncode, 1, done.stderr)
        body = json.loads(done.stdout)
        self.assertEqual(body["verdict"], "bug_present")
        self.assertEqual(body["tier"], sandbox.tier().tier)
        self.assertEqual(set(body["limits"]["layers"]), set(Layers._fields))
        self.assertEqual(body["limits"]["processes"], sandbox.PROCESSES)


class RecordTest(SimpleTestCase):
    """NAN-0002 with a real torch; what its verdict needs, in the weakest tier."""

    def verdict(self, source: str, road: str) -> tuple[Any, ...]:
        with sandbox.scratch_folder() as folder:
            path = Path(folder, "repro.py")
            path.write_text(source)
            start = sandbox.start_in(
                torch_python(), str(path), gpus="", without=road.split(",")
            )
            body = harness.drive(source, start)
        return body["verdict"], body["reason"]

    def needed(self) -> str:
        """The checks that the verdict depends on: each imports torch."""
        head, _, rest = RECORD.read_text().partition("\n\n\ndef workaround_")
        self.assertIn("def refuted_", rest)
        self.assertIn("def reference(", head)
        return head.replace("def reference(", "def left_out_reference(") + "\n"

    def test_its_verdict_in_the_weakest_tier(self) -> None:
        road = "namespaces,landlock,seccomp,cgroup"
        self.assertEqual(sandbox.tier(road.split(",")).tier, "D")
        self.assertEqual(self.verdict(self.needed(), road), ("bug_present", None))

    @tag("servers")
    def test_its_verdict_in_every_tier(self) -> None:
        roads = ("cgroup", "bubblewrap", "namespaces", "namespaces,landlock")
        for road in roads:
            with self.subTest(tier=sandbox.tier(road.split(",")).tier, without=road):
                found = self.verdict(self.needed(), road)
                self.assertEqual(found, ("bug_present", None))

    @tag("servers")
    def test_its_verdict_in_a_container(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        repro = Path(folder.name, "repro.py")
        repro.write_text(self.needed())
        for also in ((), ("landlock",)):
            command = [sys.executable, "-m", "runner.sandbox", str(repro), "--json"]
            python = ["--python", torch_python(), "--trials", "1"]
            done = jails.run([*jails.as_docker_does(*also), *command, *python])
            body = json.loads(done.stdout)
            self.assertEqual(body["verdict"], "bug_present", done.stderr)
            self.assertIn(body["tier"], "CD")


class OrdinaryUserTest(SimpleTestCase):
    """The same as somebody without privileges, on a copy that he can read."""

    def setUp(self) -> None:
        # The exec by setpriv itself still has root's right to every folder.
        self.become = ["sh", "-c", 'exec "$@"', "sh"]
        self.python = sys.executable
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.folder.chmod(0o755)
        if os.geteuid() == 0:
            ids = [f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
            self.become = ["setpriv", *ids, *self.become]
            self.python = self.readable_python()
        for name in ("portable", "runner"):
            shutil.copytree(jails.ROOT / name, self.folder / name)

    def readable_python(self) -> str:
        for path in (os.path.realpath(sys.executable), "/usr/bin/python3"):
            asked = [*self.become, path, "-c", "import sys; print(sys.version_info[1])"]
            try:
                done = subprocess.run(asked, capture_output=True, cwd="/", check=True)
            except (OSError, subprocess.CalledProcessError):
                continue
            if int(done.stdout) >= 11:
                return path
        raise SkipTest("no Python 3.11 that an ordinary user can read")

    def run_as_user(self, *arguments: str) -> Any:
        command = [*self.become, self.python, "-m", "runner.sandbox", *arguments]
        done = jails.run(command, cwd=self.folder, env={"PATH": os.environ["PATH"]})
        self.assertTrue(done.stdout, done.stderr)
        return json.loads(done.stdout)

    def test_an_ordinary_user_reaches_what_the_kernel_allows(self) -> None:
        found = self.run_as_user("--probe", "--json")
        if os.geteuid() == 0 and whole_machine(jails.here()):
            self.assertIn(found["tier"], "AB", found)
        self.assertEqual(found["layers"]["uid"], "shared")

    def test_a_run_has_its_verdict(self) -> None:
        python = runs.stand_in_torch(self.folder / "build")
        python.write_text(python.read_text().replace(sys.executable, self.python))
        path = self.folder / "repro.py"
        path.write_text(
            runs.source(
                trigger="import os\nreturn {'nonfinite': os.getuid() or -1,"
                " 'grad': 1.0}"
            )
        )
        for road in ("", "bubblewrap", "namespaces", "namespaces,landlock,seccomp"):
            body = self.run_as_user(
                str(path), "--json", "--python", str(python), "--without", road
            )
            with self.subTest(road=road):
                self.assertEqual(body["verdict"], "bug_present", body["checks"][-1])


class CgroupTreeTest(SimpleTestCase):
    """Where groups can be made, on trees as /sys/fs/cgroup and /proc show them."""

    def setUp(self) -> None:
        self.root = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.proc = self.root / "proc"
        self.proc.mkdir()

    def tree(self, mounts: str, own: str) -> tuple[Any, Any]:
        (self.proc / "mountinfo").write_text(mounts)
        (self.proc / "cgroup").write_text(own)
        return cgroups.mounted(self.proc), cgroups.own_groups(self.proc)

    def two(self, handed_down: str) -> Path:
        inner = self.root / "user/app/worker.scope"
        inner.mkdir(parents=True)
        (inner / "cgroup.subtree_control").write_text("")
        (inner.parent / "cgroup.subtree_control").write_text(handed_down)
        return inner.parent

    def test_v2_takes_the_nearest_ancestor_that_hands_both_down(self) -> None:
        app = self.two("cpu memory pids")
        told = self.tree(
            f"30 1 0:26 / {self.root} rw - cgroup2 cgroup2 rw\n",
            "0::/user/app/worker.scope\n",
        )
        found = cgroups.unified(*told)
        self.assertEqual((found.version, found.memory, found.pids), ("v2", app, app))

    def test_what_is_mounted_may_have_no_name(self) -> None:
        told = self.tree("29 1 0:25 / /x rw - tmpfs  rw,size=4k\n", "0::/user\n")
        with self.assertRaisesRegex(OSError, "cgroup v2"):
            cgroups.unified(*told)

    def test_v2_without_delegation_says_so(self) -> None:
        self.two("cpu")
        told = self.tree(
            f"30 1 0:26 / {self.root} rw - cgroup2 cgroup2 rw\n",
            "0::/user/app/worker.scope\n",
        )
        with self.assertRaisesRegex(OSError, "no delegated cgroup v2"):
            cgroups.unified(*told)

    def test_v1_has_a_folder_for_each_controller(self) -> None:
        for name in ("memory/job", "pids"):
            (self.root / name).mkdir(parents=True)
        told = self.tree(
            f"30 1 0:26 / {self.root}/memory rw - cgroup cgroup rw,memory\n"
            f"31 1 0:27 / {self.root}/pids rw - cgroup cgroup rw,pids\n",
            "4:memory:/job\n8:pids:/\n0::/\n",
        )
        found = cgroups.split(*told)
        self.assertEqual(found.memory, self.root / "memory/job")
        self.assertEqual(found.pids, self.root / "pids")

    def test_v2_files_are_written_and_read_by_their_names(self) -> None:
        group = cgroups.Group("v2", self.root, self.root)
        group.limit(256, 96)
        self.assertEqual((self.root / "memory.max").read_text(), str(256 * 2**20))
        self.assertEqual((self.root / "memory.swap.max").read_text(), "0")
        self.assertEqual((self.root / "pids.max").read_text(), "96")
        (self.root / "memory.stat").write_text("anon 3145728\nfile 9\nshmem 1048576\n")
        self.assertEqual(group.memory_mib(), 4)
        (self.root / "pids.events").write_text("max 2\n")
        self.assertEqual(group.limit_hit(), "limit:processes")
        (self.root / "memory.events").write_text("low 0\noom 1\noom_kill 1\n")
        self.assertEqual(group.limit_hit(), "limit:memory")
        (self.root / "pids.events").write_text("max 0\n")
        # Killed although its own limit was never reached: the host had no memory left.
        (self.root / "memory.events").write_text("low 0\noom 0\noom_kill 1\n")
        self.assertIsNone(group.limit_hit())
        self.assertTrue(group.oom_kills() and not group.was_full())

    def test_groups_of_dead_workers_are_swept_and_no_others(self) -> None:
        found = cgroups.Cgroups("v2", self.root, self.root)
        dead = subprocess.Popen(["/bin/true"])
        mark = cgroups.owner_mark(dead.pid)
        dead.wait()
        gone = self.root / f"{cgroups.PREFIX}{mark}-0"
        mine = self.root / f"{cgroups.PREFIX}{cgroups.owner_mark(os.getpid())}-0"
        reused = self.root / f"{cgroups.PREFIX}{os.getpid()}-1-0"
        for path in (gone, mine, reused):
            path.mkdir()
        self.assertEqual(cgroups.sweep(found), 2)
        self.assertEqual([p.name for p in self.root.glob("does*")], [mine.name])


class LeftoversTest(SimpleTestCase):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.folder.chmod(0o711)

    def test_only_abandoned_folders_are_swept(self) -> None:
        with mock.patch.object(tempfile, "tempdir", str(self.folder)):
            left = Path(tempfile.mkdtemp(prefix=scratches.PREFIX))
            young = Path(tempfile.mkdtemp(prefix=scratches.PREFIX))
            link = self.folder / f"{scratches.PREFIX}link"
            link.symlink_to("/etc")
            with sandbox.scratch_folder() as used:
                for path in (str(left), used):
                    os.utime(path, (0, 0))
                self.assertEqual(scratches.remove_abandoned(), 1)
                self.assertTrue(Path(used).exists() and young.exists())
        self.assertFalse(left.exists())

    def test_users_are_leased_once_and_come_back(self) -> None:
        with mock.patch.object(uids, "RUN", self.folder):
            with uids.lease() as first, uids.lease() as second:
                self.assertNotEqual(first, second)
            with uids.lease() as again:
                self.assertEqual(again, first)
        mode = stat.S_IMODE((self.folder / "doesitnan-uids").stat().st_mode)
        self.assertEqual(mode, 0o700)

    def test_a_killed_client_leaves_no_process_and_the_sweep_nothing_else(
        self,
    ) -> None:
        python = runs.stand_in_torch(self.folder)
        path = self.folder / "repro.py"
        path.write_text(
            runs.source(
                control="import os, time\n"
                "for _ in range(2):\n"
                "    if os.fork() == 0:\n"
                "        os.setsid()\n"
                "        time.sleep(600)\n"
                "print('running', flush=True)\n"
                "time.sleep(600)"
            )
        )
        for road in ("", "bubblewrap", "cgroup", "namespaces,landlock,seccomp"):
            with self.subTest(road=road):
                self.kill_a_client(python, path, road)

    def kill_a_client(self, python: Path, path: Path, road: str) -> None:
        mark = f"killed-{os.getpid()}-{len(road)}"
        code = (
            "import sys\n"
            "from portable import harness\nfrom runner import sandbox\n"
            "sandbox.configure(allow_shared_root=True)\n"
            "start = sandbox.start_in(sys.argv[1], sys.argv[2], gpus='',\n"
            "    without=[n for n in sys.argv[3].split(',') if n],\n"
            "    on_line=lambda *words: print(words, flush=True))\n"
            "start(harness.CheckSpec('control', timeout_s=60,"
            f" env={{'TEST_MARK': '{mark}'}}))\n"
        )
        client = subprocess.Popen(
            [sys.executable, "-c", code, str(python), str(path), road],
            stdout=subprocess.PIPE,
            text=True,
            cwd=jails.ROOT,
            env={**os.environ, "TMPDIR": str(self.folder)},
        )
        with client:
            assert client.stdout
            while "running" not in client.stdout.readline():
                self.assertIsNone(client.poll())
            self.assertTrue(jails.processes_with(mark))
            client.send_signal(signal.SIGKILL)
        wait_for(lambda: not jails.processes_with(mark), "its processes end")
        with mock.patch.object(tempfile, "tempdir", str(self.folder)):
            for folder in self.folder.glob(scratches.PREFIX + "*"):
                os.utime(folder, (0, 0))
            sandbox.remove_leftovers()
        self.assertEqual(list(self.folder.glob(scratches.PREFIX + "*")), [])
        found = sandbox.capabilities().cgroups
        left = list(cgroups.abandoned(found)) if found else []
        self.assertEqual([p for p in left if str(client.pid) in p.name], [])
