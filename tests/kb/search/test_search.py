"""Search by words: tokens, queries, what is found first, the page."""

import json
import re
from typing import Any
from unittest import mock

from django.db import connection
from django.test import SimpleTestCase
from django.test.utils import CaptureQueriesContext
from django.utils.html import strip_tags

from kb.choices import LANGS, SECTIONS
from kb.findings import standings
from kb.models import Record, Repro
from kb.publishing import saving
from kb.search.ranking import filters
from kb.search.ranking.filters import verdicts_on
from kb.search.ranking.listing import listing
from kb.search.ranking.snippets import snippet
from kb.search.reading.glossary import SYNONYMS, phrase_of, synonyms_of
from kb.search.reading.query import MAX_TERMS, read_query, weighted_words
from kb.search.reading.tokens import analyse, analyse_query, fold, singular
from kb.versions.order import tested_builds
from tests.support.findings import stored
from tests.support.records import FirstRecords
from tests.support.words import find


def ids(query: str, lang: str = "en") -> list[str]:
    return [hit.record.id for hit in find(query, lang)]


def everything(record: Record) -> str:
    """All that a reader can see of a record, for comparison with a plain scan."""
    columns = [
        record.text(name, lang)
        for name in ("title", "summary", *SECTIONS)
        for lang in LANGS
    ]
    return "\n".join(columns)


def lost_gradients() -> list[str]:
    rows = Record.objects.filter(symptom_class="lost_grad").order_by("id")
    return list(rows.values_list("id", flat=True))


class TokenTests(SimpleTestCase):
    def test_chinese_in_pairs_and_the_last_character(self) -> None:
        self.assertEqual(analyse("梯度溢出"), ["梯度", "度溢", "溢出", "出"])
        self.assertEqual(analyse_query("梯度溢出"), ["梯度", "度溢", "溢出"])
        self.assertEqual(analyse_query("步"), ["步"])
        self.assertEqual(analyse_query("檢查點"), analyse_query("检查点"))

    def test_traditional_and_full_width_are_folded(self) -> None:
        pairs = {
            "梯度檢查點": "梯度检查点",
            "損失變為非數": "损失变为非数",
            "顯存不足，編譯錯誤": "显存不足,编译错误",
            "ＮａＮ：ＢＦ１６！": "NaN:BF16!",  # noqa: RUF001
            "網路與記憶體": "网路与记忆体",
            "㈱ ﬁne": "(株) fine",
            "\uff21\uff44am": "Adam",
        }
        for written, simple in pairs.items():
            self.assertEqual(fold(written), simple)

    def test_identifiers_whole_and_in_parts(self) -> None:
        expected = {
            "grad_output.strides": "grad_output grad output strides",
            "SqrtBackward0": "sqrt backward",
            "pytorch/pytorch#138581": "pytorch 138581",
            "scaled_dot_product_attention": "scaled dot product attention",
            "CUBLAS_WORKSPACE_CONFIG": "cublas workspace config",
            "hiyouga/LlamaFactory#7388": "7388",
        }
        for written, parts in expected.items():
            found = analyse(written)
            self.assertIn(written.lower(), found)
            self.assertLessEqual(set(parts.split()), set(found), written)
        self.assertEqual(
            analyse_query("grad_output.strides()"),
            ["grad_output.strides", "grad_output", "grad", "output", "strides"],
        )

    def test_a_plural_is_found_by_its_singular_and_keeps_itself(self) -> None:
        self.assertEqual(analyse("gradients"), ["gradients", "gradient"])
        self.assertEqual(analyse("torch.ops"), ["torch.ops", "torch", "ops"])
        plurals = {
            "losses": "loss",
            "boxes": "box",
            "batches": "batch",
            "entries": "entry",
            "loss": "loss",
            "status": "status",
            "ops": "ops",
        }
        for word, single in plurals.items():
            self.assertEqual(singular(word), single)

    def test_no_token_has_a_space_or_a_quote_in_it(self) -> None:
        text = "a\u3000b\u00a0c\u2028d'e\"f\\g\x00h \ud800 İstanbul ς 鿎鿎 e\u0301 ½ ①"
        cut = " " + "x" * 119 + "-y " + "-" * 300 + "z " + "x" * 500 + " a..b __ ._.a"
        for token in analyse(text + cut):
            self.assertRegex(token, r"^[^\s'\"\\\x00]{1,120}$")


class QueryTests(SimpleTestCase):
    def test_words_of_asking_are_dropped_unless_they_are_all(self) -> None:
        terms = [term.tokens[0] for term in read_query("为什么训练的梯度是nan").terms]
        self.assertEqual(terms, ["训练", "梯度", "nan"])
        for short in ("问题", "出现", "是否", "了解"):
            self.assertEqual([t.tokens for t in read_query(short).terms], [(short,)])

    def test_pairs_across_two_known_words_weigh_less(self) -> None:
        weights = {t.tokens[0]: t.weight for t in read_query("梯度溢出").terms}
        self.assertEqual(weights["梯度"], 1.0)
        self.assertLess(weights["度溢"], 1.0)

    def test_one_character_is_the_beginning_of_a_token(self) -> None:
        self.assertEqual(read_query("步").terms[0].tokens, ("步*",))

    def test_other_words_of_a_phrase(self) -> None:
        (term,) = read_query("gradients").terms
        self.assertEqual(term.tokens, ("gradients", "gradient"))
        self.assertIn(("梯度",), term.synonyms)
        clipped = read_query("gradient clipping").terms
        for term in clipped:
            self.assertIn(("梯度", "度裁", "裁剪"), term.synonyms)
        (zh, *_rest) = read_query("显存").terms
        self.assertIn(("gpu", "memory"), zh.synonyms)

    def test_the_glossary_goes_both_ways(self) -> None:
        languages = [bool(re.search("[\u4e00-\u9fff]", words[0])) for words in SYNONYMS]
        self.assertGreaterEqual(sum(languages), 60)
        for phrase, others in SYNONYMS.items():
            for other in others:
                self.assertIn(phrase, SYNONYMS[other])
        self.assertEqual(synonyms_of(phrase_of("unheard of")), ())

    def test_a_word_of_english_grammar_is_a_name_in_chinese(self) -> None:
        self.assertIn("op:where", weighted_words("where 反向传播 nan"))
        self.assertNotIn("op:where", weighted_words("nan where a row is masked"))

    def test_no_more_terms_than_can_be_asked(self) -> None:
        text = " ".join(f"w{i}" for i in range(300))
        self.assertEqual(len(read_query(text).terms), MAX_TERMS)
        self.assertEqual(read_query("").terms, ())
        self.assertEqual(read_query("the of and ... !!").terms, ())


class FindTests(FirstRecords):
    def test_a_setting_finds_first_the_records_that_name_it(self) -> None:
        for lang in LANGS:
            hits = find("TORCHINDUCTOR_EMULATE_PRECISION_CASTS", lang)
            first = {hit.record.id for hit in hits[:2]}
            self.assertEqual(first, {"NAN-0003", "NAN-0007"}, lang)

    def test_both_languages_find_the_same_record(self) -> None:
        rows = {
            "NAN-0001": [
                "cudnn stride warning",
                "步幅警告",
                "grad_output.strides",
                "跨步 警告 cuDNN",
            ],
            "NAN-0002": [
                "lost gradient",
                "lost gradients",
                "梯度丢失",
                "use_reentrant",
                "檢查點 梯度",
                "LoRA 没有梯度 检查点",
            ],
            "NAN-0003": ["rowwise fp8", "torchtitan"],
            "NAN-0005": ["ChunkGSA", "GSA"],
            "NAN-0007": ["amax"],
        }
        for record, queries in rows.items():
            for query in queries:
                for lang in LANGS:
                    with self.subTest(query=query, lang=lang):
                        self.assertEqual(ids(query, lang)[:1], [record])

    def test_each_title_finds_its_record(self) -> None:
        for record in Record.objects.all():
            for lang in LANGS:
                with self.subTest(record=record.id, lang=lang):
                    title = record.text("title", lang)
                    self.assertEqual(ids(title)[0], record.id)

    def test_upstream_numbers(self) -> None:
        for query in ("pytorch/pytorch#138581", "#138581", "138581", "7388"):
            with self.subTest(query):
                self.assertEqual(ids(query), ["NAN-0001"])

    def test_chinese_misses_nothing_that_a_scan_finds(self) -> None:
        texts = {row.id: fold(everything(row)) for row in Record.objects.visible()}
        words = set(re.findall("[\u4e00-\u9fff]{2}", "\n".join(texts.values())))
        characters = {word[0] for word in words}
        self.assertGreater(len(words), 300)
        for word in [*sorted(words), *sorted(characters)]:
            scanned = {pk for pk, text in texts.items() if word in text}
            found = [pk for pk, _score in listing(word, {}, {}, "id").found]
            self.assertLessEqual(scanned, set(found), word)

    def test_a_pair_is_found_only_where_it_stands(self) -> None:
        Record.objects.filter(pk="NAN-0004").update(title_zh="甲乙丙")
        saving.save(Record.objects.get(pk="NAN-0004"))
        self.assertEqual(ids("乙丙"), ["NAN-0004"])
        self.assertEqual(ids("丙乙"), [])

    def test_the_beginning_of_a_word(self) -> None:
        self.assertEqual(ids("torchtit")[:1], ["NAN-0003"])
        self.assertEqual(ids("zz"), [])

    def test_an_english_word_finds_what_says_it_in_chinese_only(self) -> None:
        record = Record.objects.get(pk="NAN-0004")
        record.title_zh = "学习率预热"
        saving.save(record)
        self.assertEqual(ids("warmup")[:1], ["NAN-0004"])

    def test_nothing_found(self) -> None:
        queries = ("", "   ", "the of and", "kubernetes", "<script>", "%", "\x00")
        for query in (*queries, "zebra giraffe nan", "\ud800", "*", '"'):
            with self.subTest(query):
                self.assertEqual(ids(query), [])

    def test_a_word_of_no_record_does_not_hide_the_others(self) -> None:
        self.assertEqual(ids("kubernetes checkpoint use_reentrant")[:1], ["NAN-0002"])

    def test_operators_are_literal(self) -> None:
        plain = ids("strides")
        for query in (
            "strides*",
            '"strides"',
            "strides'",
            "^strides",
            "+strides",
            "title:strides",
            "(strides)",
            "strides\\",
            "{strides}",
            "strides:*",
            "strides & !nan",
            "strides OR",
        ):
            with self.subTest(query):
                self.assertEqual(ids(query)[:1], plain[:1])
        for query in ("NEAR(strides nan)", "'", "a:b' | 'c", "strid%", "_trides", "--"):
            ids(query)

    def test_a_change_is_found_at_once(self) -> None:
        self.assertEqual(ids("zebra"), [])
        record = Record.objects.get(id="NAN-0004")
        record.title_en = "Zebra crossing"
        saving.save(record)
        self.assertEqual(ids("zebra"), ["NAN-0004"])

    def test_the_whole_query_word_for_word_comes_first(self) -> None:
        apart, together = Record.objects.filter(pk__in=["NAN-0004", "NAN-0005"])
        apart.fix_en = "quokka alpha beta wombat wombat quokka"
        together.fix_en = "quokka wombat"
        saving.save(apart)
        saving.save(together)
        self.assertEqual(ids("quokka wombat"), [together.pk, apart.pk])


class SnippetTests(FirstRecords):
    def test_every_word_is_marked(self) -> None:
        zh = str(find("步幅 警告", "zh")[0].snippet)
        self.assertIn("<mark>步幅</mark>", zh)
        literal = str(find("grad_output.strides", "en")[0].snippet)
        self.assertIn("<mark>grad_output.strides</mark>", literal)
        self.assertGreaterEqual(
            str(find("reentrant checkpoint", "en")[0].snippet).count("<mark>"), 2
        )

    def test_an_english_question_is_not_answered_in_chinese(self) -> None:
        record = Record(summary_en="A loss.", root_cause_zh="由检查点引起")
        for asked, said in (("checkpoint", "A loss."), ("检查点", "由检查点引起")):
            found = snippet(record, read_query(asked), "en")
            self.assertEqual(strip_tags(found), said)

    def test_no_name_of_a_metric_is_quoted(self) -> None:
        metric = {"kind": "facet", "text": "loss_nan"}
        record = Record(summary_zh="步长为零", signatures=[metric])
        said = strip_tags(snippet(record, read_query("nan loss"), "zh"))
        self.assertEqual(said, "步长为零")

    def test_text_is_escaped(self) -> None:
        record = Record.objects.get(id="NAN-0001")
        record.summary_en = "a <b>zebra</b> & more"
        saving.save(record)
        (hit,) = find("zebra", "en")
        self.assertEqual(
            str(hit.snippet), "a &lt;b&gt;<mark>zebra</mark>&lt;/b&gt; &amp; more"
        )

    def shown(self, text: str, query: str) -> str:
        record = Record(summary_en=text)
        return str(snippet(record, read_query(query), "en"))

    def test_marks_stand_where_the_folded_text_differs_in_length(self) -> None:
        self.assertEqual(self.shown("ﬁİ 檢查點 x", "检查"), "ﬁİ <mark>檢查</mark>點 x")
        self.assertEqual(self.shown("① ＮａＮ!", "nan"), "① <mark>ＮａＮ</mark>!")  # noqa: RUF001

    def test_pairs_that_overlap_are_one_mark(self) -> None:
        self.assertEqual(
            self.shown("甲梯度溢出乙", "梯度溢出"), "甲<mark>梯度溢出</mark>乙"
        )

    def test_a_long_text_is_cut_around_the_words(self) -> None:
        text = "a " * 500 + "zebra" + " b" * 500
        shown = self.shown(text, "zebra")
        self.assertIn("<mark>zebra</mark>", shown)
        self.assertLess(len(shown), 300)
        self.assertEqual((shown[0], shown[-1]), ("…", "…"))

    def test_a_text_is_cut_between_words(self) -> None:
        shown = self.shown("alpha " * 99 + "zebra" + " omega" * 99, "zebra")
        words = set(strip_tags(shown).strip("…").split())
        self.assertEqual(words, {"alpha", "zebra", "omega"})

    def test_markdown_reads_as_text_and_the_own_language_comes_first(self) -> None:
        record = Record(
            summary_en="nothing",
            symptom_zh="zebra okapi",
            workaround_en="### turn_off\n\n```python\nzebra(**kwargs)\n```\n\n"
            "**It** `is`.",
        )
        shown = str(snippet(record, read_query("zebra okapi"), "en"))
        self.assertEqual(shown, "turn_off <mark>zebra</mark>(**kwargs) It is.")
        record = Record(summary_zh="无", symptom_en="an okapi")
        self.assertIn(">okapi<", str(snippet(record, read_query("okapi"), "zh")))

    def test_a_query_is_no_pattern(self) -> None:
        self.assertEqual(self.shown("aaa", "(a+)+$ [ ."), "aaa")
        hostile = "(((((" * 70
        self.assertEqual(self.shown("aaa", hostile), "aaa")


class FilterTests(FirstRecords):
    def found(self, query: str = "", **chosen: list[str]) -> list[str]:
        verdicts = verdicts_on("2.13.0-cpu")
        return [pk for pk, _score in listing(query, chosen, verdicts, "id").found]

    def test_within_a_facet_any_across_facets_all(self) -> None:
        every = Record.objects.all()
        lost = [row.pk for row in every if row.symptom_class == "lost_grad"]
        self.assertEqual(self.found(symptom=["lost_grad"]), lost)
        both = [row.pk for row in every if {"cudnn", "fla"} & {*row.components}]
        self.assertEqual(self.found(component=["cudnn", "fla"]), both)
        self.assertEqual(self.found(symptom=["lost_grad"], component=["cudnn"]), [])
        self.assertEqual(self.found(component=["no such thing"]), [])

    def test_verdicts_come_from_fresh_findings_of_the_chosen_build(self) -> None:
        stored("NAN-0002")
        stored("NAN-0001", verdict="not_applicable", outcome="not_applicable")
        stored("NAN-0003", fidelity="mechanism_model")
        stored("NAN-0004", stale=True)
        stored("NAN-0005", build="2.6.0-cpu")
        verdicts = verdicts_on("2.13.0-cpu")
        self.assertEqual(
            verdicts,
            {
                "NAN-0001": "not_applicable",
                "NAN-0002": "bug_present",
                "NAN-0003": "model",
            },
        )
        self.assertEqual(self.found(verdict=["bug_present"]), ["NAN-0002"])
        every = Record.objects.order_by("id").values_list("id", flat=True)
        self.assertEqual(
            self.found(verdict=["untested"]), [pk for pk in every if pk not in verdicts]
        )

    def test_the_bug_itself_outweighs_a_newer_model(self) -> None:
        stored("NAN-0002", verdict="bug_absent")
        stored("NAN-0002", repro="repro_model", fidelity="mechanism_model")
        self.assertEqual(verdicts_on("2.13.0-cpu"), {"NAN-0002": "bug_absent"})

    def test_a_workaround_that_failed_anywhere_is_not_verified(self) -> None:
        name = {"check_name": "workaround_use_reentrant_false"}
        stored("NAN-0002", **name, outcome="clean")
        self.assertEqual(self.found(workaround=["verified"]), ["NAN-0002"])
        stored("NAN-0002", **name, outcome="bug", build="2.6.0-cpu")
        self.assertEqual(self.found(workaround=["verified"]), [])

    def test_devices_are_those_of_the_bug_itself(self) -> None:
        Repro.objects.all().delete()
        for record, fidelity, device in (
            ("NAN-0001", "real_kernel", "cuda"),
            ("NAN-0006", "mechanism_model", "cpu"),
        ):
            Repro.objects.create(
                record_id=record, name="r", fidelity=fidelity, device=device
            )
        standings.refresh_all()
        self.assertEqual(self.found(device=["cpu"]), [])
        self.assertEqual(self.found(device=["cuda"]), ["NAN-0001"])

    def test_counts_are_what_a_choice_would_give(self) -> None:
        stored("NAN-0002")
        chosen = {"symptom": ["nan_grad"], "component": ["sdpa"]}
        verdicts = verdicts_on("2.13.0-cpu")
        found = listing("", chosen, verdicts, "id")
        checked = 0
        for name, every in listing("", {}, verdicts, "id").counts.items():
            for value in every:
                one = self.found(**(chosen | {name: [value]}))
                self.assertEqual(len(one), found.counts[name][value], (name, value))
                checked += len(one) > 0
        self.assertGreater(checked, 5)

    def test_orders(self) -> None:
        saving.save(Record.objects.get(pk="NAN-0003"))
        by_id = [pk for pk, _ in listing("nan", {}, {}, "id").found]
        self.assertEqual(by_id, sorted(by_id))
        self.assertEqual(listing("nan", {}, {}, "newest").found[0][0], "NAN-0003")
        scores = [score for _, score in listing("nan", {}, {}, "relevance").found]
        self.assertEqual(scores, sorted(scores, reverse=True))

    def test_builds_oldest_first_and_the_one_with_most_records(self) -> None:
        stored("NAN-0001", build="2.6.0-cpu", build_raw="2.6.0+cpu")
        stored("NAN-0002", build="2.6.0-cpu", build_raw="2.6.0+cpu")
        stored("NAN-0002")
        builds = tested_builds()
        self.assertEqual([row.slug for row in builds], ["2.6.0-cpu", "2.13.0-cpu"])
        self.assertEqual(filters.most_tested(builds), "2.6.0-cpu")
        self.assertEqual(filters.most_tested([]), "")


class PageTests(FirstRecords):
    def page(self, lang: str = "en", **parameters: Any) -> str:
        response = self.client.get(f"/{lang}/search/", query_params=parameters)
        self.assertEqual(response.status_code, 200)
        return response.content.decode()

    def shown(self, html: str) -> list[str]:
        return re.findall(r'<span class="id">(NAN-\d{4})</span>', html)

    def test_a_search_is_all_in_its_address(self) -> None:
        stored("NAN-0002")
        html = self.page(
            q="checkpoint",
            symptom="lost_grad",
            build="2.13.0-cpu",
            sort="id",
            verdict=["bug_present", "bug_absent"],
        )
        self.assertEqual(self.shown(html), ["NAN-0002"])
        self.assertIn('name="q" value="checkpoint"', html)
        self.assertRegex(html, r'value="lost_grad"\s+checked')
        self.assertRegex(html, r'value="bug_absent"\s+checked')
        self.assertIn('<option value="id" selected>', html)
        self.assertIn("<mark>checkpoint</mark>", html)

    def test_pages_keep_the_search(self) -> None:
        with mock.patch("kb.pages.search.PER_PAGE", 2):
            first = self.page(q="nan", sort="id")
            self.assertEqual(len(self.shown(first)), 2)
            (address,) = re.findall(r'rel="next" href="([^"]+)"', first)
            self.assertIn("q=nan", address)
            self.assertIn("sort=id", address)
            second = self.page(q="nan", sort="id", page="2")
            self.assertFalse(set(self.shown(first)) & set(self.shown(second)))
            last = self.page(q="nan", sort="id", page="999999999999")
            self.assertNotIn('rel="next"', last)
            for odd in ("0", "-1", "x", "²", "1e9"):
                page = self.page(q="nan", sort="id", page=odd)
                self.assertEqual(self.shown(page), self.shown(first))

    def test_filters_alone_are_a_search(self) -> None:
        self.assertEqual(self.shown(self.page(symptom="lost_grad")), lost_gradients())
        self.assertEqual(self.shown(self.page()), [])

    def test_nothing_found_says_what_to_try(self) -> None:
        html = self.page(q="kubernetes")
        self.assertIn('href="/en/"', html)
        self.assertIn("/en/records/", html)
        narrowed = self.page(q="checkpoint", component="no-such")
        self.assertIn("Nothing matches this filter.", narrowed)
        self.assertIn('href="?q=checkpoint"', narrowed)

    def test_a_number_of_no_record_is_no_search_for_nan(self) -> None:
        for query in ("NAN-9999", "nan9999"):
            html = self.page(q=query)
            self.assertEqual(self.shown(html), [])
            self.assertIn("No record has these words", html)

    def test_words_of_no_record_are_named(self) -> None:
        html = self.page(q="kubernetes checkpoint use_reentrant")
        self.assertIn("No record contains kubernetes.", html)

    def test_what_is_typed_is_text(self) -> None:
        html = self.page(q="<b>nan</b>", component="<i>", build="<u>")
        for raw in ("<b>nan", "<i>", "<u>"):
            self.assertNotIn(raw, html)

    def test_chinese(self) -> None:
        html = self.page("zh", q="梯度丢失")
        self.assertEqual(self.shown(html)[0], "NAN-0002")
        self.assertIn("<mark>", html)

    def test_a_withdrawn_record_is_not_listed(self) -> None:
        Record.objects.filter(pk="NAN-0002").update(publication="withdrawn")
        self.assertNotIn("NAN-0002", self.shown(self.page(q="use_reentrant")))

    def test_queries_do_not_grow_with_hits(self) -> None:
        record = Record.objects.get(pk="NAN-0004")
        record.fix_en = "quokka"
        saving.save(record)
        with CaptureQueriesContext(connection) as one:
            self.assertEqual(self.shown(self.page(q="quokka")), ["NAN-0004"])
        with CaptureQueriesContext(connection) as many:
            self.assertGreater(len(self.shown(self.page(q="nan"))), 6)
        # At most what the glossary adds: another posting list or two.
        self.assertLess(len(many), len(one) + 6)


class ApiTests(FirstRecords):
    def records(self, status: int = 200, **parameters: Any) -> Any:
        response = self.client.get("/api/v1/records", query_params=parameters)
        self.assertEqual(response.status_code, status, response.content)
        return json.loads(response.content)

    def ids(self, **parameters: Any) -> list[str]:
        return [item["id"] for item in self.records(**parameters)["items"]]

    def test_the_same_search(self) -> None:
        for query in ("梯度丢失", "cudnn stride", "nan"):
            self.assertEqual(self.ids(q=query), ids(query))
        self.assertEqual(self.ids(q="kubernetes"), [])

    def test_pages_in_the_same_order(self) -> None:
        whole = self.ids(q="nan")
        first = self.records(q="nan", limit="2")
        seen = [item["id"] for item in first["items"]]
        following = first["next"]
        while following:
            body = json.loads(self.client.get(following).content)
            seen += [item["id"] for item in body["items"]]
            following = body["next"]
        self.assertEqual(seen, whole)

    def test_filters(self) -> None:
        stored("NAN-0002")
        self.assertEqual(
            sorted(self.ids(symptom_class="lost_grad", q="gradient")), lost_gradients()
        )
        self.assertEqual(
            self.ids(build="2.13.0-cpu", verdict="bug_present"), ["NAN-0002"]
        )
        package = self.ids(package="flash-linear-attention")
        self.assertEqual(
            package,
            [
                row.pk
                for row in Record.objects.order_by("id")
                if "flash-linear-attention" in [a["package"] for a in row.affected]
            ],
        )

    def test_wrong_parameters_are_problems(self) -> None:
        self.records(400, q="x" * 401)
        self.records(400, q="nan", sort="best")
        self.records(400, verdict="green")
        self.records(404, q="nan", cursor="%%%")
        self.records(400, query="nan")
