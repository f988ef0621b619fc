"""Symptoms of many causes, and the causes that the facts of a paste speak for."""

from __future__ import annotations

from django.test import TestCase, tag
from django.utils.translation import override

from kb.lookup import symptoms
from kb.lookup.answer import look_up
from kb.models import Record, Symptom
from tests.support import loaded

LOSS, SAMPLING = "loss-zero-grad-norm-nan", "probability-tensor-inf-nan"
LINE = "{'loss': 0.0, 'grad_norm': nan, 'learning_rate': 4e-05, 'epoch': 0.36}"
MESSAGE = "RuntimeError: probability tensor contains either `inf`, `nan` or element < 0"
FAIRSEQ = "gradient overflow detected, ignoring gradient, setting loss scale to: 8.0"
POISONED = "batchnorm-running-stats-poisoned"
NO_GRAPH = (
    "RuntimeError: element 0 of tensors does not require grad and does not have a "
    "grad_fn"
)


@tag("any_database")  # what a text says
class SymptomTest(TestCase):
    @classmethod
    def setUpTestData(cls) -> None:
        loaded.shipped()

    def shown(self, log: str) -> list[str]:
        return [row["slug"] for row in look_up(log)["symptoms"]]

    def causes(self, log: str, env: str = "", **said: bool) -> list[str]:
        answers = {slug.replace("_", "-"): word for slug, word in said.items()}
        found = look_up(log, env, said=answers)
        return [row["slug"] for row in found["candidates"]]


class LookUpTest(SymptomTest):
    def test_a_paste_shows_what_its_lines_and_words_say(self) -> None:
        for log, slug in (
            (LINE, LOSS),
            ("step 3 loss: 0.0\nstep 3 grad_norm: nan", LOSS),
            ("loss=0 grad_norm=nan", LOSS),
            (MESSAGE, SAMPLING),
            ("微调时 loss 为 0，grad_norm 为 nan", LOSS),
            (NO_GRAPH, "no-grad-fn"),
            (
                "{'loss': 0.0, 'grad_norm': 0.4, 'reward': 1}",
                "loss-zero-grad-norm-finite",
            ),
            ("step 9 loss 2.1 grad_norm 0.0 lr 1e-5", "grad-norm-zero"),
            ("训练中 loss 正常，grad norm一直为0", "grad-norm-zero"),
            ("64: nGT 42, loss: x 27.0, w 1.7e5, conf 2.7, total 3.1", None),
            ("80: nGT 40, loss: x 23.9, w 2.0e6, conf nan, total nan", "loss-nan"),
        ):
            with self.subTest(log):
                shown = self.shown(log)
                self.assertIn(slug, shown) if slug else self.assertEqual(shown, [])

    def test_libraries_say_in_their_own_words_that_a_tensor_holds_nan(self) -> None:
        for log, slug in (
            ("WARNING:root:NaN or Inf found in input tensor.", "loss-nan"),
            ("NanError: cholesky_cpu: 4 of 4 elements are NaN.", "loss-nan"),
            ("ValueError: found nan in observations.", "loss-nan"),
            ("ValueError: cannot convert float NaN to integer", "loss-nan"),
            (
                "NansException: A tensor with all NaNs was produced in VAE.",
                "diffusion-loss-nan",
            ),
            (FAIRSEQ, "loss-scale-at-minimum"),
            ("scaler.get_scale() goes to 1e-30", "loss-scale-at-minimum"),
            ("ValueError: Expected input batch_size (64) to match target", None),
        ):
            with self.subTest(log):
                self.assertEqual(self.shown(log), [slug] if slug else [])

    def test_what_stands_below_code_without_a_sign_is_said(self) -> None:
        code = "opt = torch.optim.Adam(self.parameters())\n"
        self.assertIn("does-not-learn", self.shown(f"{code}loss does not decrease"))
        self.assertEqual(self.shown(f"{code}loss 0.31"), [])

    def test_words_name_a_cause_of_which_its_symptom_does_not_ask(self) -> None:
        found = self.causes("quaternion to rotation, gradients nan, arccos")
        self.assertEqual(found[0], "acos-boundary-inf-nan-grad")
        self.assertEqual(self.causes("验证集 loss 为 nan，训练集正常")[0], POISONED)

    def test_options_without_figures_are_a_symptom_where_nothing_else_is(self) -> None:
        options = "python train.py --fp16 --gradient_accumulation_steps 8 --lr 1e-4"
        slug = "accumulation-changes-loss"
        self.assertIn(slug, self.shown(options))
        self.assertEqual(self.shown(f"{options}\n{NO_GRAPH}"), ["no-grad-fn"])
        self.assertNotIn(slug, self.shown(f"{options}\neval loss is nan"))

    def test_a_message_in_a_line_of_source_is_one(self) -> None:
        line = 'assert len(a) > 0, "No inf checks were recorded for this optimizer."'
        found = look_up(line)["candidates"][0]
        self.assertEqual(found["slug"], "gradscaler-no-inf-checks")
        self.assertEqual(found["confidence"], "exact")

    def test_a_cause_of_which_nothing_speaks_affects_no_build(self) -> None:
        log = "gradient accumulation 4: the loss is inconsistent\ntorch==2.13.0+cpu"
        found = look_up(log)["candidates"]
        row = next(r for r in found if r["slug"] == "gradient-accumulation-zero")
        self.assertEqual(row["affected"]["answer"], "unknown")

    def test_what_reports_say_tells_causes_apart(self) -> None:
        mm = "mmdet - INFO - Iter [{}/900] loss_cls: {}, loss: {}, grad_norm: {}"
        died = f"{mm.format(5, 0.4, 31.4, 36)}\n{mm.format(6, 0.0, 0.0, 'nan')}"
        zero2 = f"deepspeed zero2: NaN, zero3 is OK, overlap_comm is on\n{LINE}"
        masked = self.causes(f"train_on_inputs: false\n{LINE}")
        self.assertIn("cross-entropy-all-ignored-nan", masked)
        for log, slug, is_first in (
            (zero2, "deepspeed-overlap-comm", True),
            (died, "logged-nan-as-zero", False),
            ("nan again at once when the lr rises, fine with a lower lr", "", False),
            ("mps incorrect results for a small model", "mps-wrong-gradients", True),
            ("its gradient is None, it is used as an index", "argmax-cuts-", True),
            ("all lora_up.weight are 0.0 with gradient checkpointing", "checkp", True),
            ("t5-base in amp: loss nan, an overflow", "t5-fp16", True),
            ("YOLOv8.2 CUDA:0 (NVIDIA T1200 Laptop GPU)\nloss: nan", "gtx16", True),
        ):
            with self.subTest(log):
                first = self.causes(log)[:1] or [""]
                self.assertEqual(first[0].startswith(slug or "-"), is_first, first)

    def test_half_of_a_symptom_is_none(self) -> None:
        for log in (
            "{'loss': 0.0, 'grad_norm': 1.3}",
            "{'loss': 2.3, 'grad_norm': nan}",
        ):
            self.assertNotIn(LOSS, self.shown(log))
        for log in ("probability of a tensor", "torch==2.6.0", "qwerty zxcvb"):
            self.assertEqual(self.shown(log), [])

    def test_the_symptom_with_most_of_the_facts_comes_first(self) -> None:
        self.assertEqual(self.shown(LINE)[0], LOSS)
        finite = "{'loss': 2.3, 'grad_norm': nan}"
        self.assertEqual(self.shown(finite)[0], "grad-norm-nan")

    def test_a_loss_that_was_finite_before_does_not_make_a_zero_finite(self) -> None:
        log = "{'loss': 2.3, 'grad_norm': 1.1, 'epoch': 0.1}\n" + LINE
        self.assertEqual(self.shown(log)[0], LOSS)

    def test_facts_order_the_causes_of_one_message(self) -> None:
        closure = (
            'File "/a/site-packages/transformers/optimization.py", line 3, in step\n'
            f"    loss = closure()\n{NO_GRAPH}"
        )
        first = "optimizer-step-no-grad-closure"
        self.assertEqual(self.causes(closure)[0], first)
        frame = 'File "/a/site-packages/torch/utils/checkpoint.py", line 9, in backward'
        checkpoint = f"{frame}\n{NO_GRAPH}"
        self.assertEqual(self.causes(checkpoint)[0], "checkpoint-reentrant-lost-grad")
        cut = f"y = torch.argmax(model(x), dim=1)\nloss = f(y)\n{NO_GRAPH}"
        self.assertIn("argmax-cuts-gradient", self.causes(cut))

    def test_two_facts_in_one_predicate_are_two(self) -> None:
        log = "unsloth GRPO: {'loss': 0.1, 'grad_norm': nan}"
        self.assertEqual(self.causes(log)[0], "unsloth-grpo-accumulation")

    def test_a_trap_beside_a_message_of_known_causes_does_not_lead(self) -> None:
        found = self.causes(f"probabilities = nn.Softmax()(scores)\n{NO_GRAPH}")
        self.assertEqual(found[0], "checkpoint-reentrant-lost-grad")
        self.assertIn("softmax-implicit-dim", found)

    def test_chinese_ends_the_name_before_it(self) -> None:
        log = "在自己数据集上微调，loss为0，grad_norm为nan"
        self.assertEqual(self.causes(log)[0], "logged-nan-as-zero")

    def test_the_message_alone_is_sure_of_no_record(self) -> None:
        found = look_up(NO_GRAPH)
        self.assertEqual(found["outcome"], "possible")
        self.assertTrue(found["first_checks"])

    def test_what_a_fact_rules_out_is_said_and_not_listed(self) -> None:
        log = "training on mps in fp16: loss nan from the first step, GTX 1660 before"
        found = look_up(log)
        out = {row["reason"]: row["slugs"] for row in found["ruled_out"]}
        self.assertIn("gtx16-fp16", out["log"])
        self.assertNotIn("gtx16-fp16", [row["slug"] for row in found["candidates"]])

    def test_an_answer_to_a_question_decides(self) -> None:
        before = self.causes("loss nan")
        self.assertNotIn("exp-overflow", before[:1])
        self.assertEqual(self.causes("loss nan", exp_overflow=True)[0], "exp-overflow")
        no = {before[0].replace("-", "_"): False}
        self.assertNotIn(before[0], self.causes("loss nan", **no))

    def test_a_cause_without_a_record_has_a_name_and_no_link(self) -> None:
        Record.objects.filter(slug="exp-overflow").update(publication="draft")
        row = look_up("loss nan", said={"exp-overflow": True})["candidates"][0]
        self.assertIsNone(row["record"])
        self.assertEqual((row["urls"], row["affected"]), (None, None))
        self.assertTrue(row["title"]["zh"] and row["test"]["question"]["en"])


class PagesTest(SymptomTest):
    def test_a_symptom_has_a_page_in_both_languages(self) -> None:
        # Of a cause without a record the page has a name only.
        Record.objects.filter(slug="divergence").update(publication="draft")
        page = self.client.get(f"/en/symptoms/{LOSS}/")
        self.assertContains(page, "logging_nan_inf_filter")
        self.assertContains(page, 'href="/en/NAN-0053/')
        self.assertContains(page, "no record yet")
        chinese = self.client.get(f"/zh/symptoms/{LOSS}/")
        self.assertContains(chinese, "把 NaN 的 loss 显示为 0.0")
        self.assertEqual(self.client.get("/en/symptoms/none/").status_code, 404)

    def test_the_list_of_records_begins_with_them(self) -> None:
        page = self.client.get("/en/records/").content.decode()
        self.assertLess(page.index(f"/en/symptoms/{LOSS}/"), page.index("/en/NAN-"))
        narrowed = self.client.get("/en/records/?symptom=nan_grad")
        self.assertNotContains(narrowed, f"/en/symptoms/{LOSS}/")

    def test_a_search_finds_them_first_by_their_words(self) -> None:
        for words, slug in (
            ("probability tensor contains either inf, nan or element < 0", SAMPLING),
            ("概率张量含 nan", SAMPLING),
            ("loss 0.0 grad_norm nan", LOSS),
            ("损失为 0，梯度范数 nan", LOSS),
        ):
            with self.subTest(words):
                page = self.client.get("/en/search/", {"q": words}).content.decode()
                self.assertIn(f"/en/symptoms/{slug}/", page)

    def test_other_words_do_not_find_them(self) -> None:
        for words in ("nan", "sdpa", "梯度", "tensor inf"):
            self.assertEqual(symptoms.of_words(words), [], words)

    def test_the_sitemap_names_them(self) -> None:
        page = self.client.get("/sitemap.xml")
        for lang in ("en", "zh"):
            self.assertContains(page, f"/{lang}/symptoms/{SAMPLING}/")


class ShippedTest(SymptomTest):
    def test_each_is_found_by_its_own_lines_and_names(self) -> None:
        for row in Symptom.objects.all():
            for sign in row.signatures:
                if "text" in sign:
                    self.assertIn(row.slug, self.shown(sign["text"]))
            for words in row.words:
                with self.subTest(words):
                    found = [one.slug for one in symptoms.of_words(words)]
                    self.assertIn(row.slug, found)

    def test_addresses_are_those_of_the_language(self) -> None:
        with override("zh-hans"):
            path = Symptom.objects.get(pk=LOSS).get_absolute_url()
        self.assertEqual(path, f"/zh/symptoms/{LOSS}/")


class EvidenceTest(TestCase):
    @classmethod
    def setUpTestData(cls) -> None:
        loaded.shipped_with_evidence()

    def test_the_code_that_decides_stands_below_its_cause(self) -> None:
        page = self.client.get(f"/en/symptoms/{SAMPLING}/")
        self.assertContains(page, "def diagnose_")
