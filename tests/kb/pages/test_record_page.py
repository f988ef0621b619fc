"""A record's page: the reader's build, upstream, the strip, languages, its size."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.staticfiles import finders
from django.db import connection
from django.test import tag
from django.test.utils import CaptureQueriesContext, override_settings
from django.utils import timezone
from django.utils.html import escape

from kb.models import Record
from kb.publishing import saving
from runner.models import Device, Installation, Run
from tests.kb.pages.test_pages import Page, PageTest
from tests.support import runs

PATH = "/en/NAN-9001/sample/"
BUDGET_BYTES = 60_000
SHEETS = [
    f"css/{path.name}"
    for path in (Path(settings.BASE_DIR) / "static/css").glob("*.css")
]
# One of them counts the runs of captures, which share the limits of whoever asks.
MAX_QUERIES = 16


class RecordPageTest(PageTest):
    def text(self, path: str = PATH, **kwargs: Any) -> str:
        return Page(self.page(path, **kwargs)).text

    def observe(self, raw: str, *, bug: bool = True) -> str:
        return runs.run_on(self.repro, raw, bug=bug).short


class PiecesTest(RecordPageTest):
    def test_it_is_made_of_few_templates(self) -> None:
        self.observe("2.14.0+cpu")
        response = self.client.get(PATH)
        named = {str(used.name) for used in response.templates}
        ours = {name for name in named if name.startswith("kb/")}
        self.assertLessEqual(len(ours), 12, sorted(ours))


class ChoiceTest(RecordPageTest):
    def test_the_chosen_build_is_remembered(self) -> None:
        for raw in ("2.12.0+cpu", "2.14.0+cpu"):
            self.observe(raw)
        self.assertNotIn("torch 2.14.0+cpu", self.text())
        response = self.client.get(f"{PATH}?torch=2.12.0-cpu&device=cpu")
        self.assertIn("Cookie", response["Vary"])
        self.assertEqual(response.cookies["dtn_torch"]["samesite"], "Lax")
        self.assertIn("in 1 run on torch 2.12.0+cpu", self.text())
        self.assertIn("torch 2.14.0+cpu", self.text(f"{PATH}?torch=2.14.0-cpu"))

    def test_a_workaround_is_shown_on_the_chosen_build(self) -> None:
        # The newest build first, so that it is not the one that was seen last.
        digests = {raw: self.observe(raw) for raw in ("2.14.0+cpu", "2.12.0+cpu")}
        for path, raw in (
            (PATH, "2.14.0+cpu"),
            (f"{PATH}?torch=2.12.0-cpu", "2.12.0+cpu"),
            (f"{PATH}?torch=2.12.0%2Bcpu", "2.12.0+cpu"),
            (f"{PATH}?torch=2.13.0", "2.14.0+cpu"),
        ):
            with self.subTest(path):
                self.client.cookies.clear()
                part = self.page(path).partition('id="workarounds"')[2]
                named = part.partition('<p class="ev">')[2].partition("</p>")[0]
                self.assertIn(f'href="/en/evidence/{digests[raw]}/"', named)

    def test_a_line_of_a_list_of_packages_names_its_torch(self) -> None:
        for typed in ("torch==2.12.0+cpu", "torch 2.12.0+cpu", "2.12.0+cpu"):
            with self.subTest(typed):
                self.client.cookies.clear()
                response = self.client.get(PATH, {"torch": f" {typed} "})
                self.assertEqual(response.cookies["dtn_torch"].value, "2.12.0+cpu")
                self.assertContains(response, 'value="2.12.0+cpu"')
        other = self.client.get(PATH, {"torch": "pytorch-torch==2.1"})
        self.assertNotContains(other, 'value="2.1"')

    def test_what_is_no_version_is_not_remembered(self) -> None:
        for odd in ("", "a b", "x;y=1", "x" * 500, "\u0663", "<b>"):
            response = self.client.get(PATH, {"torch": odd, "device": "tpu"})
            self.assertEqual(response.status_code, 200)
            self.assertNotIn("dtn_torch", response.cookies, odd)
            self.assertNotIn("dtn_device", response.cookies)

    def test_a_cookie_of_anything_is_shown_as_text(self) -> None:
        self.client.cookies["dtn_torch"] = "<script>"
        self.client.cookies["dtn_device"] = "cuda"
        html = self.page(PATH)
        self.assertNotIn('<option value="<script>', html)
        self.assertIn("Unknown: run it", html)

    def test_the_run_form_opens_on_the_remembered_build(self) -> None:
        runs.install("/nowhere/else", "9.8.0-cpu")
        self.client.get(f"{PATH}?torch=9.8.0-cpu")
        panel = self.page(PATH).partition('id="r-build"')[2]
        options = panel.partition("</select>")[0]
        self.assertRegex(options, r'value="9\.8\.0-cpu"\s+selected')


class OpeningTest(RecordPageTest):
    """On which build the page opens, and that it is one for everything."""

    def strip(self, path: str = PATH) -> str:
        html = self.page(path).partition('<section class="yours-box')[2]
        return Page(html.partition("</section>")[0]).text

    def selected(self, path: str = PATH) -> str:
        form = self.page(path).partition('id="r-build"')[2]
        (build,) = re.findall(
            r'value="([^"]*)"\s+selected', form.partition("</select>")[0]
        )
        return build

    def install(self, slug: str) -> None:
        raw = slug.replace("-", "+")
        runs.make_build(slug, raw)
        runs.install(f"/nowhere/{slug}", slug)

    def test_a_build_that_can_be_run_here_before_a_newer_one(self) -> None:
        self.observe("2.12.0+cpu")
        self.observe("2.14.0+cpu")
        self.install("2.12.0-cpu")
        self.assertEqual(self.selected(), "2.12.0-cpu")
        self.assertIn('name="build" value="2.12.0-cpu"', self.page(PATH))
        # Whom the reader asks about comes before any of these.
        asked = self.page(f"{PATH}?torch=2.14.0-cpu")
        self.assertIn("cannot be run on this site", asked)
        # By what `pip freeze` prints, too.
        asked = self.page(f"{PATH}?torch=2.12.0")
        self.assertIn('name="build" value="2.12.0-cpu"', asked)
        self.assertIn('id="run-button"', asked)
        asked = self.page(f"{PATH}?torch=2.14.0-cpu")
        self.assertNotIn('id="run-button"', asked)

    def test_a_record_gives_no_verdict_that_nobody_asked_for(self) -> None:
        self.observe("2.12.0+cpu")
        self.observe("2.14.0+cpu")
        for verdict in ("bug_present", "bug_absent"):
            self.record.findings.update(verdict=verdict)
            opened = self.strip()
            self.assertNotIn("✔", opened)
            self.assertNotIn("✖", opened)
            self.assertIn("Your build", opened)
        self.assertIn("✔No bug seen", self.strip(f"{PATH}?torch=2.14.0-cpu"))

    def test_a_gpu_record_opens_on_what_is_documented_not_on_a_cpu_build(self) -> None:
        self.record.repros.update(device="cuda")
        self.observe("2.12.0+cpu")
        self.record.findings.update(
            device_class="cuda", verdict="not_applicable", verdict_reason="device"
        )
        opened = self.strip()
        self.assertIn("Likely affected", opened)
        self.assertIn("Nobody has run it here on a GPU yet", opened)
        self.assertNotIn("N/A", opened)
        asked = self.page(f"{PATH}?torch=2.12.0-cpu&device=cuda")
        said = asked.partition('<p class="yours-said">')[2].partition("</p>")[0]
        self.assertNotIn("N/A", said.partition("Tried here:")[0])
        self.assertIn("Tried here:", said)
        Record.objects.update(affected=[])
        self.client.cookies.clear()
        self.assertIn("Unknown", self.strip())

    def test_a_verdict_on_the_records_own_device_opens_it(self) -> None:
        self.record.repros.update(device="cuda")
        self.observe("2.12.0+cu126")
        self.record.findings.update(device_class="cuda")
        self.observe("2.14.0+cpu")
        self.assertIn("<option selected>cuda", " ".join(self.page(PATH).split()))

    def test_the_address_to_share_keeps_build_and_language_of_the_reader(self) -> None:
        self.observe("2.12.0+cpu")
        html = self.page(f"{PATH}?torch=2.12.0-cpu")
        shared = "/NAN-9001?torch=2.12.0-cpu&device=cpu"
        self.assertIn(f'href="{escape(shared)}"', html)
        response = self.client.get(shared, headers={"Accept-Language": "zh-CN"})
        query = shared.partition("?")[2]
        self.assertRedirects(response, f"/zh/NAN-9001/sample/?{query}")


class OutlineTest(RecordPageTest):
    def test_what_is_folded_has_an_address_inside_of_its_fold(self) -> None:
        """There a browser opens the fold that a link leads to."""
        self.observe("2.12.0+cpu")
        html = self.page(PATH).partition('class="folds"')[2]
        folds = re.findall(
            r"<details><summary><b>([^<]+)</b><span>(.*?)</span></summary>"
            r'<div id="([\w-]+)">',
            html,
        )
        names = [name for _title, _count, name in folds]
        wanted = "workarounds claims builds fix environment run source evidence sources"
        self.assertEqual(names, wanted.split())
        self.assertEqual([title for title, count, _name in folds if not count], [])
        self.assertIn('<section id="repro">', html)

    def test_affected_versions_stand_on_one_line_on_top(self) -> None:
        self.observe("2.12.0+cpu")
        self.observe("2.16.0+cpu", bug=False)
        line = self.page(PATH).partition('<p class="affected">')[2].partition("</p>")[0]
        text = " ".join(Page(line).text.split())
        self.assertIn("torch ≥ 2.11.0, < 2.15.0; 2.6.0a0+df5bbc09d1.nv24.12", text)
        self.assertIn("reproduced on 1 of 2 builds (cpu)", text)
        Record.objects.update(affected=[])
        self.assertIn("no version is documented", self.text())

    def test_evidence_is_folded_by_verdict_whatever_the_trials(self) -> None:
        shorts = [self.observe(f"2.{minor}.0+cpu") for minor in (10, 11, 12)]
        self.observe("2.16.0+cpu", bug=False)
        html = self.page(PATH).partition('id="evidence"')[2]
        html = html.partition('id="sources"')[0]
        self.assertEqual(html.count('<details class="unfold"'), 2)
        text = " ".join(Page(html).text.split())
        self.assertIn("FAIL · bug reproduced (3/3) 2.10.0 – 2.12.0 3 builds", text)
        for short in shorts:
            self.assertIn(short, html)


class UpstreamTest(RecordPageTest):
    def upstream(self, **fields: Any) -> str:
        Record.objects.update(**fields)
        return self.text().partition("Why trust this")[2].partition("Symptom")[0]

    def test_a_fix_is_named_by_kind_and_version(self) -> None:
        self.assertIn("cause fixed: torch 2.15.0", self.upstream(upstream="fixed"))
        self.assertIn("fixed in torch 2.15.0", self.text())
        self.assertNotIn("torch 2.15.0", self.upstream(upstream="open", fixes=[]))

    def test_a_contradiction_names_the_documented_version(self) -> None:
        short = self.observe("2.16.0+cpu")
        html = self.page(PATH)
        self.assertIn(
            "Documented as fixed in 2.15.0; we still reproduce it on 2.16.0-cpu (1/1).",
            Page(html).text,
        )
        self.assertIn(short, html.partition("Documented as fixed in")[2][:400])
        zh = self.text("/zh/NAN-9001/sample/")
        self.assertIn("文档称 2.15.0 已修复，但在 2.16.0-cpu 上仍可复现（1/1）。", zh)


class StripTest(RecordPageTest):
    def test_each_build_is_a_link_to_its_evidence(self) -> None:
        clean, short = self.observe("2.10.0+cpu", bug=False), self.observe("2.12.0+cpu")
        html = self.page(PATH).partition('class="strip')[2].partition("</section>")[0]
        for digest in (clean, short):
            self.assertIn(f'href="/en/evidence/{digest}/"', html)
        text = Page(f"<i {html}").text
        self.assertIn("No bug seen", text)
        self.assertEqual(html.count('class="rs-bug'), 1)
        self.assertEqual(html.count('class="rs-ok'), 1)
        self.assertNotIn("style=", html)

    def test_only_the_build_that_the_reader_named_is_marked(self) -> None:
        self.observe("2.12.0+cpu")
        self.assertNotIn("rs-you", self.page(PATH))
        self.assertIn("rs-you", self.page(f"{PATH}?torch=2.12.0%2Bcpu"))

    def test_without_a_verdict_there_is_none(self) -> None:
        self.assertNotIn('class="rs"', self.page(PATH))
        self.assertIn("CPU Not run here yet.", " ".join(self.text().split()))


class CardsTest(RecordPageTest):
    def card(self, name: str, path: str = PATH) -> str:
        html = self.page(path).partition(f'<section class="card" id="{name}"')[2]
        return html.partition("</section>")[0]

    def test_conditions_are_ticked_and_counted(self) -> None:
        text = {"en": "A mask is passed.", "zh": "传入了掩码。"}
        condition = {"key": "flag", "value": "attn_mask", "text": text}
        Record.objects.update(preconditions=[condition])
        mine = self.card("mine")
        self.assertEqual(mine.count('type="checkbox"'), 2)
        words = " ".join(Page(mine).text.split())
        self.assertIn("torch ≥ 2.11.0, < 2.15.0 is installed.", words)
        self.assertIn("A mask is passed. of 2 apply.", words)
        self.assertIn("传入了掩码。", self.card("mine", "/zh/NAN-9001/sample/"))

    def test_the_first_thing_to_do_is_what_a_run_verified(self) -> None:
        short = self.observe("2.12.0+cpu")
        now = self.card("now")
        self.assertIn('<pre class="code"', now)
        self.assertIn(f'href="/en/evidence/{short}/"', now)
        self.assertIn("No bug seen", Page(now).text)
        Record.objects.update(workarounds=[])
        self.assertIn("No workaround is known", self.card("now"))

    def test_each_framework_has_a_pane_and_what_was_not_run_says_so(self) -> None:
        self.assertNotIn('type="radio"', self.card("now"))
        (entry,) = Record.objects.get().workarounds
        line = {"apply": "Trainer(deterministic=True)", "source": "s-1"}
        lines = {"lightning": line, "deepspeed": line | {"apply": '"x": true'}}
        Record.objects.update(workarounds=[entry | {"lines": lines}])
        now = self.card("now")
        names = re.findall(r"<label[^>]*>(.*?)</label>", now)
        self.assertEqual(names, ["torch", "Lightning", "DeepSpeed"])
        self.assertEqual(now.count('class="pane"'), 3)
        self.assertIn('data-copy-text="Trainer(deterministic=True)"', now)
        words = " ".join(Page(now).text.split())
        self.assertIn("Lightning: not run here; from A report.", words)
        self.assertIn(
            "DeepSpeed：未在此运行；取自", self.card("now", "/zh/NAN-9001/sample/")
        )

    def test_trust_counts_runs_and_builds_and_names_an_evidence(self) -> None:
        self.observe("2.12.0+cpu")
        short = self.observe("2.14.0+cpu")
        self.observe("2.16.0+cpu", bug=False)
        trust = self.card("trust")
        self.assertIn("3 runs on 3 builds", " ".join(Page(trust).text.split()))
        self.assertIn(f'href="/en/evidence/{short}/"', trust)

    def test_the_row_of_the_bug_itself_is_left_to_the_strip(self) -> None:
        self.observe("2.12.0+cpu")
        builds = self.page(PATH).partition('id="builds"')[2].partition("</table>")[0]
        self.assertNotIn("bug&#x27;s own repro", builds)
        self.assertIn("<tbody>", builds)

    def test_names_of_checks_are_not_shown(self) -> None:
        self.observe("2.12.0+cpu")
        page = self.page(PATH)
        for name in ("workaround_off", "repro:trigger"):
            shown = re.sub(r"<code[^>]*>.*?</code>", "", page, flags=re.DOTALL)
            self.assertNotIn(name, Page(shown).text)


class CommandsTest(RecordPageTest):
    @override_settings(SITE_URL="https://nan.example")
    def test_three_ways_to_run_it_elsewhere(self) -> None:
        text = self.text()
        url = "https://nan.example/api/v1/records/NAN-9001/repro.py"
        self.assertIn(f"uv run {url}", text)
        self.assertIn(f"curl -fsS {url} | python -", text)
        self.assertIn("python manage.py run_repro NAN-9001", text)


class LanguageTest(RecordPageTest):
    def test_an_outdated_translation_says_so(self) -> None:
        Record.objects.update(outdated="zh")
        self.assertNotIn("older than its source", self.text())
        self.assertIn("译文比原文旧", self.text("/zh/NAN-9001/sample/"))
        Record.objects.update(outdated="en")
        self.assertIn("This translation is older than its source.", self.text())


@tag("any_database")  # counts queries and bytes
class WeightTest(RecordPageTest):
    def grow(self, number: int) -> None:
        """More of everything that a busy site has."""
        for at in range(number):
            slug = f"9.{at}.1-cpu"
            raw = slug.replace("-", "+")
            runs.make_build(slug, raw)
            if not Installation.objects.filter(build=slug).exists():
                runs.install(f"/nowhere/{at}", slug)
            moment = f"2026-02-{at + 1:02}T03:04:{number:02}Z"
            runs.run_on(self.repro, raw, started_at=moment)
            runs.make_run(self.repro, state="cancelled")
            saving.save(self.record)

    def queries(self, path: str = PATH) -> int:
        with CaptureQueriesContext(connection) as queries:
            self.page(path)
        return len(queries)

    def test_queries_do_not_grow_with_runs_and_builds(self) -> None:
        self.grow(2)
        few = self.queries()
        self.grow(20)
        self.assertEqual(self.queries(), few)
        self.assertLessEqual(few, MAX_QUERIES)

    def test_a_gpu_record_of_a_busy_site_needs_no_more(self) -> None:
        self.grow(3)
        related = runs.make_record("NAN-9002")
        Record.objects.filter(pk="NAN-9001").update(related=[related.pk])
        self.repro.device = "cuda"
        self.repro.save()
        now = timezone.now()
        queues = [f"9.{at}.1-cpu.cuda" for at in range(3)]
        runs.make_worker(queues=queues, slots=1)
        Device.objects.create(
            host="h", uuid="GPU-1", capability="9.0", memory_mib=9000, last_seen=now
        )
        build = Installation.objects.get(build="9.2.1-cpu").build
        runs.make_run(self.repro, build=build, device="cuda")
        Run.objects.filter(state="cancelled").update(build=build, device="cuda")
        self.assertLessEqual(self.queries(), MAX_QUERIES)

    def test_a_first_view_stays_small(self) -> None:
        """As a browser loads it with gzip: the page, its style, script and mark."""
        self.grow(20)
        sent = 0
        response = self.client.get(PATH, headers={"Accept-Encoding": "gzip"})
        self.assertEqual(response["Content-Encoding"], "gzip")
        sent += len(response.content)
        for name in (*SHEETS, "site.js", "mark.svg"):
            found = finders.find(name)
            assert isinstance(found, str)
            with open(found, "rb") as file:  # noqa: PTH123
                sent += len(gzip.compress(file.read()))
        self.assertLessEqual(sent, BUDGET_BYTES)

    def test_bodies_of_evidence_are_not_read_for_the_table(self) -> None:
        self.grow(2)
        with CaptureQueriesContext(connection) as queries:
            self.page(PATH)
        rows = [q["sql"] for q in queries if 'FROM "runner_evidence"' in q["sql"]]
        self.assertTrue(rows)
        for row in rows:
            selected = row.partition(" FROM ")[0]
            self.assertNotIn(', "runner_evidence"."body",', selected)
