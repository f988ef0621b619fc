"""Pasted logs to known issues, on the records as they are shipped."""

import json
import time
import tomllib
from collections.abc import Callable
from typing import Any

from django.test import TestCase, override_settings, tag

from kb.lookup.answer import look_up
from kb.lookup.paste import (
    MAX_BYTES,
    EmptyPaste,
    PasteTooLarge,
    kinds_of,
    read_paste,
    readable,
)
from kb.models import Record
from kb.publishing import saving
from tests import TESTS
from tests.support import loaded, log_corpus
from tests.support.findings import saw, stored
from tests.support.records import FirstRecords

LOGS = TESTS / "logs"
SEED = (LOGS / "article-sdpa.log").read_text()
WARNING = "RuntimeError: element 0 of tensors does not require grad and does not have"


def golden() -> list[dict[str, Any]]:
    pastes: list[dict[str, Any]] = tomllib.loads((LOGS / "golden.toml").read_text())[
        "paste"
    ]
    return pastes


COPIED: dict[str, Callable[[str], str]] = {
    "Windows": lambda line: f"{line}\r",
    "colours": lambda line: f"\x1b[36m{line}\x1b[0m",
    "colours without the escape": lambda line: f"[1;31m{line}[0m",
    "colours as text": lambda line: f"^[[36m{line}^[[0m",
    "no width": lambda line: f"\u200b{line}",
    "a web page's spaces": lambda line: line.replace(" ", "\xa0"),
}


class GoldenTests(FirstRecords):
    def test_every_log_is_listed(self) -> None:
        listed = {
            name for paste in golden() for name in paste.values() if _is_file(name)
        }
        present = {path.name for path in LOGS.iterdir() if _is_file(path.name)}
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
        first = found["candidates"][0]
        self.assertEqual(first["record"], paste["first"])
        self.assertIn(paste["line"], first["lines"])
        self.assertEqual(found["query"]["facets"], paste["facets"])
        self.assertEqual(first["affected"]["answer"], paste["answer"])
        self.assertEqual(first["affected"]["basis"], paste["basis"])

    def test_no_other_record_is_called_a_match(self) -> None:
        for paste in golden():
            found = look_up((LOGS / paste["log"]).read_text())
            others = [
                match["record"]
                for match in found["candidates"][1:]
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
                    listed = [row["record"] for row in found["candidates"]]
                    self.assertIn(record.id, listed)


def _is_file(name: Any) -> bool:
    return isinstance(name, str) and name.endswith((".log", ".env"))


@tag("any_database")
class CorpusTests(TestCase):
    """Logs in surroundings of their own, among all records."""

    @classmethod
    def setUpTestData(cls) -> None:
        loaded.shipped()

    def test_every_log_is_listed(self) -> None:
        present = {path.stem for path in (LOGS / "known").iterdir()}
        self.assertEqual(present, {paste.name for paste in log_corpus.known()})
        self.assertGreaterEqual(len(present), 60)
        self.assertGreaterEqual(len(log_corpus.unknown()), 30)

    def test_the_right_record_comes_first(self) -> None:
        missed, wrong = [], []
        pastes = log_corpus.known()
        for paste in pastes:
            found = look_up(paste.text)
            matches = found["candidates"]
            if paste.record not in [row["record"] for row in matches]:
                missed.append(paste.name)
            wrong += [
                (paste.name, match["record"])
                for match in matches
                if match["confidence"] != "possible" and match["record"] != paste.record
            ]
        self.assertEqual(wrong, [])
        self.assertLessEqual(len(missed), 0.05 * len(pastes), missed)

    def test_how_a_log_was_copied_changes_no_answer(self) -> None:
        """Line ends of Windows and of browsers' forms, colours, spaces of web pages."""
        for paste in log_corpus.known()[::5]:
            expected = [row["slug"] for row in look_up(paste.text)["candidates"]]
            for name, copied in COPIED.items():
                with self.subTest(paste.name, copied=name):
                    lines = map(copied, paste.text.split("\n"))
                    found = look_up("\n".join(lines))["candidates"]
                    self.assertEqual([row["slug"] for row in found], expected)

    def test_unknown_errors_are_no_match(self) -> None:
        # Of 6 % that may be false alarms none is; a new one wants to be looked at.
        for paste in (*log_corpus.unknown(), *log_corpus.from_templates(120)):
            with self.subTest(paste.name):
                found = look_up(paste.text)
                self.assertNotIn(found["outcome"], ("exact", "match"), paste.text)

    def test_hostile_pastes_are_answered(self) -> None:
        texts = log_corpus.hostile()
        for name, text in texts.items():
            with self.subTest(name):
                begun = time.process_time()
                look_up(text)
                # The bench holds them to half a second; this only guards a hang.
                self.assertLess(time.process_time() - begun, 5)

    def test_a_broken_message_is_shown_whole(self) -> None:
        paste = (LOGS / "known" / "lost-grad-wrapped-80.log").read_text()
        (because, *_) = look_up(paste)["candidates"][0]["because"]
        self.assertTrue(because["en"].endswith("d_fn”"), because)


class AnswerTests(FirstRecords):
    maxDiff = None

    def test_the_shape_of_an_answer(self) -> None:
        log = SEED[SEED.index("/usr/local/") :]
        found = look_up(log)
        self.assertEqual(
            list(found),
            [
                *("decision", "outcome", "facts", "laws", "candidates"),
                *("first_checks", "ruled_out", "symptoms", "affecting", "query"),
            ],
        )
        self.assertEqual(
            found["query"],
            {
                "took_it_for": ["log", "freeze"],
                "parts": found["query"]["parts"],
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
                    "algorithm": 4,
                    "values": found["query"]["fingerprints"]["values"],
                },
                "cut": {"lines": 0, "bytes": 0},
                "env": {
                    "torch": {"raw": "2.6.0a0+df5bbc09d1.nv24.12", "build": None},
                    "contradicting": [],
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
        match = found["candidates"][0]
        self.assertEqual(
            list(match),
            [
                *("record", "slug", "aliases", "title", "confidence", "lines"),
                *("because", "affected", "test", "workaround", "fixes", "urls"),
            ],
        )
        self.assertIn(log.split("\n")[0][:60], match["because"][0]["en"])
        self.assertEqual(match["affected"]["is_affected"], True)
        self.assertEqual(set(match["title"]), {"en", "zh"})
        self.assertEqual(set(match["test"]), {"question", "code"})
        self.assertEqual(
            set(match["workaround"]),
            {"name", "kind", "apply", "cost", "status", "evidence"}
            | {"seen_on", "not_executed", "line"},
        )
        self.assertEqual(set(match["fixes"][0]), {"package", "version", "kind"})
        self.assertTrue(match["urls"]["html"]["zh"].startswith("/zh/NAN-0001/"))
        self.assertEqual(match["urls"]["record"], "/api/v1/records/NAN-0001")
        self.assertEqual(match["urls"]["runs"], "/api/v1/runs?record=NAN-0001")
        json.dumps(found, allow_nan=False)

    @override_settings(SITE_URL="https://nan.example")
    def test_absolute_addresses(self) -> None:
        urls = look_up(SEED)["candidates"][0]["urls"]
        self.assertEqual(urls["record"], "https://nan.example/api/v1/records/NAN-0001")

    def test_the_second_box_outweighs_the_log(self) -> None:
        found = look_up(SEED, "torch==2.5.1")
        self.assertEqual(found["query"]["env"]["torch"]["raw"], "2.5.1")
        self.assertEqual(found["query"]["env"]["packages"]["peft"], "0.15.0")
        affected = found["candidates"][0]["affected"]
        self.assertEqual(affected["answer"], "not_affected")

    def test_a_list_of_packages_has_a_form_of_its_own(self) -> None:
        only_env = look_up("torch==2.13.0+cpu")
        self.assertEqual((only_env["outcome"], only_env["candidates"]), ("none", []))
        groups = {row["group"]: row["records"] for row in only_env["affecting"]}
        self.assertIn("NAN-0002", [row["record"] for row in groups["by_design"]])
        everything = [row["record"] for rows in groups.values() for row in rows]
        self.assertNotIn("NAN-0006", everything)
        self.assertIn("torch 2.13.0+cpu", only_env["decision"]["en"])
        self.assertEqual(look_up(SEED)["affecting"], [])

    def test_what_the_code_decides_offers_no_run(self) -> None:
        log = (
            "step 120 loss 2.31 grad_norm 0.8\nstep 121 loss nan grad_norm nan\n"
            "UserWarning: None of the inputs have requires_grad=True. "
            "Gradients will be None\ntorch 2.13.0+cpu"
        )
        found = next(r for r in look_up(log)["candidates"] if r["record"] == "NAN-0002")
        self.assertEqual(found["affected"]["answer"], "unknown")
        page = self.client.post("/en/lookup/", {"log": log})
        said = "These versions have it. Use the test to see whether your code meets it."
        self.assertContains(page, said)
        self.assertNotContains(page, "Unknown: run it")

    def test_findings_decide(self) -> None:
        log = (LOGS / "lora-lost-grad.log").read_text()
        saw("NAN-0002", "trigger", "bug", "2.4.0+cu121")
        saw("NAN-0002", "workaround_disable_checkpointing", "clean", "2.4.0+cu121")
        found = look_up(log, "torch==2.4.0+cu121")
        match = found["candidates"][0]
        self.assertEqual(match["affected"]["basis"], "tested_build")
        self.assertEqual(found["query"]["env"]["torch"]["build"], "2.4.0-cu121")
        self.assertEqual(match["workaround"]["name"], "disable_checkpointing")
        self.assertEqual(match["workaround"]["status"], "verified")
        self.assertEqual(match["workaround"]["evidence"], "sha256:ab")

    def test_a_workaround_that_helps_on_the_pasted_build_helps(self) -> None:
        log = (LOGS / "lora-lost-grad.log").read_text()
        for minor, outcome in (("3", "bug"), ("4", "clean")):
            stored(
                "NAN-0002",
                f"2.{minor}.0+cpu",
                check_name="workaround_use_reentrant_false",
                outcome=outcome,
            )
        for env, name in (
            ("torch==2.4.0+cpu", "use_reentrant_false"),
            ("torch==2.3.0+cpu", "input_requires_grad"),
        ):
            entry = look_up(log, env)["candidates"][0]["workaround"]
            self.assertEqual(entry["name"], name, env)

    def test_a_message_that_says_little_is_no_match(self) -> None:
        record = Record.objects.get(id="NAN-0003")
        record.signatures = [
            {"kind": "message", "text": "RuntimeError: zebra value"},
            {"kind": "message", "text": "RuntimeError: the zebra crossed the giraffe"},
        ]
        saving.save(record)
        self.assertEqual(look_up("RuntimeError: zebra value")["outcome"], "possible")
        longer = "RuntimeError: the zebra crossed the giraffe"
        self.assertEqual(look_up(longer)["outcome"], "exact")

    def test_sister_errors_are_no_match(self) -> None:
        said = (
            "RuntimeError: Zebra herd could not parse the stripes of any giraffe calf "
            "beside muddy river crossings"
        )
        self.sign("NAN-0003", ("message", said))
        rows = {
            said: "exact",
            # A word is only missing, as between versions.
            said.replace(" herd", ""): "match",
            # A word stands for another: another error of the same code.
            said.replace(" herd", " flock"): "possible",
        }
        for text, outcome in rows.items():
            with self.subTest(text):
                self.assertEqual(look_up(text)["outcome"], outcome)

    def test_a_title_is_a_hint_and_no_line_of_a_log(self) -> None:
        (title,) = (
            source["title"]
            for source in Record.objects.get(id="NAN-0002").sources
            if source["id"] == "tf-21381"
        )
        found = look_up(f"[BUG] {title}")
        self.assertEqual(found["outcome"], "possible")
        self.assertEqual(found["candidates"][0]["record"], "NAN-0002")

    def test_a_node_is_a_match_only_where_it_is_a_function_of_its_own(self) -> None:
        node = "ZebraFunctionBackward"
        line = f"RuntimeError: Function '{node}' returned nan values in its 0th output."
        self.sign("NAN-0002", ("facet", f"nan_in_{node}"))
        self.assertEqual(look_up(line)["outcome"], "match")
        self.sign("NAN-0007", ("facet", f"nan_in_{node}"))
        self.assertEqual(look_up(line)["outcome"], "possible")

    def test_no_node_of_autograd_is_a_sure_match(self) -> None:
        line = "RuntimeError: Function '{}0' returned nan values in its 0th output."
        for node in ("ExpBackward", "LogBackward", "AddmmBackward", "SqrtBackward"):
            for sign in ("facet", f"nan_in_{node}"), ("message", line.format(node)):
                self.sign("NAN-0002", sign)
                with self.subTest(sign):
                    found = look_up(line.format(node))
                    self.assertEqual(found["outcome"], "possible")
                    self.assertTrue(found["first_checks"])

    def sign(self, record: str, *signatures: tuple[str, str]) -> None:
        row = Record.objects.get(id=record)
        row.signatures = [{"kind": kind, "text": text} for kind, text in signatures]
        saving.save(row)

    def test_a_message_that_was_cut_off(self) -> None:
        cut = f"FAILED test_a.py::test_b - {WARNING[:-5]}..."
        self.assertEqual(look_up(cut)["outcome"], "match")
        self.assertEqual(look_up("RuntimeError: element 0 of...")["outcome"], "none")

    def test_an_official_name_outweighs_text(self) -> None:
        rest = "CUDA kernel errors might be asynchronously reported at some other call"
        self.sign("NAN-0003", ("message", f"CUDA error: misaligned address. {rest}"))
        aligned = f"torch.AcceleratorError: CUDA error: misaligned address. {rest}"
        self.assertEqual(look_up(aligned)["outcome"], "exact")
        illegal = f"CUDA error: an illegal memory access was encountered. {rest}"
        self.assertEqual(look_up(f"RuntimeError: {illegal}")["outcome"], "none")

    def test_a_number_of_dynamo_is_enough(self) -> None:
        self.sign("NAN-0003", ("code", "GB0170"), ("message", "Unsupported: a GB0042"))
        for page, expected in (("0170", "match"), ("0042", "match"), ("0043", "none")):
            log = f"Unsupported: other words\n see https://example.org/gb/gb{page}.html"
            self.assertEqual(look_up(log)["outcome"], expected, page)

    def test_a_name_that_two_records_claim_is_neither_ones(self) -> None:
        status = "CUBLAS_STATUS_EXECUTION_FAILED"
        log = f"RuntimeError: CUDA error: {status} when calling cublasGemmEx"
        self.sign("NAN-0003", ("code", status))
        self.assertEqual(look_up(log)["outcome"], "match")
        self.sign("NAN-0004", ("code", status))
        self.assertEqual(look_up(log)["outcome"], "possible")

    def test_drafts_are_not_found(self) -> None:
        log = (LOGS / "fla-gsa.log").read_text()
        self.assertEqual(look_up(log)["candidates"][0]["record"], "NAN-0005")
        record = Record.objects.get(id="NAN-0005")
        record.publication = "draft"
        saving.save(record)
        listed = [row["record"] for row in look_up(log)["candidates"]]
        self.assertNotIn("NAN-0005", listed)


class PasteTests(FirstRecords):
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
        self.assertEqual(found["candidates"][0]["record"], "NAN-0002")
        json.dumps(found, ensure_ascii=False).encode()

    def test_utf16_read_as_bytes(self) -> None:
        text = f"{WARNING} a grad_fn".encode("utf-16-le").decode("latin-1")
        self.assertEqual(look_up(text)["candidates"][0]["record"], "NAN-0002")

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
        self.assertEqual(found["candidates"][0]["lines"], [5001])

    def test_kinds(self) -> None:
        probe = "nan_probe 1: first non-finite value\n  op: MulBackward0\n"
        rows = {
            probe: ["nan_probe"],
            "loss nan since the upgrade\ntorch==2.6.0": ["log", "freeze"],
            "wrong after the upgrade\ntorch==2.6.0": ["words", "freeze"],
            "2025-01-01 10:00:00 INFO step 3 loss 0.5": ["log"],
            "Traceback (most recent call last):\nValueError: x": ["traceback"],
            "RuntimeError: x": ["log"],
            "torch==2.6.0\nnumpy==2.4.6": ["freeze"],
            "2.6.0+cu124": ["freeze"],
            "2.6.0": ["words"],
            "worse since the upgrade to torch 2.6": ["words"],
            "wrong gradients on M3 Max, torch 2.8.0": ["words", "freeze"],
            "我用的是 torch 2.8.0，训练不收敛": ["words", "freeze"],
            "Ubuntu 22.04, torch 2.8.0": ["freeze"],
            "torch==2.8.0\nloss-landscapes==3.0\ngrad-cam==1.5": ["freeze"],
            "x = torch.zeros(3)\ny = x.log().sum()": ["code"],
            "PyTorch version: 2.5.1\nIs debug build: False": ["collect_env"],
            "gradient lost after the cast": ["words"],
            "梯度丢失": ["words"],
        }
        for text, expected in rows.items():
            with self.subTest(text):
                self.assertEqual(kinds_of(read_paste(readable(text))), expected)
