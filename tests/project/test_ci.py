"""The GitHub Action, the GitLab template and the hook: their form, and their shell."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import jsonschema
import yaml
from django.test import LiveServerTestCase, SimpleTestCase, tag

from kb.publishing import saving
from tests import ROOT, TESTS
from tests.kb.syndication.test_osv import BOUNDED
from tests.runner.takeaway import test_client
from tests.support import runs

SCHEMAS = TESTS / "support" / "ci"
ACTION = ROOT / "action.yml"
TEMPLATE = ROOT / "deploy" / "ci" / "doesitnan.gitlab-ci.yml"
EXPRESSION = re.compile(r"\$\{\{ (inputs|steps)\.([\w.-]+) \}\}")
CONTAINS = re.compile(r"contains\(inputs\.checks, '(\w+)'\)")
STEP_S = 300


def action() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(ACTION.read_text())
    return found


def template() -> tuple[dict[str, Any], dict[str, Any]]:
    head, jobs = yaml.safe_load_all(TEMPLATE.read_text())
    return head["spec"]["inputs"], jobs


class FormTest(SimpleTestCase):
    def check(self, schema: str, document: Any) -> None:
        rules = json.loads((SCHEMAS / schema).read_text())
        check = jsonschema.Draft7Validator(rules)
        self.assertEqual([e.message for e in check.iter_errors(document)], [])

    def test_the_action_keeps_its_schema(self) -> None:
        self.check("github-action.json", action())

    def test_the_hook_keeps_its_schema(self) -> None:
        hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
        self.check("pre-commit-hooks.json", hooks)

    def test_the_template_keeps_its_schema(self) -> None:
        """Its head and its jobs are documents of their own."""
        for document in yaml.safe_load_all(TEMPLATE.read_text()):
            self.check("gitlab-ci.json", document)

    def test_no_input_becomes_a_part_of_the_shell(self) -> None:
        for step in action()["runs"]["steps"]:
            self.assertNotIn("${{", step.get("run", ""), step["name"])
        _inputs, jobs = template()
        for name, job in jobs.items():
            for line in (*job.get("before_script", ()), *job.get("script", ())):
                self.assertNotIn("$[[", line, name)

    def test_every_input_that_is_read_is_declared(self) -> None:
        text = ACTION.read_text()
        read = set(re.findall(r"inputs\.([\w-]+)", text))
        self.assertEqual(read, set(action()["inputs"]))
        read = set(re.findall(r"\$\[\[ inputs\.(\w+) \]\]", TEMPLATE.read_text()))
        self.assertEqual(read, set(template()[0]))


@tag("servers", "any_database")
class ShellTest(LiveServerTestCase):
    """Every step as the shell that it is, against a site, on a torch with the bug."""

    def setUp(self) -> None:
        test_client.fill()
        record = runs.make_record()
        record.affected = BOUNDED
        saving.save(record)
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.python = runs.stand_in_torch(self.folder)
        torch = self.folder / "lib" / "torch-2.4.1.dist-info"
        torch.mkdir()
        metadata = "Metadata-Version: 2.1\nName: torch\nVersion: 2.4.1\n"
        (torch / "METADATA").write_text(metadata)
        (self.folder / "work" / "src").mkdir(parents=True)
        (self.folder / "work" / "src" / "train.py").write_text(test_client.TRAP)
        (self.folder / "work" / "requirements.txt").write_text("torch==2.4.1\n")

    def shell(
        self, name: str, text: str, environ: dict[str, str], *options: str
    ) -> subprocess.CompletedProcess[str]:
        tools = Path(sys.executable).parent
        return subprocess.run(
            [name, *options, "-c", text],
            cwd=self.folder / "work",
            env={
                **{k: v for k, v in os.environ.items() if k != "VIRTUAL_ENV"},
                "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
                **environ,
            },
            capture_output=True,
            text=True,
            timeout=STEP_S,
        )

    def run_action(self, **given: str) -> tuple[dict[str, dict[str, str]], int]:
        """Outputs of each step that ran, and the last status, as a runner has them."""
        document = action()
        inputs = {k: v.get("default", "") for k, v in document["inputs"].items()}
        inputs |= {"site": self.live_server_url, "python": str(self.python), **given}
        outputs: dict[str, dict[str, str]] = {}

        def value(found: re.Match[str]) -> str:
            if found[1] == "inputs":
                return inputs[found[2]]
            step, _outputs, name = found[2].split(".")
            return outputs.get(step, {}).get(name, "")

        status = 0
        for at, step in enumerate(document["runs"]["steps"]):
            asked = CONTAINS.fullmatch(step.get("if", ""))
            if "uses" in step or (asked and asked[1] not in inputs["checks"].split()):
                continue
            told = self.folder / f"output-{at}"
            told.touch()
            environ = {
                **{k: EXPRESSION.sub(value, v) for k, v in step["env"].items()},
                "RUNNER_TEMP": str(self.folder / "runner"),
                "GITHUB_OUTPUT": str(told),
                "GITHUB_STEP_SUMMARY": str(self.folder / "summary.md"),
            }
            options = ("--noprofile", "--norc", "-eo", "pipefail")
            done = self.shell("bash", step["run"], environ, *options)
            lines = [line.partition("=") for line in told.read_text().splitlines()]
            outputs[step.get("id", step["name"])] = {k: v for k, _, v in lines}
            status = done.returncode
            if status and step is not document["runs"]["steps"][-1]:
                self.fail(f"{step['name']}: {done.stdout}{done.stderr}")
        return outputs, status

    def test_the_action_finds_what_there_is(self) -> None:
        outputs, status = self.run_action(paths="src")
        self.assertEqual(status, 1)
        told = {name: outputs[name]["status"] for name in ("lint", "doctor", "audit")}
        self.assertEqual(told, dict.fromkeys(told, "1"))
        summary = (self.folder / "summary.md").read_text()
        for words in ("train.py:2", "FAIL · bug reproduced", "x_NAN-9001"):
            self.assertIn(words, summary)
        folder = Path(outputs["programs"]["folder"])
        for name in ("lint", "doctor"):
            document = json.loads((folder / "sarif" / f"{name}.sarif").read_text())
            self.assertEqual(document["version"], "2.1.0")
            self.assertEqual(len(document["runs"][0]["results"]), 1)

    def test_the_action_passes_where_nothing_is(self) -> None:
        (self.folder / "work" / "src" / "train.py").write_text("import torch\n")
        outputs, status = self.run_action(paths="src", checks="lint")
        self.assertEqual(status, 0)
        self.assertEqual(outputs["lint"], {"status": "0", "sarif": "true"})
        self.assertNotIn("doctor", outputs)
        self.assertIn("nothing found", (self.folder / "summary.md").read_text())

    def test_nothing_is_uploaded_where_nothing_was_written(self) -> None:
        (self.folder / "work" / "requirements.txt").unlink()
        outputs, status = self.run_action(checks="doctor")
        self.assertEqual((status, outputs["doctor"]), (1, {"status": "2"}))
        upload = next(one for one in action()["runs"]["steps"] if "uses" in one)
        for check in ("lint", "doctor"):
            self.assertIn(f"steps.{check}.outputs.sarif", upload["if"])

    def test_the_jobs_of_gitlab(self) -> None:
        inputs, jobs = template()
        values = {name: row.get("default", "") for name, row in inputs.items()}
        values |= {"site": f"{self.live_server_url}/", "python": str(self.python)}
        values["paths"] = "src"
        base = jobs.pop(".doesitnan")
        environ = {
            name: re.sub(r"\$\[\[ inputs\.(\w+) \]\]", lambda m: values[m[1]], text)
            for name, text in base["variables"].items()
        }
        words = {
            "doesitnan-lint": "train.py:2",
            "doesitnan-doctor": "bug reproduced",
            "doesitnan-audit": "x_NAN-9001",
        }
        self.assertEqual(set(jobs), set(words))
        for name, job in jobs.items():
            lines = [*base["before_script"], *job["script"]]
            done = self.shell("sh", "\n".join(lines), environ, "-e")
            self.assertEqual(done.returncode, 1, f"{name}: {done.stderr}")
            self.assertIn(words[name], done.stdout + done.stderr)
        made = {path.name for path in (self.folder / "work" / "doesitnan").iterdir()}
        self.assertLessEqual({"lint.sarif", "doctor.json", "doctor.sarif"}, made)
