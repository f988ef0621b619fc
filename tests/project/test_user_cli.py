"""`doesitnan.py`: picks and masks on the user's machine, finds the same."""

from __future__ import annotations

import ast
import io
import json
import os
import subprocess
import sys
import tempfile
import tomllib
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

from django.conf import settings
from django.test import LiveServerTestCase, SimpleTestCase, TestCase, tag

from kb.lookup.answer import look_up
from runner.takeaway.pipe import pipe_client
from tests.support import loaded, log_corpus
from tests.support.builds import torch_python

BASE_DIR = Path(settings.BASE_DIR)
LOGS = log_corpus.LOGS
WARNING = (
    "/home/alice/venv/lib/python3.11/site-packages/torch/utils/checkpoint.py:87: "
    "UserWarning: None of the inputs have requires_grad=True. Gradients will be None"
)


def script() -> ModuleType:
    """What a site serves, as a module."""
    module = ModuleType("doesitnan")
    exec(pipe_client(""), module.__dict__)
    return module


doesitnan: Any = script()


def sent_of(data: bytes) -> str:
    """What the script sends of a log."""
    masks = doesitnan.Masks(["alice", "gpu-box"])
    kept = doesitnan.kept_lines(
        doesitnan.lines_of(io.BufferedReader(io.BytesIO(data)), False)
    )  # type: ignore[arg-type]
    # Words of somebody's own have no lines that tell: for them there is --all.
    telling = doesitnan.key_lines(kept) or kept
    picked = [(at, masks.apply(text)) for at, text in telling]
    return "\n".join(text for _, text in doesitnan.within(picked))


def with_escapes(value: Any) -> Any:
    """An answer in which each text begins a command to a terminal."""
    if isinstance(value, dict):
        return {name: with_escapes(item) for name, item in value.items()}
    if isinstance(value, list):
        return [with_escapes(item) for item in value]
    return f"{value}\x1b]0;evil\x07" if isinstance(value, str) else value


def best(found: dict[str, Any]) -> str:
    return found["candidates"][0]["record"] if found["candidates"] else ""


# Two records have its warning, and a line of code tells which: code stays at home.
TOLD_BY_CODE = ("parameter-moved-not-registered",)


@tag("any_database")
class SameAnswerTest(TestCase):
    """What is sent finds the record that the whole log finds."""

    @classmethod
    def setUpTestData(cls) -> None:
        loaded.shipped()

    def assert_same(self, name: str, log: bytes) -> None:
        with self.subTest(name, size=len(log)):
            whole, sent = look_up(log.decode("utf-8", "replace")), look_up(sent_of(log))
            if name in TOLD_BY_CODE:
                offered = [one["record"] for one in sent["candidates"]]
                self.assertIn(best(whole), offered)
                return
            self.assertEqual(sent["outcome"], whole["outcome"])
            # What is only possible is ordered by all that was pasted.
            if whole["outcome"] in ("exact", "match"):
                self.assertEqual(best(sent), best(whole))

    def assert_same_in_a_run(self, name: str, data: bytes) -> None:
        """Also with a long training run around it, as a pipe brings it."""
        steps = b"".join(b"step %d loss 1.%03d lr 1e-4\n" % (n, n) for n in range(300))
        self.assert_same(name, data)
        # Words of somebody's own have no lines that tell: nobody logs them.
        if "prose" not in name:
            self.assert_same(name, steps + data + b"\n" + steps)

    def test_on_the_golden_logs(self) -> None:
        for paste in tomllib.loads((LOGS / "golden.toml").read_text())["paste"]:
            log = (LOGS / paste["log"]).read_bytes()
            self.assert_same_in_a_run(paste["log"], log)

    def test_on_the_known_logs(self) -> None:
        for number, paste in enumerate(log_corpus.known()):
            same = self.assert_same if number % 3 else self.assert_same_in_a_run
            same(paste.name, paste.text.encode())


class ReportTest(SimpleTestCase):
    """A report of nan_probe on the way through a pipe."""

    def test_it_is_sent_whole_also_behind_the_prefix_of_a_launcher(self) -> None:
        page = (BASE_DIR / "docs" / "clients.md").read_text()
        report = page[page.index("nan_probe 2: first") :].partition("\n```")[0]
        run = [f"step {n} of many" for n in range(5000)]
        for prefix in ("", "[default0]:"):
            lines = [prefix + line for line in report.split("\n")]
            for log in (run + lines, run[:1500] + lines + run):
                sent = sent_of("\n".join(log).encode()).split("\n")
                self.assertEqual([one for one in sent if one in lines], lines)
                self.assertLess(len(sent), len(lines) + 8)


class MaskTest(SimpleTestCase):
    SECRETS = (
        ("/home/alice/proj/secret_model/train.py", "secret_model"),
        ("C:\\Users\\Alice Smith\\proj\\train.py", "Smith"),
        ('File "C:\\Users\\Alice Smith\\train.py", line 3', "Smith"),
        ("~alice/data/patients.csv", "patients"),
        ("see https://git.corp.example/team/repo?token=abc", "corp"),
        ("postgres://bob:hunter2@db.internal:5432/x", "hunter2"),
        ("alice@gpu-box:~$ python train.py", "gpu-box"),
        ("user alice started the run", "alice"),
        ("connect 10.12.0.7:29500 failed", "10.12"),
        ("fe80:0:0:0:1c2d:3e4f:5a6b:7c8d", "1c2d"),
        ("node17.cluster.internal: rank 3", "node17"),
        ("Nov 21 10:00:00 node17 python[33]: RuntimeError: x", "node17"),
        ("[node17:4]: RuntimeError: x", "node17"),
        ("HF_TOKEN=hf_abcdefghijklmnop", "hf_abc"),
        (
            "export WANDB_API_KEY='0123456789abcdef0123456789abcdef01234567'",
            "0123456789",
        ),
        ("Authorization: Bearer abc.def.ghi-jkl", "abc.def"),
        ('{"password": "hunter2"}', "hunter2"),
        ("sha 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b", "9f86d081"),
        ("\x1b]8;;http://evil.example\x07click", "evil"),
    )

    # Every value is HuntEr2 and so on: what is looked for afterwards.
    FORMS = (
        "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        "aws_secret_access_key = HuntEr2",
        "SSH_PRIVATE_KEY=HuntEr2",
        'export DB_PASSWORD="HuntEr2 with spaces"',
        "export MYSQL_PWD='HuntEr2'",
        "awsSecretAccessKey: HuntEr2",
        "hfToken = HuntEr2",
        "hf.token=HuntEr2",
        "client-secret: HuntEr2",
        "--password HuntEr2",
        "--token HuntEr2",
        "--hf-token HuntEr2 --epochs 3",
        "--wandb_api_key HuntEr2",
        "--api-key=HuntEr2",
        "train.py --user HuntEr2 --lr 1e-4",
        "password is HuntEr2",
        "The secret was HuntEr2.",
        "my api key is HuntEr2, do not tell",
        "密码是 HuntEr2",
        "密钥：HuntEr2",
        "用户名: HuntEr2",
        "passphrase=HuntEr2",
        "private_key: HuntEr2",
        '"private_key_id": "HuntEr2"',
        "{'token': 'HuntEr2', 'loss': nan}",
        "credentials=HuntEr2",
        "Authorization: Basic HuntEr2",
        "authorization=HuntEr2",
        "auth: HuntEr2",
        "password=123HuntEr2",
        "AccountKey=HuntEr2==",
        "user=HuntEr2",
        "username: HuntEr2",
        "wandb: Currently logged in as: HuntEr2 (acme-HuntEr2)",
        "logged in as HuntEr2",
        "entity=HuntEr2",
        "wandb_entity: HuntEr2",
        "organization = HuntEr2",
        "job submitted by user HuntEr2",
        "login: HuntEr2",
        "repo_owner=HuntEr2",
        "machine api.wandb.ai login user password HuntEr2",
        "ssh-ed25519 AAAAC3NzaC1lZDI1 HuntEr2",
        "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEHuntEr2AAAAAAAAAA",
        "os.environ['HF_TOKEN'] = 'HuntEr2'",
        "tenant_id=HuntEr2",
        "MASTER_ADDR=HuntEr2 MASTER_PORT=29500",
        "--master_addr HuntEr2 --lr 1e-4",
        "rdzv_endpoint: HuntEr2:29400",
        "SLURM_JOB_NODELIST=HuntEr2[01-04]",
        "hostname: HuntEr2",
        "origin git@github.com:HuntEr2/train.git (fetch)",
    )

    def test_no_form_of_a_secret_leaves(self) -> None:
        for line in self.FORMS:
            with self.subTest(line):
                shown = self.masked(line)
                self.assertNotIn("HuntEr2", shown)
                self.assertNotIn("bPxRfiCYEXAMPLEKEY", shown)

    def test_a_number_is_a_secret_where_the_name_says_so(self) -> None:
        self.assertNotIn("123456", self.masked("password=123456"))
        self.assertIn("123456", self.masked("tokens=123456"))

    def test_a_long_line_of_names_does_not_hold_it_up(self) -> None:
        lines = "\n".join([f"nan {'org.' * 900}"] * 9)
        command = [sys.executable, "-c", pipe_client(""), "--dry-run", "--no-echo"]
        done = subprocess.run(
            command, input=lines, capture_output=True, text=True, timeout=120
        )
        self.assertEqual(done.returncode, 0, done.stderr)

    def masked(self, line: str) -> str:
        return str(doesitnan.Masks(["alice", "gpu-box"]).apply(line))

    def test_what_belongs_to_the_user_does_not_leave(self) -> None:
        for line, secret in self.SECRETS:
            with self.subTest(line):
                self.assertNotIn(secret, self.masked(line))

    def test_what_identifies_an_error_stays(self) -> None:
        for line in (
            "RuntimeError: element 0 of tensors does not require grad",
            "{'loss': 0.0, 'grad_norm': nan, 'learning_rate': 1e-05}",
            "torch==2.6.0a0+df5bbc09d1.nv24.12",
            "[rank3]: cudaErrorIllegalAddress at aten::native::foo",
            "loss/step 1.0 it/s 3.2 a/b",
            "2025-03-20 10:11:12,345 [INFO] step 3",
            "UserWarning: None of the inputs have requires_grad=True",
            "tokenizer.pad_token = tokenizer.eos_token",
            "num_tokens: 4096 tokens_per_second=123.4 padding token is nan",
            "key_padding_mask: torch.bool, query.dtype: float, key.dtype: c10::Half",
            "user code: aten.where.self",
            "FlashAttentionBackward0 ScaledDotProductFlashAttentionForCpuBackward0",
            "the gradient of parameter encoder.token_embedding.weight is None",
            "KeyError: 'private'",
            "node_name: aten_mul_1 is nan",
            "np.linspace(0, 1, 9, endpoint=True) nan",
        ):
            self.assertEqual(self.masked(line), line)
        self.assertEqual(
            self.masked(WARNING),
            WARNING.replace("/home/alice/venv/lib/python3.11/", "/_/"),
        )

    def test_old_pythons_can_read_it(self) -> None:
        ast.parse(pipe_client(""), feature_version=(3, 8))


@tag("any_database")
class CommandTest(LiveServerTestCase):
    def setUp(self) -> None:
        loaded.shipped()
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.script = self.folder / "doesitnan.py"
        self.script.write_text(pipe_client(""), "utf-8")

    def command(
        self, log: str, *arguments: str, site: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "LANG": "C", "USER": "alice"}
        environment["DOESITNAN_SITE"] = self.live_server_url if site is None else site
        return subprocess.run(
            [sys.executable, str(self.script), *arguments],
            input=log,
            capture_output=True,
            text=True,
            encoding="utf-8",
            env=environment,
            timeout=120,
        )

    def test_a_log_from_a_pipe_is_named_and_can_be_reproduced(self) -> None:
        done = self.command("step 1\n" * 2000 + WARNING + "\n")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stdout.startswith("step 1\nstep 1\n"))
        self.assertIn("NAN-0002", done.stdout)
        self.assertIn("NAN-0002 explains line 2001.", done.stdout)
        self.assertIn("  line 2001 says “", done.stdout)
        self.assertIn(
            "/api/v1/records/NAN-0002/repro.py -o NAN-0002-repro.py", done.stdout
        )
        self.assertIn(f"uv run {self.live_server_url}/api/v1/records", done.stdout)

    def test_it_answers_in_chinese(self) -> None:
        done = self.command(WARNING, "--lang", "zh", "--no-echo")
        self.assertIn("在本机复现", done.stdout)
        # By its cost: its name is for authors.
        self.assertIn("现在怎么做（未验证）。代价：", done.stdout)
        self.assertNotIn("alice", done.stdout)

    def test_the_exit_status_is_that_of_the_look_up(self) -> None:
        self.assertEqual(self.command("all is well\n", "--no-echo").returncode, 1)
        for arguments, site in (
            ([], ""),
            ([], "ftp://x"),
            ([], "http://127.0.0.1:9"),
            (["gone.log"], None),
            (["--nonsense"], None),
        ):
            done = self.command(WARNING, *arguments, site=site)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertNotIn("Traceback", done.stderr)
        silent = self.command("all is well\n", "--no-echo", site="http://127.0.0.1:9")
        self.assertEqual(silent.returncode, 1)
        self.assertIn("nothing was sent", silent.stderr)
        empty = self.command("", "--no-echo")
        self.assertEqual(empty.returncode, 2)
        self.assertIn("Nothing was pasted", empty.stderr)

    def test_what_was_found_stands_where_the_record_does_not_answer(self) -> None:
        path, ask = self.folder / "train.log", doesitnan.ask
        path.write_text(WARNING)

        def asked(url: str, *rest: Any, **more: Any) -> Any:
            if "/records/" in url:
                raise doesitnan.Trouble("429: wait a minute")
            return ask(url, *rest, **more)

        given = [str(path), "--site", self.live_server_url]
        options = doesitnan.arguments().parse_args(given)
        said, told = io.StringIO(), io.StringIO()
        patched = mock.patch.object(doesitnan, "ask", asked)
        with patched, redirect_stdout(said), redirect_stderr(told):
            self.assertEqual(doesitnan.run(options), 0)
        self.assertIn("NAN-0002 explains line 1.", said.getvalue())
        self.assertIn("429: wait a minute", told.getvalue())

    def test_a_log_that_a_shell_of_windows_wrote(self) -> None:
        path = self.folder / "train.log"
        path.write_text("step 1\n" + WARNING, "utf-16")
        done = self.command("", str(path))
        self.assertIn("NAN-0002 explains line 2.", done.stdout, done.stderr)

    def test_who_reads_no_further_hears_of_no_error(self) -> None:
        inner, outer = os.pipe()
        os.close(inner)
        environment = {**os.environ, "DOESITNAN_SITE": self.live_server_url}
        done = subprocess.run(
            [sys.executable, str(self.script)],
            input=WARNING.encode(),
            stdout=outer,
            stderr=subprocess.PIPE,
            env=environment,
        )
        os.close(outer)
        self.assertEqual((done.returncode, done.stderr), (2, b""))

    def test_what_is_wrong_is_said_once(self) -> None:
        done = self.command("")
        self.assertEqual(done.stderr.count("Nothing was pasted"), 1)
        done = self.command(WARNING, site=self.live_server_url + "/nowhere")
        self.assertIn("is this the address of the site?", done.stderr)

    def test_what_several_causes_show_alike_is_told_apart(self) -> None:
        line = "{'loss': 0.0, 'grad_norm': nan, 'epoch': 0.36}\n"
        done = self.command(line, "--no-echo")
        self.assertEqual(done.returncode, 3)
        self.assertIn("has several causes", done.stdout)
        # Each with what speaks for it and with the question that tells.
        self.assertIn("  your paste comes from transformers", done.stdout)
        self.assertIn("Does the log say nan instead of 0.0", done.stdout)
        self.assertIn("First checks, whatever the cause:", done.stdout)

    def test_json_is_the_answer_of_the_site(self) -> None:
        path = self.folder / "train.log"
        path.write_text(WARNING)
        done = self.command("", str(path), "--json", "--env")
        self.assertEqual(best(json.loads(done.stdout)), "NAN-0002")

    def test_markdown_is_what_one_posts_below_an_issue(self) -> None:
        arguments = ("--markdown", "--env")
        done = self.command("x\n<b>" + WARNING + "\n", *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        said, page = done.stdout, f"{self.live_server_url}/en/NAN-0002/"
        self.assertTrue(said.startswith("**NAN-0002 explains line 2.**\n"), said)
        self.assertIn(f"### [NAN-0002]({page}", said)
        self.assertIn("requires\\_grad=True", said)
        self.assertNotIn("<b>", said)
        self.assertEqual(said.count("```") % 2, 0)
        self.assertIn("\n```python\n", said)
        strip = said.partition("![NAN-0002](")[2].partition("?")[0]
        picture = self.client.get(strip.removeprefix(self.live_server_url))
        self.assertEqual(picture["Content-Type"], "image/svg+xml")
        self.assertNotIn("alice", said)

    def test_no_answer_tells_a_terminal_what_to_do(self) -> None:
        for pasted in ({"log": WARNING}, {"log": "", "env": "torch==2.5.1"}):
            answer = self.client.post("/api/v1/lookup", pasted, "application/json")
            spoilt = with_escapes(answer.json())
            for show in (doesitnan.report, doesitnan.markdown):
                said = io.StringIO()
                with redirect_stdout(said):
                    show(spoilt, [], "en", "https://site.example")
                self.assertIn("evil", said.getvalue())
                self.assertNotIn("\x1b", said.getvalue())

    def test_a_dry_run_shows_what_would_be_sent_and_sends_nothing(self) -> None:
        done = self.command(WARNING, "--dry-run", site="http://127.0.0.1:9")
        self.assertEqual(done.returncode, 0)
        self.assertIn("None of the inputs have requires_grad", done.stdout)
        self.assertNotIn("alice", done.stdout)
        self.assertIn("nothing was sent", done.stderr)

    def test_what_another_python_has_is_told(self) -> None:
        done = self.command(WARNING, "--dry-run", "--python", torch_python())
        self.assertIn("\ntorch==", done.stdout.partition("--- env")[2])
        done = self.command(WARNING, "--dry-run", "--python", "/no/such/python")
        self.assertEqual(done.returncode, 2)
        self.assertIn("/no/such/python does not tell its packages", done.stderr)

    def test_who_tells_no_torch_is_told_how(self) -> None:
        hint = "With --env, you get the answer for the torch installed here."
        self.assertIn(hint, self.command(WARNING).stdout)
        told = self.command(f"{WARNING}\ntorch==2.13.0").stdout
        self.assertNotIn(hint, told)

    def test_the_site_serves_it(self) -> None:
        response = self.client.get("/api/v1/doesitnan.py")
        self.assertEqual(response.status_code, 200)
        path = self.folder / "served.py"
        path.write_bytes(response.content)
        self.assertIn("\nSITE = 'http://testserver'\n", path.read_text())
