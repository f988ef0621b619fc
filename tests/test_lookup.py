"""Pasted logs to known issues, on the records as they are shipped."""

import io
import json
import os
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

from django.conf import settings
from django.core.management import CommandError, call_command
from django.test import SimpleTestCase, TestCase, override_settings
from django.utils import timezone

from kb import search
from kb.loading import load_records
from kb.lookup import (
    MAX_BYTES,
    EmptyPaste,
    PasteTooLarge,
    classify_paste,
    look_up,
)
from kb.models import Finding, Record
from kb.search.store import Document, MemoryStore, current_store, document_of
from runner.repros import inspect

LOGS = Path(__file__).parent / "logs"
SEED = (LOGS / "article-sdpa.log").read_text()
WARNING = "RuntimeError: element 0 of tensors does not require grad and does not have"


def golden() -> list[dict[str, Any]]:
    pastes: list[dict[str, Any]] = tomllib.loads((LOGS / "golden.toml").read_text())[
        "paste"
    ]
    return pastes


class ShippedCase(TestCase):
    """The shipped records as rows. Loaded from their files once, as that is slow."""

    rows: ClassVar[list[Record]] = []

    @classmethod
    def setUpTestData(cls) -> None:
        if cls.rows:
            Record.objects.bulk_create(cls.rows)
        else:
            load_records(settings.ISSUES_DIR, inspect=inspect)
            cls.rows.extend(Record.objects.all())


class GoldenTests(ShippedCase):
    def test_every_log_is_listed(self) -> None:
        listed = {
            name for paste in golden() for name in paste.values() if _is_file(name)
        }
        present = {path.name for path in LOGS.iterdir() if path.suffix != ".toml"}
        self.assertEqual(present, listed)

    def test_golden_answers(self) -> None:
        for paste in golden():
            with self.subTest(paste["log"]):
                log = (LOGS / paste["log"]).read_text()
                env = (LOGS / paste["env"]).read_text() if "env" in paste else ""
                found = look_up(log, env)
                self.assertEqual(found["query"]["took_it_for"], paste["took_it_for"])
                self.assertEqual(found["outcome"], paste["outcome"])
                if "first" in paste:
                    self.check_first(found, paste)

    def check_first(self, found: dict[str, Any], paste: dict[str, Any]) -> None:
        first = found["matches"][0]
        self.assertEqual(first["record"], paste["first"])
        self.assertEqual(first["why"][0]["line"], paste["line"])
        self.assertEqual(found["query"]["facets"], paste["facets"])
        self.assertEqual(first["affected"]["answer"], paste["answer"])
        self.assertEqual(first["affected"]["basis"], paste["basis"])

    def test_no_other_record_is_called_a_match(self) -> None:
        for paste in golden():
            found = look_up((LOGS / paste["log"]).read_text())
            others = [
                match["record"]
                for match in found["matches"][1:]
                if match["confidence"] != "possible"
            ]
            self.assertEqual(others, [], paste["log"])

    def test_each_record_is_found_by_each_of_its_messages(self) -> None:
        for record in Record.objects.visible():
            for entry in record.signatures:
                if entry["kind"] != "message":
                    continue
                with self.subTest(record=record.id, message=entry["text"]):
                    found = look_up(f"noise before\n[rank1]: {entry['text']}\n")
                    self.assertEqual(found["matches"][0]["record"], record.id)


def _is_file(name: Any) -> bool:
    return isinstance(name, str) and name.endswith((".log", ".env"))


class AnswerTests(ShippedCase):
    maxDiff = None

    def test_the_shape_of_an_answer(self) -> None:
        log = SEED[SEED.index("/usr/local/") :]
        found = look_up(log)
        self.assertEqual(list(found), ["query", "outcome", "matches", "also_affecting"])
        self.assertEqual(
            found["query"],
            {
                "took_it_for": ["log", "freeze"],
                "key_lines": [
                    {
                        "line": 1,
                        "class": "UserWarning",
                        "text": "cuDNN SDPA backward got grad_output.strides() != "
                        "output.strides(), attempting to materialize a grad_output "
                        "with matching strides...",
                    }
                ],
                "facets": ["grad_norm_nan", "loss_zero"],
                "fingerprints": {
                    "algorithm": 1,
                    "values": found["query"]["fingerprints"]["values"],
                },
                "cut": {"lines": 0, "bytes": 0},
                "env": {
                    "torch": {"raw": "2.6.0a0+df5bbc09d1.nv24.12", "build": None},
                    "packages": {
                        "datasets": "3.4.1",
                        "peft": "0.15.0",
                        "tokenizers": "0.21.0",
                        "transformers": "4.50.0",
                    },
                    "gpu": None,
                    "unparsed_lines": 0,
                },
            },
        )
        match = found["matches"][0]
        self.assertEqual(
            list(match),
            [
                "record",
                "title",
                "confidence",
                "score",
                "why",
                "affected",
                "workarounds",
                "fix_version",
                "urls",
            ],
        )
        self.assertEqual(match["why"][0]["pasted"], log.split("\n")[0])
        self.assertEqual(match["affected"]["is_affected"], True)
        self.assertEqual(set(match["title"]), {"en", "zh"})
        self.assertEqual(
            set(match["workarounds"][0]), {"name", "apply", "status", "evidence"}
        )
        self.assertEqual(set(match["fix_version"][0]), {"package", "version", "kind"})
        self.assertTrue(match["urls"]["html"]["zh"].startswith("/zh/NAN-0001/"))
        self.assertEqual(match["urls"]["record"], "/api/v1/records/NAN-0001")
        self.assertEqual(match["urls"]["runs"], "/api/v1/runs?record=NAN-0001")
        json.dumps(found, allow_nan=False)

    def test_one_language(self) -> None:
        match = look_up(SEED, lang="zh")["matches"][0]
        self.assertIn("步幅", match["title"])
        self.assertTrue(match["urls"]["html"].startswith("/zh/"))

    @override_settings(SITE_URL="https://nan.example")
    def test_absolute_addresses(self) -> None:
        urls = look_up(SEED)["matches"][0]["urls"]
        self.assertEqual(urls["record"], "https://nan.example/api/v1/records/NAN-0001")

    def test_the_second_box_outweighs_the_log(self) -> None:
        found = look_up(SEED, "torch==2.5.1")
        self.assertEqual(found["query"]["env"]["torch"]["raw"], "2.5.1")
        self.assertEqual(found["query"]["env"]["packages"]["peft"], "0.15.0")
        self.assertEqual(found["matches"][0]["affected"]["answer"], "not_affected")

    def test_also_affecting(self) -> None:
        # NAN-0002 is by design in every version; the log's own record is no "other".
        self.assertIn("NAN-0002", look_up(SEED)["also_affecting"])
        self.assertNotIn("NAN-0001", look_up(SEED)["also_affecting"])
        self.assertEqual(look_up(WARNING)["also_affecting"], [])
        only_env = look_up("torch==2.13.0+cpu")
        self.assertEqual(only_env["outcome"], "none")
        self.assertIn("NAN-0002", only_env["also_affecting"])
        self.assertNotIn("NAN-0006", only_env["also_affecting"])

    def test_findings_decide(self) -> None:
        log = (LOGS / "lora-lost-grad.log").read_text()
        record = Record.objects.get(id="NAN-0002")
        for check, outcome in (
            ("trigger", "bug"),
            ("workaround_disable_checkpointing", "clean"),
        ):
            Finding.objects.create(
                record=record,
                repro="repro",
                fidelity="upstream_bug",
                build="2.4.0-cu121",
                build_raw="2.4.0+cu121",
                device_class="cpu",
                check_name=check,
                outcome=outcome,
                verdict="bug_present",
                evidence="sha256:ab",
                observed_at=timezone.now(),
            )
        found = look_up(log, "torch==2.4.0+cu121")
        match = found["matches"][0]
        self.assertEqual(match["affected"]["basis"], "tested_build")
        self.assertEqual(found["query"]["env"]["torch"]["build"], "2.4.0-cu121")
        by_name = {entry["name"]: entry for entry in match["workarounds"]}
        self.assertEqual(by_name["disable_checkpointing"]["status"], "verified")
        self.assertEqual(by_name["disable_checkpointing"]["evidence"], "sha256:ab")
        self.assertEqual(by_name["use_reentrant_false"]["status"], "untested")

    def test_a_workaround_that_helps_on_the_pasted_build_helps(self) -> None:
        log = (LOGS / "lora-lost-grad.log").read_text()
        record = Record.objects.get(id="NAN-0002")
        for minor, outcome in (("3", "bug"), ("4", "clean")):
            Finding.objects.create(
                record=record,
                repro="repro",
                fidelity="upstream_bug",
                build=f"2.{minor}.0-cpu",
                build_raw=f"2.{minor}.0+cpu",
                device_class="cpu",
                check_name="workaround_use_reentrant_false",
                outcome=outcome,
                verdict="bug_present",
                evidence=f"sha256:{minor}",
                observed_at=timezone.now(),
            )
        for env, status in (
            ("torch==2.4.0+cpu", "verified"),
            ("torch==2.3.0+cpu", "does_not_help"),
            ("torch==2.2.0+cpu", "does_not_help"),
        ):
            (entry, *_) = look_up(log, env)["matches"][0]["workarounds"]
            self.assertEqual(entry["status"], status, env)

    def test_a_message_that_says_little_is_no_match(self) -> None:
        record = Record.objects.get(id="NAN-0003")
        record.signatures = [
            {"kind": "message", "text": "RuntimeError: zebra value"},
            {"kind": "message", "text": "RuntimeError: the zebra crossed the giraffe"},
        ]
        record.save()
        self.assertEqual(look_up("RuntimeError: zebra value")["outcome"], "possible")
        longer = "RuntimeError: the zebra crossed the giraffe"
        self.assertEqual(look_up(longer)["outcome"], "exact")

    def test_drafts_are_not_found(self) -> None:
        log = (LOGS / "fla-gsa.log").read_text()
        self.assertEqual(look_up(log)["matches"][0]["record"], "NAN-0005")
        record = Record.objects.get(id="NAN-0005")
        record.publication = "draft"
        record.save()
        self.assertEqual(look_up(log)["outcome"], "none")


class PasteTests(ShippedCase):
    def test_nothing(self) -> None:
        for log in ("", " \n\t\r\n", "\x00\x00\x00"):
            with self.subTest(log), self.assertRaises(EmptyPaste):
                look_up(log)

    def test_too_large(self) -> None:
        with self.assertRaises(PasteTooLarge):
            look_up("梯" * (MAX_BYTES // 3), "xx")
        self.assertEqual(look_up("梯" * (MAX_BYTES // 3))["outcome"], "none")

    def test_binary(self) -> None:
        with self.assertRaises(EmptyPaste):
            look_up(bytes(range(32)).decode("latin-1") * 50)

    def test_odd_characters_survive(self) -> None:
        found = look_up(f"\ud800\x00[0m\x07 {WARNING} a grad_fn\x00\udfff")
        self.assertEqual(found["matches"][0]["record"], "NAN-0002")
        json.dumps(found, ensure_ascii=False).encode()

    def test_utf16_read_as_bytes(self) -> None:
        text = f"{WARNING} a grad_fn".encode("utf-16-le").decode("latin-1")
        self.assertEqual(look_up(text)["matches"][0]["record"], "NAN-0002")

    def test_a_paste_is_never_a_pattern(self) -> None:
        for text in (
            "RuntimeError: (((((",
            "RuntimeError: [a-",
            "RuntimeError: %s {0}",
        ):
            with self.subTest(text):
                self.assertEqual(look_up(text)["outcome"], "none")

    def test_cut(self) -> None:
        found = look_up("x\n" * 5000 + f"{WARNING} a grad_fn")
        self.assertEqual(found["query"]["cut"], {"lines": 1001, "bytes": 2002})
        self.assertEqual(found["matches"][0]["why"][0]["line"], 5001)

    def test_kinds(self) -> None:
        rows = {
            "Traceback (most recent call last):\nValueError: x": ["traceback"],
            "RuntimeError: x": ["log"],
            "torch==2.6.0\nnumpy==2.4.6": ["freeze"],
            "2.6.0+cu124": ["freeze"],
            "PyTorch version: 2.5.1\nIs debug build: False": ["collect_env"],
            "gradient lost after the cast": ["words"],
            "梯度丢失": ["words"],
        }
        for text, expected in rows.items():
            with self.subTest(text):
                self.assertEqual(classify_paste(text), expected)


class CommandTests(ShippedCase):
    def run_command(self, log: str | bytes, *args: str) -> tuple[int, str]:
        data = log if isinstance(log, bytes) else log.encode()
        out = io.StringIO()
        stdin = io.TextIOWrapper(io.BytesIO(data))
        with mock.patch.object(sys, "stdin", stdin):
            try:
                call_command("lookup", *args, stdout=out)
            except SystemExit as stop:
                return int(stop.code or 0), out.getvalue()
            except CommandError as error:
                return error.returncode, str(error)
        return 0, out.getvalue()

    def test_exit_statuses(self) -> None:
        rows = {
            "article-sdpa.log": 0,
            "ranks-sdpa.log": 0,
            "only-numbers.log": 3,
            "near-sqrt-anomaly.log": 1,
        }
        for name, expected in rows.items():
            with self.subTest(name):
                status, _out = self.run_command((LOGS / name).read_bytes())
                self.assertEqual(status, expected)
        self.assertEqual(self.run_command("")[0], 2)
        self.assertEqual(self.run_command("x" * (MAX_BYTES + 9))[0], 2)

    def test_json_is_the_answer(self) -> None:
        with tempfile.NamedTemporaryFile("w", suffix=".env") as file:
            file.write("torch==2.5.1\n")
            file.flush()
            status, out = self.run_command(SEED, "--json", "--env", file.name)
        self.assertEqual(status, 0)
        self.assertEqual(json.loads(out), look_up(SEED, "torch==2.5.1\n"))

    def test_report(self) -> None:
        with mock.patch.dict(os.environ, {"LC_ALL": "C.UTF-8"}):
            _status, out = self.run_command(SEED)
        self.assertIn("NAN-0001", out)
        self.assertIn("  4: /usr/local/lib/", out)
        self.assertIn("listed in the record as affected", out)
        with mock.patch.dict(os.environ, {"LC_ALL": "zh_CN.UTF-8"}):
            _status, out = self.run_command(SEED)
        self.assertIn("记录中列出", out)

    def test_encodings(self) -> None:
        log = f"{WARNING} a grad_fn"
        for data in (
            log.encode("utf-16"),
            log.encode("utf-8-sig"),
            log.encode() + b"\xff",
        ):
            with self.subTest(data[:4]):
                self.assertEqual(self.run_command(data)[0], 0)


class UsageTests(SimpleTestCase):
    def test_an_unusable_call_exits_2(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            environ = {**os.environ, "DATA_DIR": folder, "SECRET_KEY": "x"}
            environ.pop("DATABASE_URL", None)
            for args in (["--nonsense"], ["--env", f"{folder}/missing"], []):
                with self.subTest(args):
                    done = subprocess.run(
                        [sys.executable, "manage.py", "lookup", *args],
                        cwd=settings.BASE_DIR,
                        env=environ,
                        input="RuntimeError: x",
                        text=True,
                        capture_output=True,
                    )
                    self.assertEqual(done.returncode, 2, done.stderr)
                    self.assertNotIn("Traceback", done.stderr)


class FindTests(ShippedCase):
    def ids(self, query: str, lang: str = "en") -> list[str]:
        return [hit.record.id for hit in search.find(query, lang)]

    def test_both_languages_find_the_same_record(self) -> None:
        rows = {
            "NAN-0001": ["cudnn stride warning", "步幅警告", "grad_output.strides"],
            "NAN-0002": ["lost gradient", "梯度丢失", "use_reentrant", "檢查點 梯度"],
            "NAN-0003": ["rowwise fp8", "NAN-0003", "torchtitan"],
            "NAN-0005": ["ChunkGSA", "GSA"],
            "NAN-0007": ["amax", "TORCHINDUCTOR_EMULATE_PRECISION_CASTS"],
        }
        for record, queries in rows.items():
            for query in queries:
                for lang in ("en", "zh"):
                    with self.subTest(query=query, lang=lang):
                        self.assertEqual(self.ids(query, lang)[:1], [record])

    def test_upstream_numbers(self) -> None:
        for query in ("pytorch/pytorch#138581", "#138581", "138581", "7388"):
            with self.subTest(query):
                self.assertEqual(self.ids(query), ["NAN-0001"])

    def test_two_chinese_characters_miss_nothing(self) -> None:
        for word in ("梯度", "溢出", "编译", "精度", "检查", "衰减", "注意", "步"):
            with self.subTest(word):
                holding = {
                    record.id
                    for record in Record.objects.visible()
                    if word in document_of(record).raw
                }
                self.assertEqual(set(self.ids(word, "zh")), holding)

    def test_nothing_found(self) -> None:
        for query in ("", "   ", "the of and", "kubernetes", "<script>", "%", "\x00"):
            with self.subTest(query):
                self.assertEqual(self.ids(query), [])

    def test_snippets(self) -> None:
        zh = str(search.find("步幅", "zh")[0].snippet)
        self.assertIn("<mark>步幅</mark>", zh)
        literal = str(search.find("grad_output.strides", "en")[0].snippet)
        self.assertIn("<mark>grad_output.strides</mark>", literal)

    def test_snippets_are_escaped(self) -> None:
        record = Record.objects.get(id="NAN-0001")
        record.summary_en = "a <b>zebra</b> & more"
        record.save()
        (hit,) = search.find("zebra", "en")
        self.assertEqual(
            str(hit.snippet), "a &lt;b&gt;<mark>zebra</mark>&lt;/b&gt; &amp; more"
        )

    def test_a_change_is_found_at_once(self) -> None:
        self.assertEqual(self.ids("zebra"), [])
        record = Record.objects.get(id="NAN-0004")
        record.title_en = "Zebra crossing"
        record.save()
        self.assertEqual(self.ids("zebra"), ["NAN-0004"])


class StoreTests(ShippedCase):
    def test_rare_words_weigh_more_than_common_ones(self) -> None:
        store = current_store()
        self.assertGreater(store.idf("reentrant"), store.idf("tensor"))

    def test_an_empty_store(self) -> None:
        store = MemoryStore([])
        self.assertEqual(list(store.nearest({"nan": 1.0})), [])
        self.assertEqual(list(store.having(["nan"])), [])

    def test_documents_carry_both_languages(self) -> None:
        document: Document = document_of(Record.objects.get(id="NAN-0002"))
        self.assertIn("梯度", document.title)
        self.assertIn("gradients", document.title)
