"""Verdict words: one table, both languages, no claim without a verdict."""

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import polib
from django.conf import settings
from django.template import Context, Template
from django.test import SimpleTestCase
from django.utils.translation import override

from kb import badges, wording
from kb.choices import LANGS, Outcome, Verdict
from kb.languages import Text
from kb.models import Finding
from kb.templatetags import verdicts
from portable import harness
from runner import sandbox
from runner.models import Run

CONTRACT_REASONS = """
device capability memory devices stack api compiler loader loopback not_taken
control detector_silent reference metric changed
raised crash timeout no_report channel contract import build_missing device_lost
device_health refused lost
"""
# The harness says these in English on command lines; `problem_of` has the table's.
PARAMETER_TEXTS = set(harness.PARAMETER_TEXTS.values())
HAN = re.compile("[一-鿿]")


def badge(
    verdict: str, lang: str, fidelity: str = "upstream_bug", **options: str
) -> str:
    return str(badges.badge(verdict, 3, 5, fidelity, lang, **options))


ROOT = Path(settings.BASE_DIR)
# English of the site; of what travels alone, in both languages.
WORDS = (ROOT / "kb/wording.py", ROOT / "portable/harness/words.py")
CATALOGUE = ROOT / "config/locale/zh_Hans/LC_MESSAGES/django.po"
# The first words of the badges of a verdict, and what follows them.
BADGE = re.compile(r"(?:FAIL|PASS|NO VERDICT|MODEL|未?通过|无结论|模型) · ")


def texts_of(value: object) -> Iterator[Text]:
    if isinstance(value, wording.Said):
        yield value.text
    elif isinstance(value, Text):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from texts_of(item)


def phrases(tables: Iterable[object]) -> set[str]:
    """Their texts, and what stands on either side of a " · ", if longer than a word."""
    found = set()
    for text in (text for table in tables for text in texts_of(table)):
        for piece in (text["en"], *text["en"].split(" · ")):
            # The last words of a badge, and an ordinary phrase of sentences.
            if " " in piece and piece != "no verdict":
                found.add(piece)
        for piece in (text["zh"], *text["zh"].split(" · ")):
            if len(HAN.findall(piece)) > 3:
                found.add(piece)
    return found


def literals(path: Path) -> Iterator[str]:
    """The texts of a module: not its docstrings."""
    tree = ast.parse(path.read_text("utf-8"))
    statements = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or id(node) in statements:
            continue
        if isinstance(node.value, str):
            yield node.value


def modules(*folders: str) -> Iterator[Path]:
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if path not in WORDS and "migrations" not in path.parts:
                yield path


class OnePlaceTest(SimpleTestCase):
    def test_the_words_stand_nowhere_else(self) -> None:
        whole = phrases(item for name, item in vars(wording).items() if name.isupper())
        inside = phrases(
            [
                *(wording.BADGES, wording.MODEL_BADGES, wording.MISBEHAVED),
                *(wording.LIKELY, wording.ANSWER_BADGES, wording.WORKAROUNDS),
            ]
        )
        self.assertIn("bug not seen", inside)
        self.assertIn("未见缺陷", inside)
        found = [
            f"{path.relative_to(ROOT)}: {text!r}"
            for path in modules("config", "kb", "portable", "runner")
            for text in literals(path)
            if text not in PARAMETER_TEXTS
            and (text in whole or any(phrase in text for phrase in inside))
        ]
        self.assertEqual(found, [])

    def test_templates_and_the_catalogue_quote_the_badges_as_they_are(self) -> None:
        badges = {
            text[lang].partition("{")[0]
            for table in (wording.BADGES, wording.MODEL_BADGES)
            for text in texts_of(table)
            for lang in LANGS
        }
        sources = [
            (path.name, path.read_text())
            for path in (ROOT / "templates").rglob("*")
            if path.suffix == ".html"
        ]
        for entry in polib.pofile(str(CATALOGUE)):
            sources += [(entry.msgid, entry.msgid), (entry.msgid, entry.msgstr)]
        quoted = 0
        for name, text in sources:
            for found in BADGE.finditer(text):
                quoted += 1
                known = text.startswith(tuple(badges), found.start())
                self.assertTrue(known, (name, text[found.start() :][:40]))
        self.assertGreater(quoted, 1)

    def test_every_reason_can_be_given(self) -> None:
        texts = {
            text
            for path in modules("portable", "runner")
            if "wording" not in path.parts
            for text in literals(path)
        }
        for reason in wording.REASONS:
            given = any(re.match(f"{reason}(?::|$)", text) for text in texts)
            self.assertTrue(given, reason)
        documented = {*CONTRACT_REASONS.split(), "said", "limit"}
        self.assertEqual(set(wording.REASONS), documented)


class BadgeTest(SimpleTestCase):
    def test_the_table_of_the_design(self) -> None:
        table = {
            "bug_present": (
                "✖ FAIL · bug reproduced (3/5)",
                "✖ 未通过 · 缺陷已复现（3/5）",
            ),
            "bug_absent": (
                "✔ PASS · bug not seen (3/5)",
                "✔ 通过 · 未见缺陷（3/5）",
            ),
            "not_applicable": ("∅ N/A · cannot apply here", "∅ 不适用"),
            "inconclusive": (
                "▲ NO VERDICT · control misbehaved",
                "▲ 无结论 · 对照异常",
            ),
            "error": ("▲ ERROR · no verdict", "▲ 出错 · 无结论"),
        }
        for verdict, (en, zh) in table.items():
            self.assertEqual(badge(verdict, "en", reason="control"), en)
            self.assertEqual(badge(verdict, "zh", reason="control"), zh)
        self.assertEqual(sorted(table), sorted(harness.VERDICTS))

    def test_a_model_has_words_of_its_own(self) -> None:
        shown = [badge("bug_present", lang, "mechanism_model") for lang in LANGS]
        self.assertEqual(
            shown, ["◇ MODEL · mechanism shown (3/5)", "◇ 模型 · 机理重现（3/5）"]
        )
        for verdict in ("bug_present", "bug_absent"):
            for lang in LANGS:
                text = badge(verdict, lang, "mechanism_model")
                self.assertNotRegex(text, "PASS|FAIL|通过|✔|✖")

    def test_the_harness_alone_uses_the_same_words(self) -> None:
        for verdict in ("bug_present", "bug_absent"):
            for fidelity in harness.FIDELITIES:
                body = {
                    "verdict": verdict,
                    "reason": None,
                    "hits": 3,
                    "trials": 5,
                    "repro": {"fidelity": fidelity},
                }
                ours = tuple(badge(verdict, lang, fidelity) for lang in LANGS)
                self.assertEqual(harness.sentences(body), ours)


class ReasonTest(SimpleTestCase):
    def test_every_reason_has_words_in_both_languages(self) -> None:
        for reason in CONTRACT_REASONS.split():
            for lang in LANGS:
                words = badges.reason_text(reason, lang)
                self.assertNotIn(words, ("", reason))
                self.assertEqual(bool(HAN.search(words)), lang == "zh", reason)

    def test_details_are_kept(self) -> None:
        self.assertEqual(
            badges.reason_text("crash:SIGSEGV", "en"), "a check crashed: SIGSEGV"
        )
        self.assertIn("内存", badges.reason_text("limit:memory", "zh"))
        self.assertEqual(badges.reason_text("said:no such op", "zh"), "no such op")
        self.assertEqual(badges.reason_text(None, "en"), "")


class SentenceTest(SimpleTestCase):
    def sentence(self, verdict: str, lang: str, **changes: object) -> str:
        facts: dict[str, object] = {
            "verdict": verdict,
            "reason": "timeout",
            "hits": 5,
            "trials": 5,
            "repro": {"fidelity": "upstream_bug"},
            "build": {"raw": "2.13.0+cpu"},
            "device": {"class": "cpu", "name": "x86_64"},
        }
        return harness.sentence(badges.SENTENCE_WORDS, {**facts, **changes}, lang)

    def test_a_verdict_names_its_build(self) -> None:
        for verdict in (Verdict.BUG_PRESENT, Verdict.BUG_ABSENT):
            for lang in LANGS:
                self.assertIn("2.13.0+cpu", self.sentence(verdict, lang))

    def test_without_a_verdict_nothing_is_said_of_the_bug(self) -> None:
        for verdict in (Verdict.ERROR, Verdict.INCONCLUSIVE):
            self.assertIn(
                "cannot tell whether the bug is there", self.sentence(verdict, "en")
            )
            self.assertIn("不能据此判断", self.sentence(verdict, "zh"))

    def test_what_is_missing_is_named_and_no_device_that_is_not_there(self) -> None:
        device = {"class": "cuda", "name": ""}
        lacks = {"reason": "stack:transformers", "device": device}
        said = self.sentence("not_applicable", "en", **lacks)
        self.assertIn("`manage.py builds add --with` installs it): transformers.", said)
        self.assertNotIn("cuda", said)
        said = self.sentence("not_applicable", "zh", **lacks)
        self.assertIn("可安装）：transformers。", said)
        self.assertNotIn("cuda", said)

    def test_sometimes_is_said(self) -> None:
        self.assertIn("sometimes", self.sentence("bug_present", "en", hits=2))
        self.assertNotIn("sometimes", self.sentence("bug_present", "en"))

    def test_a_model_never_says_affected_or_not(self) -> None:
        text = self.sentence("bug_present", "en", repro={"fidelity": "mechanism_model"})
        self.assertIn("does not say whether a build is affected", text)

    def test_states_outcomes_and_workarounds_are_complete(self) -> None:
        for lang in LANGS:
            for state in Run.State.values:
                self.assertTrue(badges.state(state, lang))
            for outcome in Outcome.values:
                self.assertTrue(badges.outcome("trigger", outcome, lang))
            for status in ("verified", "does_not_help", "untested"):
                self.assertTrue(all(badges.workaround(status, lang)))
        self.assertEqual(badges.outcome("detector", "bug", "en"), "fires")


class StandingTest(SimpleTestCase):
    def of(self, verdict: str, lang: str = "en", fidelity: str = "upstream_bug") -> str:
        row = Finding(verdict=verdict, hits=1, trials=3, fidelity=fidelity)
        return str(badges.of_finding(row, lang))

    def test_where_many_verdicts_stand_they_have_the_words_of_the_matrix(self) -> None:
        table = {
            "bug_present": ("✖ Bug (1/3)", "✖ 有此缺陷（1/3）"),
            "bug_absent": ("✔ No bug seen (1/3)", "✔ 未见缺陷（1/3）"),
            "not_applicable": ("∅ Not applicable", "∅ 不适用"),
            "inconclusive": ("▲ No result", "▲ 无结果"),
            "error": ("▲ No result", "▲ 无结果"),
        }
        self.assertEqual(set(table), set(Verdict))
        for verdict, expected in table.items():
            said = self.of(verdict), self.of(verdict, "zh")
            self.assertEqual(said, expected)

    def test_a_model_never_has_the_words_of_a_bug(self) -> None:
        for verdict in ("bug_present", "bug_absent"):
            self.assertIn("MODEL · ", self.of(verdict, fidelity="mechanism_model"))


class TagTest(SimpleTestCase):
    def render(self, text: str, lang: str = "en", **context: object) -> str:
        with override(lang):
            return Template("{% load runs verdicts %}" + text).render(Context(context))

    def test_the_badge_is_the_mock_s(self) -> None:
        tag = "{% verdict_badge 'bug_present' 5 5 'upstream_bug' %}"
        self.assertEqual(
            self.render(tag),
            '<span class="v v-fail"><span class="sh sh-x">✖</span><b>FAIL</b> · bug '
            'reproduced <span class="k">(5/5)</span></span>',
        )
        self.assertEqual(
            self.render(tag, "zh-hans"),
            '<span class="v v-fail"><span class="sh sh-x">✖</span><b>未通过</b> · '
            '缺陷已复现<span class="k">（5/5）</span></span>',
        )

    def test_words_follow_the_language_and_are_escaped(self) -> None:
        with override("zh-hans"):
            self.assertEqual(verdicts.outcome_word("bug", "detector"), "触发")
        page = "{% load kb %}{% claim_state 'refuted' %}"
        self.assertIn("已被实测否定", self.render(page, "zh-hans"))
        tier = self.render("{% tier_line 'D' %}", "zh-hans")
        self.assertIn(f"<b>D 级</b>：{sandbox.TIERS['D'].reason_zh}", tier)
        self.assertIn(sandbox.TIERS["D"].remedy_zh, tier)
        self.assertIn("Not tested", self.render("{% finding_badge f %}", f=None))
