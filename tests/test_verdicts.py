"""Verdict words: one table, both languages, no claim without a verdict."""

import re
from pathlib import Path

from django.conf import settings
from django.template import Context, Template
from django.test import SimpleTestCase
from django.utils.translation import override

from kb.choices import LANGS, Outcome, Verdict
from runner import harness, sandbox
from runner.models import Run
from runner.wording import verdicts

CONTRACT_REASONS = """
device capability memory devices stack api compiler loader loopback not_taken
control detector_silent reference metric
raised crash timeout no_report channel contract import build_missing device_lost
device_health refused lost
"""
HAN = re.compile("[一-鿿]")


def badge(
    verdict: str, lang: str, fidelity: str = "upstream_bug", **options: str
) -> str:
    return str(verdicts.badge(verdict, 3, 5, fidelity, lang, **options))


class BadgeTest(SimpleTestCase):
    def test_the_table_of_the_design(self) -> None:
        table = {
            "bug_present": (
                "✖ FAIL · bug reproduced (3/5)",
                "✖ 未通过 · 缺陷已复现（3/5）",
            ),
            "bug_absent": (
                "✔ PASS · bug not seen (3/5)",
                "✔ 通过 · 未出现缺陷（3/5）",
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

    def test_pass_and_fail_stand_alone_in_no_template(self) -> None:
        for path in Path(settings.BASE_DIR, "templates").rglob("*.html"):
            alone = re.findall(r"(?:\bPASS\b|\bFAIL\b|通过)(?! · )", path.read_text())
            self.assertEqual(alone, [], path)


class ReasonTest(SimpleTestCase):
    def test_every_reason_has_words_in_both_languages(self) -> None:
        for reason in CONTRACT_REASONS.split():
            for lang in LANGS:
                words = verdicts.reason_text(reason, lang)
                self.assertNotIn(words, ("", reason))
                self.assertEqual(bool(HAN.search(words)), lang == "zh", reason)

    def test_details_are_kept(self) -> None:
        self.assertEqual(
            verdicts.reason_text("crash:SIGSEGV", "en"), "a check crashed: SIGSEGV"
        )
        self.assertIn("内存", verdicts.reason_text("limit:memory", "zh"))
        self.assertEqual(verdicts.reason_text("said:no such op", "zh"), "no such op")
        self.assertEqual(verdicts.reason_text(None, "en"), "")


class SentenceTest(SimpleTestCase):
    def sentence(self, verdict: str, lang: str, **changes: object) -> str:
        facts: dict[str, object] = {
            "verdict": verdict,
            "reason": "timeout",
            "hits": 5,
            "trials": 5,
            "fidelity": "upstream_bug",
            "build": "2.13.0+cpu",
            "device": "x86_64",
            "lang": lang,
        }
        return verdicts.sentence(**{**facts, **changes})  # type: ignore[arg-type]

    def test_a_verdict_names_its_build(self) -> None:
        for verdict in (Verdict.BUG_PRESENT, Verdict.BUG_ABSENT):
            for lang in LANGS:
                self.assertIn("2.13.0+cpu", self.sentence(verdict, lang))

    def test_without_a_verdict_nothing_is_said_of_the_bug(self) -> None:
        for verdict in (Verdict.ERROR, Verdict.INCONCLUSIVE):
            self.assertIn("says nothing about the bug", self.sentence(verdict, "en"))
            self.assertIn("不能据此判断", self.sentence(verdict, "zh"))

    def test_sometimes_is_said(self) -> None:
        self.assertIn("sometimes", self.sentence("bug_present", "en", hits=2))
        self.assertNotIn("sometimes", self.sentence("bug_present", "en"))

    def test_a_model_never_says_affected_or_not(self) -> None:
        text = self.sentence("bug_present", "en", fidelity="mechanism_model")
        self.assertIn("does not say whether a build is affected", text)

    def test_states_outcomes_and_workarounds_are_complete(self) -> None:
        for lang in LANGS:
            for state in Run.State.values:
                self.assertTrue(verdicts.state(state, lang))
            for outcome in Outcome.values:
                self.assertTrue(verdicts.outcome("trigger", outcome, lang))
            for status in ("verified", "does_not_help", "untested"):
                self.assertTrue(all(verdicts.workaround(status, lang)))
        self.assertEqual(verdicts.outcome("detector", "bug", "en"), "fires")


class TagTest(SimpleTestCase):
    def render(self, text: str, lang: str = "en", **context: object) -> str:
        with override(lang):
            return Template("{% load runs %}" + text).render(Context(context))

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
        self.assertEqual(
            self.render("{{ 'bug'|outcome_word:'detector' }}", "zh-hans"), "触发"
        )
        page = "{% load kb %}{% claim_state 'refuted' %}"
        self.assertIn("已被实测否定", self.render(page, "zh-hans"))
        tier = self.render("{% tier_line 'D' %}", "zh-hans")
        self.assertIn(f"<b>D 级</b>：{sandbox.TIERS['D'].reason_zh}", tier)
        self.assertIn(sandbox.TIERS["D"].remedy_zh, tier)
        self.assertIn("Not tested", self.render("{% finding_badge f %}", f=None))
