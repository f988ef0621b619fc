"""Pages over HTTP: what they show, what they refuse, and that their links lead on."""

from __future__ import annotations

import gzip
import re
from html import unescape
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urljoin, urlsplit

from django.test import Client, RequestFactory, TestCase, tag
from django.utils import timezone
from django.utils.translation import override

from kb.models import Finding, Record
from kb.pages import faults
from kb.publishing import saving
from kb.versions import order
from runner.evidence import store
from runner.models import Run
from runner.runs import jobs
from tests.support import loaded, runs

ATTRIBUTES_THAT_RUN = re.compile(r"^(style|on[a-z]+)$")
# PASS and FAIL, in either language, mean nothing without what follows the dot.
BARE_WORD = re.compile(r"\b(?:PASS|FAIL)\b(?!(?:</b>)? ·)|<b>未?通过(?!</b> ·)")
CAUGHT = (
    "UserWarning: cuDNN SDPA backward got grad_output.strides() != output.strides()"
)


class Page(HTMLParser):
    """Text, links and what a strict policy would refuse."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.inline: list[str] = []
        self.headings = 0
        self.ids: list[str] = []
        self.words: list[str] = []
        self.skipping = ""
        self.bare = BARE_WORD.findall(html)
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.headings += tag == "h1"
        self.inline += [name for name in found if ATTRIBUTES_THAT_RUN.match(name)]
        if tag in ("script", "style"):
            self.skipping = tag
            self.inline += [] if found.get("src") else [tag]
        if found.get("id"):
            self.ids.append(str(found["id"]))
        if tag == "a" and found.get("href"):
            self.links.append(str(found["href"]))

    def handle_endtag(self, tag: str) -> None:
        if tag == self.skipping:
            self.skipping = ""

    def handle_data(self, data: str) -> None:
        if not self.skipping:
            self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", "".join(self.words))


class PageTest(TestCase):
    """The sample record with one installed build; no evidence yet."""

    record: Record

    @classmethod
    def setUpTestData(cls) -> None:
        cls.record = runs.load_sample()
        cls.repro = cls.record.repros.get()
        cls.build = runs.make_build()
        runs.install("/nowhere/python")

    def page(self, path: str, status: int = 200, **kwargs: Any) -> str:
        response = self.client.get(path, **kwargs)
        self.assertEqual(response.status_code, status, path)
        return response.content.decode()

    def finished_run(self, *, bug: bool = True) -> Run:
        found = store.add(runs.make_evidence(self.repro, bug=bug), origin="site")
        return runs.make_run(
            self.repro,
            state="finished",
            verdict=found.verdict,
            hits=found.body["hits"],
            evidence=found,
            finished_at=timezone.now(),
        )


@tag("any_database", "long")
class CrawlTest(PageTest):
    """A class for each language, so that a parallel run spreads them."""

    start = "/en/"
    beside: tuple[str, ...] = ("/api/",)

    @classmethod
    def setUpTestData(cls) -> None:
        loaded.shipped()
        super().setUpTestData()

    def crawl(self, start: str) -> dict[str, Page]:
        """Every page that `start` leads to, in its language."""
        found: dict[str, Page] = {}
        waiting, seen = [start], {start}
        while waiting:
            path = waiting.pop()
            response = self.client.get(path, follow=True)
            self.assertEqual(response.status_code, 200, path)
            if not response["Content-Type"].startswith("text/html"):
                continue
            page = found[path] = Page(response.content.decode())
            for link in page.links:
                target = urlsplit(urljoin(f"http://testserver{path}", link))
                address = target._replace(scheme="", netloc="", fragment="").geturl()
                here = address.startswith((start, *self.beside))
                # Of a shipped record the page for a build or a device adds nothing.
                again = target.query and "/NAN-0" in target.path
                ours = target.netloc == "testserver" and here and not again
                if ours and address not in seen:
                    waiting.append(address)
                    seen.add(address)
        return found

    def test_every_link_leads_to_a_page_fit_for_the_policy(self) -> None:
        run = self.finished_run()
        pages = self.crawl(self.start)
        self.assertIn(run.get_absolute_url().replace("/en/", self.start), pages)
        self.assertGreater(len(pages), 20)
        for path, page in pages.items():
            with self.subTest(path):
                self.assertEqual(page.inline, [])
                self.assertEqual(page.headings, 1)
                self.assertEqual(len(page.ids), len(set(page.ids)))
                self.assertEqual(page.bare, [])


class ChineseCrawlTest(CrawlTest):
    start = "/zh/"
    beside = ()  # the API has one address for all languages


class EveryPageTest(PageTest):
    def test_a_site_without_records_says_what_to_do(self) -> None:
        Record.objects.all().delete()
        for path, advice in [
            ("/en/", "A change needs two tested builds"),
            ("/en/records/", "manage.py load_records"),
            ("/en/matrix/", "No record is published here yet"),
            ("/en/claims/", "No claim is recorded yet"),
            ("/en/workers/", "manage.py worker"),
        ]:
            self.assertIn(advice, self.page(path))

    def test_headers(self) -> None:
        response = self.client.get("/en/", headers={"X-Request-Id": "abcd-1234"})
        self.assertEqual(response["X-Request-Id"], "abcd-1234")
        self.assertNotIn("unsafe", response["Content-Security-Policy"])
        self.assertIn("default-src 'none'", response["Content-Security-Policy"])
        evil = self.client.get("/en/", headers={"X-Request-Id": "a b\tc" * 30})
        self.assertRegex(evil["X-Request-Id"], r"^[0-9a-f]{32}$")

    def test_every_kind_of_answer_is_compressed(self) -> None:
        self.finished_run()
        for path in [
            *("/en/", "/zh/records/", "/en/matrix/", "/en/claims/", "/en/search/?q=a"),
            *("/en/NAN-9001/sample/", "/en/feed.atom", "/api/v1/records/NAN-9001"),
        ]:
            response = self.client.get(path, headers={"Accept-Encoding": "gzip"})
            self.assertEqual(response["Content-Encoding"], "gzip", path)
            self.assertIn("Accept-Encoding", response["Vary"], path)

    def test_the_length_of_a_page_does_not_tell_what_is_in_it(self) -> None:
        """The same page twice: another length, and another mask of its token."""
        answers = [
            self.client.get("/en/NAN-9001/sample/", headers={"Accept-Encoding": "gzip"})
            for _ in range(8)
        ]
        self.assertGreater(len({len(answer.content) for answer in answers}), 1)
        pages = [gzip.decompress(answer.content).decode() for answer in answers]
        tokens = {
            re.findall(r'csrfmiddlewaretoken" value="(\w+)"', p)[0] for p in pages
        }
        self.assertEqual(len(tokens), len(pages))

    def test_unknown_addresses_are_404_pages(self) -> None:
        for path in [
            "/en/nothing/",
            "/en/NAN-7777/",
            "/en/builds/0.0.0-none/",
            "/en/runs/00000000-0000-4000-8000-000000000000/",
            "/en/evidence/000000000000/",
            "/en/problems/no-such-problem/",
        ]:
            self.assertIn("There is no such page", self.page(path, 404))

    def test_an_unknown_neutral_address_ends_in_a_404_page(self) -> None:
        response = self.client.get("/NAN-7777", follow=True)
        self.assertEqual(response.status_code, 404)

    def test_the_page_of_a_server_error_needs_nothing(self) -> None:
        for lang, said in (("en", "This page broke"), ("zh-hans", "页面出错")):
            with self.assertNumQueries(0), override(lang):
                response = faults.answer(RequestFactory().get("/"))
            self.assertContains(response, said, status_code=500)

    def test_a_program_reads_a_server_error_as_a_problem(self) -> None:
        kind = "application/problem+json"
        for path in ("/api/v1/records", "/osv/v1/query", "/mcp", "/metrics"):
            response = faults.answer(RequestFactory().get(path))
            self.assertEqual(response.headers["Content-Type"], kind, path)

    def test_healthz(self) -> None:
        self.assertEqual(self.page("/healthz"), "ok\n")
        # Behind a proxy with TLS, too, for whoever asks the web server itself.
        with self.settings(SECURE_SSL_REDIRECT=True):
            for path, status in (("healthz", 200), ("metrics", 200), ("en/", 301)):
                self.assertEqual(Client().get(f"/{path}").status_code, status)


class RecordPageTest(PageTest):
    path = "/en/NAN-9001/sample/"

    def test_without_evidence_nothing_is_asserted(self) -> None:
        page = Page(self.page(self.path)).text
        self.assertIn("Workaround not tested", page)
        self.assertIn("Documented only", page)
        self.assertIn("No evidence yet", page)
        self.assertNotIn("bug reproduced", page)
        self.assertNotIn("bug not seen (", page)

    def test_evidence_answers_for_its_build(self) -> None:
        self.finished_run()
        page = Page(self.page(f"{self.path}?torch={runs.SLUG}")).text
        self.assertIn("✖Bug (1/1) The bug happened", page)
        self.assertIn("FAIL · bug reproduced (1/1)", page)
        self.assertIn("without ✖ Bug 1/1 → with ✔ No bug seen 0/1", page)
        self.assertIn("= Verified", page)

    def test_a_build_that_was_not_run_is_only_inferred(self) -> None:
        self.finished_run()
        page = Page(self.page(f"{self.path}?torch=2.13.0%2Bcpu")).text
        self.assertIn("Likely affected", page)
        self.assertIn("Not run on exactly torch 2.13.0+cpu", page)
        page = Page(self.page(f"{self.path}?torch=nonsense&device=tpu")).text
        self.assertIn("Unknown: run it", page)

    def test_evidence_of_an_earlier_repro_is_no_verdict(self) -> None:
        run = self.finished_run()
        self.repro.digest = f"sha256:{'0' * 64}"
        self.repro.source += "\nprint()\n"  # every check executes it
        self.repro.save()
        store.refresh_staleness(self.record)
        html = self.page(f"{self.path}?torch={runs.SLUG}")
        self.assertNotIn("answer-fail", html)
        self.assertIn("with an earlier repro", html)
        shown = self.page(run.get_absolute_url())
        self.assertIn("No longer counts".lower(), shown)
        self.assertNotIn("answer-fail", shown)

    def test_evidence_is_listed_from_the_newest_build(self) -> None:
        for raw in ("2.10.0", "2.9.0"):
            runs.run_on(self.repro, raw)
        html = self.page(self.path)
        table = html[html.index('id="evidence"') :]
        self.assertLess(table.index("2.10.0-cpu"), table.index("2.9.0-cpu"))
        self.assertIn("<b>Evidence</b><span>2 builds</span>", html)

    def test_checks_by_build_name_a_further_repro(self) -> None:
        runs.run_on(self.repro, "2.10.0")
        runs.run_on(runs.make_repro(name="repro_own_loop"), "2.10.0")
        table = self.page(self.path).partition(">Checks by build<")[2]
        heads = re.findall(r'role="rowheader">(.*?)</th>', table, re.S)
        self.assertEqual(len(heads), len(set(heads)))
        self.assertIn("<small>own loop</small>", table)

    def test_a_workaround_that_differs_by_build_says_so(self) -> None:
        self.finished_run()
        body = runs.make_evidence(self.repro)
        body["build"].update(raw="2.9.0+cpu", slug="2.9.0-cpu")
        useless = {"nonfinite": 1, "grad": 1.0}
        for check in body["checks"]:
            if check["name"].startswith("workaround_"):
                check.update(outcome="bug", observations=useless)
        body["workarounds"] = dict.fromkeys(body["workarounds"], "does_not_help")
        store.add(runs.signed(body), origin="site")
        page = Page(self.page(self.path)).text
        self.assertIn("Helps on 1 of 2 builds", page)
        self.assertNotIn("Workaround does not help", page)

    def test_fixed_upstream_names_the_kind_of_the_fix(self) -> None:
        self.record.upstream = "fixed"
        self.record.fixes = [{"kind": "avoided_by_default", "package": "torch"}]
        saving.save(self.record)
        page = Page(self.page(self.path)).text
        self.assertIn("upstream: fixed", page)
        self.assertIn("avoided by default", page)

    def test_the_literal_symptom_stays_english(self) -> None:
        html = self.page("/zh/NAN-9001/sample/")
        self.assertIn('<pre class="lit" lang="en"', html)
        self.assertIn("loss: nan", html)

    def test_the_source_is_shown_escaped_with_its_trigger_tinted(self) -> None:
        self.repro.source += '\n# <i>&\nODD = "<b>" < "&amp;"\n'
        self.repro.save()
        html = self.page(self.path)
        code = html[html.index('id="source-1"') :].split("</code>")[0]
        lines = [line for line in code.split("\n") if 'class="hl"' in line]
        self.assertIn("def", lines[0])
        self.assertNotIn("<b>", code)
        self.assertNotIn("<i>", code)
        shown = unescape(re.sub(r"<[^>]+>", "", code.partition(">")[2]))
        self.assertEqual(shown.split(), self.repro.source.split())

    def test_a_wrong_slug_goes_to_the_right_one(self) -> None:
        for path in ("/en/NAN-9001/", "/en/NAN-9001/other/"):
            response = self.client.get(f"{path}?torch=2.6.0")
            self.assertRedirects(response, f"{self.path}?torch=2.6.0", 301)

    def test_drafts_have_no_page_and_withdrawn_records_say_why(self) -> None:
        Record.objects.update(publication="draft")
        self.page(self.path, 404)
        Record.objects.update(
            publication="withdrawn", withdrawn_because_en="It was <b>wrong</b>."
        )
        html = self.page(self.path)
        self.assertIn("It was &lt;b&gt;wrong&lt;/b&gt;.", html)

    def test_a_contradiction_is_shown(self) -> None:
        runs.run_on(self.repro, "2.10.0")
        self.assertIn(
            "Documented as not affected; we reproduce the bug on 2.10.0-cpu",
            Page(self.page(self.path)).text,
        )


class LookUpCase(PageTest):
    def paste(self, log: Any, status: int = 200, **fields: Any) -> str:
        response = self.client.post("/en/lookup/", {"log": log, **fields})
        self.assertEqual(response.status_code, status, response.content[:500])
        return response.content.decode()


LOST_GRAD = """\
/usr/lib/python3/dist-packages/torch/utils/checkpoint.py:87: UserWarning: None of the \
inputs have requires_grad=True. Gradients will be None
RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn
"""


class ShippedLookUpTest(LookUpCase):
    @classmethod
    def setUpTestData(cls) -> None:
        loaded.shipped()
        super().setUpTestData()

    def test_a_known_warning_names_its_record_and_says_why(self) -> None:
        log = f"step 3\n/usr/lib/torch/graph.py:825: {CAUGHT}, attempting to\n"
        html = self.paste(log, env="2.6.0a0+df5bbc09d1.nv24.12")
        page = Page(html).text
        self.assertIn("NAN-0001 explains line 2.", page)
        decision = re.search(r'<h1 class="decision">(.*?)</h1>', html)
        assert decision
        self.assertRegex(decision[1], r'<a href="[^"]*/en/NAN-0001/[^"]*torch=')
        self.assertIn("line 2 says “/usr/lib/torch/graph.py:825: UserWarning", page)
        self.assertIn("is listed in the record as affected", page)

    def test_nan_is_marked_where_a_sentence_ends_with_it(self) -> None:
        html = self.paste("{'loss': 0.0, 'grad_norm': nan}")
        self.assertIn('grad_norm is <i class="nan">nan</i>.', html)

    def test_who_trains_with_a_framework_gets_its_line_first(self) -> None:
        html = self.paste(LOST_GRAD, env="torch==2.13.0\ntransformers==4.57.6\n")
        line, _, rest = html.partition("What to do now with transformers")[2].partition(
            "In a training loop of your own"
        )
        self.assertIn("gradient_checkpointing_kwargs", line)
        self.assertNotIn("apply_use_reentrant_false", line)
        self.assertIn("apply_use_reentrant_false", rest)

    def test_words_find_records_as_the_front_page_promises(self) -> None:
        page = Page(self.paste("gumbel_softmax gives NaN now and then")).text
        self.assertIn("One candidate is worth a test: NAN-0035.", page)
        self.assertIn("says “gumbel_softmax gives NaN now and then”", page)


class LookUpPageTest(LookUpCase):
    def test_an_unknown_text_matches_nothing_and_says_so(self) -> None:
        page = Page(self.paste("KeyError: 'colour'")).text
        self.assertIn("No known cause explains this.", page)
        self.assertIn("First checks, whatever the cause", page)

    def test_what_was_pasted_is_shown_as_text(self) -> None:
        html = self.paste("<script>alert(1)</script> loss: nan\x00\u202e")
        self.assertNotIn("<script>alert", html)
        self.assertIn("&lt;script&gt;alert(1)", html)
        self.assertIn("\\x00\\x202e", html)

    def test_nothing_pasted_is_refused_as_the_api_does(self) -> None:
        for log in ("", " \r\n\t "):
            self.assertIn("Nothing was pasted", self.paste(log, 422))

    def test_bytes_are_no_server_error(self) -> None:
        response = self.client.post(
            "/en/lookup/",
            b"log=%ED%A0%80" + bytes(range(256)) * 40,
            content_type="application/x-www-form-urlencoded",
        )
        self.assertIn(response.status_code, (200, 422))

    def test_more_than_a_mebibyte_is_read_in_part(self) -> None:
        self.assertIn("over 1 MiB", self.paste("x" * (1024 * 1024 + 1), 200))

    def test_ten_megabytes_are_413(self) -> None:
        self.assertIn("too large for a form", self.paste("x" * 10_000_000, 413))

    def test_other_oversized_forms_are_413_too(self) -> None:
        with self.assertLogs("django.security.RequestDataTooBig"):
            response = self.client.post("/en/NAN-9001/runs/", {"x": "x" * 5_000_000})
        self.assertContains(response, "more than 1 MiB", status_code=413)

    def test_the_page_says_how_it_was_read_and_takes_a_correction(self) -> None:
        log = "import torch\nx = torch.zeros(3)\n\nloss: nan"
        html = self.paste(log)
        self.assertIn("Lines 1 to 2: code", Page(html).text)
        self.assertIn("Line 4: metrics", Page(html).text)
        self.assertIn('value="4-4=words"', html)
        html = self.paste(log, part=["1-2=log", "4-4=words", "9-9=poem", "x"])
        self.assertIn("Lines 1 to 2: log", Page(html).text)
        self.assertIn("Line 4: words", Page(html).text)
        self.assertIn('name="part" value="1-2=log"', html)

    def test_the_box_for_the_environment_keeps_line_ends(self) -> None:
        self.assertIn('<textarea class="in m env-in" id="env"', self.page("/en/"))

    def test_get_goes_to_the_box(self) -> None:
        self.assertRedirects(self.client.get("/en/lookup/"), "/en/")

    def test_no_cookie_is_needed(self) -> None:
        strict = Client(enforce_csrf_checks=True)
        self.assertEqual(strict.post("/en/lookup/", {"log": "x"}).status_code, 200)


class SearchPageTest(PageTest):
    def test_words_in_both_languages(self) -> None:
        for query in ("sample", "样例"):
            self.assertIn(
                "NAN-9001", self.page("/en/search/", query_params={"q": query})
            )

    def test_an_id_leads_to_its_record(self) -> None:
        for query in ("NAN-9001", "nan9001", " nan-9001 "):
            response = self.client.get("/en/search/", query_params={"q": query})
            self.assertRedirects(response, "/en/NAN-9001/sample/")

    def test_too_long_a_query_is_400(self) -> None:
        html = self.page("/en/search/", 400, query_params={"q": "x" * 401})
        self.assertIn("at most 400 characters", html)

    def test_odd_queries(self) -> None:
        for query in ("", "\x00", "%", "<b>", '"', "nan " * 90):
            self.page("/en/search/", query_params={"q": query})


class ListPageTest(PageTest):
    def test_facets_filter_and_count(self) -> None:
        runs.make_record("NAN-9002")
        html = self.page("/en/records/?component=sdpa")
        self.assertIn("1 of 2 match", html)
        self.assertNotIn("NAN-9002", html)
        self.assertIn("Nothing matches", self.page("/en/records/?symptom=lost_grad"))

    def test_a_build_says_of_which_repro_each_verdict_is(self) -> None:
        other = runs.make_repro(name="repro_other", record="NAN-9001")
        for repro in (self.repro, other):
            store.add(runs.make_evidence(repro), origin="site")
        text = Page(self.page(f"/en/builds/{runs.SLUG}/")).text
        self.assertIn("cpu · other ·", text)
        self.assertNotIn("cpu · repro ·", text)

    def test_a_build_answers_what_it_suffers_from_and_what_turned_on_it(self) -> None:
        other = runs.make_repro(name="repro_other", record="NAN-9001")
        model = runs.make_repro(record="NAN-9002")
        runs.run_on(self.repro, "2.4.0")
        runs.run_on(self.repro, "2.5.0", bug=False)
        runs.run_on(model, "2.5.0")
        Finding.objects.filter(record="NAN-9002").update(fidelity="mechanism_model")
        clean = Page(self.page("/en/builds/2.5.0-cpu/")).text
        self.assertIn("2.5.0-cpu ✔No bug seen 1 ◇Model only 1 Fixed and new", clean)
        self.assertIn("✔bug gone in 2.5.0-cpu cpu · 2.4.0-cpu → 2.5.0-cpu", clean)
        self.assertIn("Verdicts ✔No bug seen 1 NAN-9001", clean)
        oldest = Page(self.page("/en/builds/2.4.0-cpu/")).text
        self.assertNotIn("Fixed and new", oldest)
        # Where any repro shows the bug it is there, whatever another one shows.
        runs.run_on(other, "2.5.0")
        affected = Page(self.page("/en/builds/2.5.0-cpu/")).text
        self.assertIn("2.5.0-cpu ✖Bug 1 ◇Model only 1 Fixed and new", affected)
        self.assertIn("Verdicts ✖NaN gradient 1 NAN-9001", affected)
        self.assertNotIn("✔No bug seen 1", affected)

    def test_claims_by_state(self) -> None:
        self.finished_run()
        html = self.page("/en/claims/?state=verified")
        self.assertIn("1 of 2 shown", html)
        self.assertIn("Turning it off helps.", html)
        self.assertNotIn("Nobody ran this.", html)

    def test_a_kind_that_says_nothing_is_not_shown(self) -> None:
        self.record.claims.filter(cid="c1").update(kind="cause")
        self.record.claims.filter(cid="c2").update(kind="other")
        text = Page(self.page("/en/claims/")).text
        self.assertIn("cause · ", text)
        self.assertNotIn("other · ", text)

    def test_claims_that_nothing_contradicts_are_folded_by_record(self) -> None:
        self.finished_run()

        def folded(query: str = "") -> str:
            html = self.page(f"/en/claims/{query}")
            found = re.findall(r'<details class="unfold.*?</details>', html, re.S)
            return Page("".join(found)).text

        self.assertIn("2 claims", folded())
        self.assertIn("Verified 1", folded())
        self.assertIn("Documented only 1", folded())
        self.assertIn("Turning it off helps.", folded())
        # What was asked for stands open.
        self.assertEqual(folded("?state=verified"), "")
        self.assertIn('/#claims"', self.page("/en/claims/"))
        self.record.claims.filter(cid="c1").update(expects="bug")
        self.assertNotIn("Turning it off helps.", folded())
        self.assertIn("1 more claim", folded())
        # A record of which every claim is refuted has no other claims to lead to.
        self.assertIn('/#refuted"', self.page("/en/claims/"))

    def test_the_matrix_marks_flips_and_infers_between_equal_neighbours(self) -> None:
        for raw, bug in [("2.4.0", True), ("2.6.0", True), ("2.7.0", False)]:
            runs.run_on(self.repro, raw, bug=bug)
        runs.install("/nowhere/2.5", "2.5.0-cpu")
        self.build.__class__.objects.filter(slug="2.5.0-cpu").update(raw="2.5.0+cpu")
        page = Page(self.page("/en/matrix/")).text
        self.assertIn("2.4.0 ✖ Bug 2.4.0: Bug (1/1)", page)
        self.assertIn("2.5.0 ⋯ likely affected", page)
        self.assertIn("✔ No bug seen 2.7.0: No bug seen (0/1) bug gone", page)
        self.assertIn("NAN-9001", self.page("/en/matrix/?show=flips"))
        html = self.page("/en/")
        self.assertIn("bug gone in 2.7.0 ", Page(html).text)
        shown = "/en/matrix/?show=flips&amp;build=2.6.0-cpu&amp;build=2.7.0-cpu"
        self.assertIn(shown, html)
        self.assertIn("NAN-9001", self.page(shown.replace("&amp;", "&")))

    def test_a_gpu_repro_on_a_processor_fills_no_row(self) -> None:
        body = runs.make_evidence(self.repro)
        store.add(body, origin="site")
        self.record.findings.update(verdict="not_applicable")
        self.record.repros.update(device="cuda")
        page = Page(self.page("/en/matrix/")).text
        self.assertIn("NAN-9001 · cuda", page)
        self.assertNotIn("NAN-9001 · cpu", page)

    def test_a_pre_release_is_not_shown_as_a_release(self) -> None:
        labels = order.column_labels(
            {"1.13.1-debian": "1.13.0a0", "2.6.0-cu124": "2.6.0+cu124", "odd": "odd"}
        )
        expected = {"1.13.1-debian": "1.13.1-debian", "2.6.0-cu124": "2.6.0"}
        self.assertEqual(labels, {**expected, "odd": "odd"})

    def test_the_list_opens_on_the_build_with_most_results(self) -> None:
        second = runs.make_repro(name="repro", record="NAN-9002")
        runs.run_on(self.repro, "2.5.0")
        runs.run_on(second, "2.5.0")
        runs.run_on(self.repro, "2.9.0")
        self.assertIn("<option selected>2.5.0-cpu", self.page("/en/records/"))

    def test_builds_and_workers_tell_their_state(self) -> None:
        self.assertIn("installed, no worker online", self.page("/en/builds/"))
        runs.make_worker(tier="D")
        self.assertRegex(self.page("/en/builds/"), r">\s*ready\s*<")
        self.assertIn("Tier D", self.page("/en/workers/"))
        self.assertIn("Nothing has been run on this build", self.page(self.build_path))

    @property
    def build_path(self) -> str:
        return f"/en/builds/{runs.SLUG}/"


class RunPageTest(PageTest):
    def start(self, client: Client | None = None, **fields: Any) -> Any:
        data = {"repro": "repro", "build": runs.SLUG, "trials": "2", **fields}
        return (client or self.client).post("/en/NAN-9001/runs/", data)

    def test_a_click_queues_a_run_and_shows_it(self) -> None:
        response = self.start()
        run = Run.objects.get()
        self.assertRedirects(response, f"/en/runs/{run.id}/")
        self.assertEqual((run.build_id, run.device, run.trials), (runs.SLUG, "cpu", 2))
        html = self.page(f"/en/runs/{run.id}/")
        self.assertIn("No verdict yet", html)
        self.assertIn(
            '<noscript><meta http-equiv="refresh" content="5"></noscript>', html
        )
        self.assertIn(f'hx-get="/en/runs/{run.id}/status/?after=0"', html)

    def test_an_equal_active_run_is_joined_and_a_fresh_result_is_shown(self) -> None:
        self.start()
        run = Run.objects.get()
        self.assertRedirects(self.start(), f"/en/runs/{run.id}/")
        found = store.add(runs.make_evidence(self.repro), origin="site")
        Run.objects.update(
            state="finished",
            verdict=found.verdict,
            hits=1,
            evidence=found,
            finished_at=timezone.now(),
        )
        response = self.start(trials="1")
        self.assertRedirects(response, f"/en/runs/{run.id}/?cached=1")
        self.assertIn("An identical run finished", self.page(response.url))
        self.start(again="1")
        self.assertEqual(Run.objects.count(), 2)

    def test_without_the_token_nothing_is_started(self) -> None:
        strict = Client(enforce_csrf_checks=True)
        response = self.start(strict)
        self.assertContains(response, "The form was not accepted", status_code=403)
        self.assertEqual(strict.get("/en/NAN-9001/runs/").status_code, 302)
        self.assertEqual(Run.objects.count(), 0)

    def test_the_form_of_the_page_carries_the_token(self) -> None:
        strict = Client(enforce_csrf_checks=True)
        html = strict.get("/en/NAN-9001/sample/").content.decode()
        token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', html)
        assert token
        response = self.start(strict, csrfmiddlewaretoken=token[1])
        self.assertEqual(response.status_code, 302)

    def test_bad_fields_are_refused_with_their_name(self) -> None:
        for field, value in [
            ("build", "no-such"),
            ("repro", "other"),
            ("trials", "0"),
            ("trials", "999"),
            ("trials", "many"),
        ]:
            response = self.start(**{field: value})
            self.assertContains(response, f"{field}:", status_code=400)
        chinese = self.client.post("/zh/NAN-9001/runs/", {"repro": "repro"})
        self.assertContains(chinese, "torch 构建：", status_code=400)
        self.assertEqual(Run.objects.count(), 0)

    def test_a_build_that_is_not_installed_is_refused_with_advice(self) -> None:
        runs.make_build("2.0.0-cpu", "2.0.0+cpu")
        response = self.start(build="2.0.0-cpu")
        self.assertContains(response, "builds add", status_code=409)

    def test_strangers_are_refused_where_the_site_says_so(self) -> None:
        with self.settings(RUNS_ANONYMOUS=False):
            self.assertContains(self.start(), "Log in", status_code=403)
            self.assertIn("Log in", self.page("/en/NAN-9001/sample/"))

    def test_the_fragment_sends_only_new_lines_and_stops_when_over(self) -> None:
        run = runs.make_run(self.repro, state="running", phase="trigger 1/1", attempt=1)
        runs.write_log(run, "first", "<b>second</b> loss nan")
        html = self.page(f"/en/runs/{run.id}/status/?after=1")
        self.assertNotIn("first", html)
        self.assertIn("&lt;b&gt;second&lt;/b&gt;", html)
        self.assertIn('<i class="nan">nan</i>', html)
        self.assertIn("status/?after=2", html)
        self.assertRegex(html, r'aria-current="step">\s*<b>trigger</b>')
        self.assertIn('<p class="lead">A sample</p>', html)
        for odd in ("-1", "x", "9" * 50, "٣"):
            self.page(f"/en/runs/{run.id}/status/?after={odd}")
        found = store.add(runs.make_evidence(self.repro), origin="site")
        Run.objects.update(
            state="finished", verdict=found.verdict, evidence=found, lease_until=None
        )
        response = self.client.get(f"/en/runs/{run.id}/status/?after=2")
        self.assertEqual(response["HX-Retarget"], "#run")
        self.assertNotContains(response, "hx-get")
        # A screen reader is told as well.
        self.assertContains(response, 'data-say="✖ FAIL · bug reproduced')

    def test_a_finished_run_shows_phases_observations_and_environment(self) -> None:
        run = self.finished_run()
        page = Page(self.page(f"/en/runs/{run.id}/")).text
        self.assertIn("The bug happened in 1 run on torch 9.9.0+cpu", page)
        self.assertIn("nonfinite > 0", page)
        self.assertIn("Tier D: Limits only", page)
        self.assertIn("detectorfires", page.replace(" ", ""))
        self.assertNotIn("No verdict yet", page)

    def test_a_run_without_evidence_says_why(self) -> None:
        run = runs.make_run(
            self.repro,
            state="finished",
            verdict="error",
            reason="lost",
            finished_at=timezone.now(),
        )
        page = Page(self.page(f"/en/runs/{run.id}/")).text
        self.assertIn("ERROR · no verdict", page)
        self.assertIn("the worker stopped responding", page)

    def test_cancel(self) -> None:
        run = runs.make_run(self.repro, requester=runs.CLIENT)
        response = self.client.post(f"/en/runs/{run.id}/cancel/")
        self.assertRedirects(response, f"/en/runs/{run.id}/")
        cancelled = self.page(f"/en/runs/{run.id}/")
        self.assertIn("Cancelled", cancelled)
        self.assertIn('<p class="lead">A sample</p>', cancelled)
        self.assertEqual(self.client.get(f"/en/runs/{run.id}/cancel/").status_code, 405)
        self.assertFalse(jobs.cancel(Run.objects.get()))

    def test_evidence_has_its_own_page(self) -> None:
        run = self.finished_run(bug=False)
        assert run.evidence
        page = Page(self.page(run.evidence.get_absolute_url())).text
        self.assertIn("PASS · bug not seen (0/1)", page)
        self.assertIn(run.evidence.digest, page)
        checks = page.partition("Checks in the order")[2].partition("Environment")[0]
        self.assertIn("turn off ✔No bug seen", checks)
        self.assertNotIn("workaround_", checks)
