"""A run's page in every state, and an evidence object's own page."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape

from django.test import RequestFactory, SimpleTestCase, override_settings
from django.utils import timezone
from django.utils.translation import override

from kb import badges
from portable import harness
from runner.builds import registry
from runner.evidence import store
from runner.models import Evidence, Run
from runner.pages import local_commands
from runner.pages.run_page import notes_of
from runner.pages.runs.killed import kills_of
from runner.pages.runs.waits import wait_words
from tests.kb.pages.test_pages import Page, PageTest
from tests.support import runs


class WaitTest(SimpleTestCase):
    def test_a_wait_is_said_as_one_would_say_it(self) -> None:
        said = {
            3: ("a few seconds", "几秒"),
            57: ("about 60 seconds", "约 60 秒"),
            357: ("about 6 minutes", "约 6 分钟"),
            5400: ("about 2 hours", "约 2 小时"),
        }
        for seconds, (en, zh) in said.items():
            with override("en"):
                self.assertEqual(wait_words(seconds), en)
            with override("zh-hans"):
                self.assertEqual(wait_words(seconds), zh)


class KilledTest(PageTest):
    def test_the_page_says_what_was_killed_from_outside(self) -> None:
        repro = runs.make_repro()
        body = runs.make_evidence(repro)
        kill = {"by": "oom", "after_s": 1.0}
        control, *_, trigger = [
            c for c in body["checks"] if c["name"] in ("control", "trigger")
        ]
        control["killed"] = [kill, {**kill, "by": "signal"}]
        trigger["killed"] = [kill] * 3
        with override("en"):
            once, always = kills_of(body)
            self.assertIn("no memory left; it received a signal", once)
            self.assertIn("started again", once)
            self.assertIn("The repro is not at fault", always)
        with override("zh-hans"):
            once, always = kills_of(body)
            self.assertIn("从外部被终止（主机内存耗尽；收到了信号）", once)
            self.assertIn("与复现脚本无关", always)
        row = store.add(runs.signed(body), "site")
        page = self.client.get(f"/en/evidence/{row.short}/").content.decode()
        self.assertIn("(the host had no memory left; it received", page)


class NotesTest(PageTest):
    def test_workarounds_and_useless_advice_are_named_as_the_record_does(self) -> None:
        body = {
            "workarounds": {"turn_off": "verified", "wait": "verified"},
            "refuted": {"pray": "bug", "cast": "clean"},
        }
        with override("en"):
            plain = notes_of(body, self.record)
            self.assertIn("Workaround verified: turn off; wait", plain)
            self.assertIn("Confirmed useless: pray", notes_of(body, None))
        titles = {"workaround_turn_off": "Switched off", "refuted_pray": "Prayer"}
        self.record.check_titles = [
            {"name": name, "text": {"en": text, "zh": f"《{text}》"}}
            for name, text in titles.items()
        ]
        with override("zh-hans"):
            first, last = notes_of(body, self.record)
        self.assertEqual(first, "规避方法已验证：《Switched off》；wait")
        self.assertIn("《Prayer》", last)
        self.assertNotIn("cast", last)


class LiveTest(PageTest):
    def text(self, run: Run, lang: str = "en") -> str:
        return Page(self.page(f"/{lang}/runs/{run.id}/")).text

    def queue(self) -> Run:
        """Runs like those that take six minutes, one of them before ours."""
        now = timezone.now()
        runs.make_worker()
        done = self.finished_run()
        Run.objects.filter(pk=done.pk).update(
            started_at=now - timedelta(seconds=357), finished_at=now
        )
        other = runs.make_repro(runs.source(trials=2), name="other")
        runs.make_run(other)
        return runs.make_run(self.repro)

    def test_a_queued_run_says_its_wait_in_words(self) -> None:
        run = self.queue()
        text = self.text(run)
        self.assertIn(
            "1 run is ahead in the queue. It starts in about 6 minutes.", text
        )
        self.assertNotRegex(text, r"\d{2,} s\b")
        self.assertIn("预计约 6 分钟后开始。", self.text(run, "zh"))

    def test_a_queued_run_that_no_worker_takes_says_why(self) -> None:
        run = runs.make_run(self.repro)
        self.assertIn("No worker with this build is online just now", self.text(run))
        runs.make_worker(seen=timedelta(minutes=20), host=registry.host_name())
        self.assertIn("was last seen 20 min ago", self.text(run))
        self.assertNotIn("Next in the queue", self.text(run))

    def test_the_check_that_misbehaved_is_marked(self) -> None:
        with override("en"):
            found = [
                badges.of_check(check, outcome, "en")
                for check, outcome in (("control", "bug"), ("detector", "clean"))
            ]
            behaved = badges.of_check("detector", "bug", "en")
        self.assertEqual([badge.shape for badge in found], ["▲", "▲"])
        self.assertEqual((behaved.shape, behaved.word), ("", "fires"))

    def test_a_second_attempt_says_what_became_of_the_first(self) -> None:
        run = runs.make_run(self.repro, state="running", phase="control", attempt=2)
        self.assertIn("attempt 2: the worker of the one before", self.text(run))
        self.assertNotIn("0 min", self.text(run))

    def test_a_run_that_ended_without_evidence_says_how_far_it_got(self) -> None:
        run = runs.make_run(
            self.repro,
            state="finished",
            verdict="error",
            reason="lost",
            phase="trigger 2/5",
            finished_at=timezone.now(),
        )
        text = self.text(run)
        self.assertIn("It reached: trigger 2/5.", text)
        self.assertNotIn("The trigger was not reached", text)
        self.assertNotIn("✔", text)

    def test_of_a_run_that_failed_the_end_of_its_log_comes_first(self) -> None:
        run = runs.make_run(
            self.repro,
            state="finished",
            verdict="error",
            reason="raised",
            phase="trigger 1/1",
            finished_at=timezone.now(),
        )
        runs.write_log(run, *(f"step {at}" for at in range(2500)), "TypeError: why")
        html = self.page(f"/en/runs/{run.id}/")
        self.assertIn("TypeError: why", html)
        self.assertIn("Only the last 2000 lines are shown.", html)
        self.assertNotIn("step 400<", html)
        Run.objects.filter(pk=run.pk).update(verdict="inconclusive")
        html = self.page(f"/en/runs/{run.id}/")
        self.assertNotIn("TypeError: why", html)
        self.assertIn("Only the first 2000 lines are shown.", html)

    def test_a_run_that_raised_says_what(self) -> None:
        body = runs.make_evidence(self.repro, failure="raised")
        (control,) = [c for c in body["checks"] if c["name"] == "control"]
        control["log"] = {"text": "[stderr] TypeError: no mask", "cut_bytes": 0}
        found = store.add(runs.signed(body), origin="site")
        run = runs.make_run(
            self.repro,
            state="finished",
            verdict=found.verdict,
            reason="raised",
            evidence=found,
            finished_at=timezone.now(),
        )
        answer = self.page(f"/en/runs/{run.id}/").partition('class="phases"')[0]
        self.assertIn('<code class="raised" lang="en">TypeError: no mask', answer)

    def test_phases_before_the_one_under_way_are_done_and_none_after(self) -> None:
        for phase, done in (("requirements", 0), ("control", 1), ("trigger 1/1", 3)):
            run = runs.make_run(self.repro, state="running", phase=phase, attempt=1)
            html = self.page(f"/en/runs/{run.id}/")
            states = re.findall(r'<li class="(done|on|wait)"', html)
            self.assertEqual(states[: done + 1], ["done"] * done + ["on"], phase)
            self.assertEqual(set(states[done + 1 :]), {"wait"})
            run.delete()

    def test_lines_of_the_log_have_addresses_and_marked_values(self) -> None:
        run = runs.make_run(self.repro, state="running", phase="trigger 1/1", attempt=1)
        runs.write_log(run, "first", "loss nan <b>")
        html = self.page(f"/en/runs/{run.id}/")
        self.assertRegex(html, r'<li id="L2">\s*<a href="#L2">2</a>')
        self.assertIn('loss <i class="nan">nan</i> &lt;b&gt;', html)
        log = html.partition('id="log-lines"')[2]
        self.assertTrue(log.startswith(' role="log" aria-live="off" tabindex="0"'))
        fragment = self.page(f"/en/runs/{run.id}/status/?after=1")
        self.assertIn('<ol id="log-list" hx-swap-oob="beforeend:#log-list">', fragment)
        self.assertNotIn("first", fragment)

    def test_without_scripts_all_is_there(self) -> None:
        run = runs.make_run(
            self.repro,
            state="running",
            phase="control",
            attempt=1,
            requester=runs.CLIENT,
        )
        html = self.page(f"/en/runs/{run.id}/")
        self.assertIn('<noscript><meta http-equiv="refresh" content="5">', html)
        self.assertIn(f'action="/en/runs/{run.id}/cancel/"', html)
        over = self.page(f"/en/runs/{self.finished_run().id}/")
        self.assertIn('/sample/#now">What to do now</a>', over)
        self.assertNotIn("http-equiv", over)
        text = unescape(over.partition('aria-label="Markdown, English"')[2])
        self.assertIn("**✖ FAIL · bug reproduced (1/1)**", text)
        self.assertIn("**✖ 未通过 · 缺陷已复现（1/1）**", text)

    def test_markdown_says_each_check_once_and_ends_with_the_command(self) -> None:
        run = self.finished_run()
        evidence = run.evidence
        assert evidence
        checks = evidence.body["checks"]
        trigger = next(row for row in checks if row["name"] == "trigger")
        more = [{**trigger, "trial": at, "outcome": "clean"} for at in range(2, 20)]
        type(evidence).objects.update(
            body={**evidence.body, "checks": [*checks, *more]}
        )
        html = unescape(self.page(f"/en/runs/{run.id}/"))
        text = html.partition('aria-label="Markdown, English">')[2].partition("<")[0]
        self.assertEqual(text.count("| `trigger` |"), 1)
        self.assertIn("| `trigger` | Bug × 1, No bug seen × 18 |", text)
        url = "http://testserver/api/v1/records/NAN-9001/repro.py"
        end = (
            f"- Address: http://testserver/en/runs/{run.id}/\n\n"
            f"```sh\ncurl -fsS {url} | python -\n```"
        )
        self.assertTrue(text.endswith(end), text[-400:])

    def test_a_command_has_the_values_of_the_run(self) -> None:
        request = RequestFactory().get("/")
        found = local_commands.of_repro(self.repro, request, None, ["a=1", "b=x y"])
        for line in (found.curl, found.uv, found.checkout):
            self.assertTrue(line.endswith(" --set a=1 --set 'b=x y'"), line)


class EvidencePageTest(PageTest):
    def found(self) -> Evidence:
        return store.add(runs.make_evidence(self.repro), origin="site")

    def test_every_check_is_listed_with_what_it_took(self) -> None:
        html = self.page(self.found().get_absolute_url())
        table = html.partition("in the order they ran")[2].partition("</table>")[0]
        for name in ("requirements", "control", "detector", "trigger", "workaround_"):
            self.assertIn(name, table)
        self.assertIn(" MiB", table)

    def test_the_digest_is_worked_out_anew(self) -> None:
        found = self.found()
        path = found.get_absolute_url()
        self.assertIn("matches this digest, recomputed", self.page(path))
        Evidence.objects.update(body=found.body | {"duration_s": 99.0})
        html = self.page(path)
        self.assertIn("no longer matches its digest", html)
        self.assertNotIn("matches this digest, recomputed", html)

    @override_settings(SITE_URL="https://nan.example")
    def test_the_command_that_checks_it_does(self) -> None:
        found = self.found()
        html = self.page(found.get_absolute_url())
        text = unescape(html)
        self.assertIn(f"https://nan.example/api/v1/evidence/{found.digest} |", text)
        program = text.partition("python -c '")[2].partition("'")[0]
        self.assertIn("harness.evidence_digest(e)", program)
        sent = self.client.get(f"/api/v1/evidence/{found.digest}").json()
        self.assertEqual(harness.evidence_digest(sent), sent["digest"])

    def test_it_says_how_to_run_it_again_on_the_same_release(self) -> None:
        text = Page(self.page(self.found().get_absolute_url())).text
        self.assertIn("uv run --with torch==9.9.0 http", text)
        self.assertIn(f"run_repro NAN-9001 --build {runs.SLUG}", text)

    def test_without_that_source_it_cannot_be_run_again(self) -> None:
        found = self.found()
        self.repro.digest = f"sha256:{'0' * 64}"
        self.repro.save()
        html = self.page(found.get_absolute_url())
        self.assertIn("no longer has the source", html)
        self.assertNotIn("uv run", html)

    def test_two_origins_that_disagree_are_named_there_and_on_the_record(self) -> None:
        first = self.found()
        other = runs.make_evidence(
            self.repro, bug=False, started_at="2026-01-03T03:04:05Z"
        )
        record = "/en/NAN-9001/sample/"
        self.assertNotIn("Suspect the machine", self.page(record))
        second = store.add(other, origin="repository")
        for path in (record, first.get_absolute_url(), second.get_absolute_url()):
            text = Page(self.page(path)).text
            self.assertIn("Suspect the machine before the record.", text)
            self.assertIn(first.short, text)
            self.assertIn(second.short, text)
