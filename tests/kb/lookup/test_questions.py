"""Questions in one sentence, as people ask them who have no log."""

from __future__ import annotations

from django.test import SimpleTestCase

from kb.lookup.answer import look_up
from kb.search.reading.figures import LOSS, Figures
from tests.kb.lookup.test_symptoms import SymptomTest

WORDS = "its text is among the nearest to your words"
LEARNS, EVALUATES, SCALE = "does-not-learn", "eval-differs", "loss-scale-at-minimum"
RATE = "learning-rate-fixed"
SYMPTOMS = (
    ("My model outputs the same value for all inputs after a few epochs", LEARNS),
    ("optimizer.step() does not change my parameters", LEARNS),
    ("my weights stay the same after training", LEARNS),
    ("The model cannot learn this simple formula.", LEARNS),
    ("accuracy is exactly 10% for every epoch", LEARNS),
    ("模型的参数没有更新，输出总是一样", LEARNS),
    ("model.eval() gives much worse accuracy than model.train()", EVALUATES),
    ("accuracy 95% in train mode but 40% after model.eval()", EVALUATES),
    ("测试时把model.eval() 改为model.train(), 效果就好了", EVALUATES),
    ("gradients differ between cpu and gpu", "device-differs"),
    ("model trained with torch.compile doesn't converge", "compiled-differs"),
    ("scaler.get_scale() keeps getting smaller and smaller", SCALE),
    ("loss scale 越来越小，最后变成 0", SCALE),
    ("scheduler does not change lr", RATE),
    ("学习率一直不变", RATE),
    ("my cnn always outputs the same class", LEARNS),
    ("model.eval()之后准确率暴跌", EVALUATES),
    ("loss jumps up after loading checkpoint", "resume-loss-jumps"),
    ("loss goes up every epoch", "loss-grows"),
    ("loss=2.3027 acc=9\nloss=2.3026 acc=9\nloss=2.3025 acc=9", "loss-constant"),
)
RECORDS = (
    ("cosine similarity returns nan", "NAN-0079"),
    ("clip_grad_norm_ has no effect", "NAN-0051"),
    ("tied embeddings are no longer tied after load_state_dict", "NAN-0047"),
    ("best model checkpoint has same weights as last", "NAN-0184"),
    ("augmentations are identical across workers", "NAN-0127"),
    ("loss becomes nan at the same batch each epoch", "NAN-0088"),
    ("比较两个 epoch，weight 都是一样的，没有更新", "NAN-0126"),
    ("模型不论输入什么，输出总是相同", "NAN-0170"),
    ("验证之后忘记model.train()", "NAN-0178"),
    ("cross entropy nan when all targets are ignored", "NAN-0034"),
    ("每个 worker 的数据增强都一样", "NAN-0127"),
)
OTHERS = (
    "CUDA out of memory",
    "how do I install torch on windows",
    "what is the best learning rate for a transformer?",
    "ModuleNotFoundError: No module named 'torch'",
    "which optimizer has a default lr of 0.001 in torch 2.10",
    "怎么安装 pytorch",
    "{'loss': 2.1, 'grad_norm': 1.02}\n{'loss': 2.0, 'grad_norm': 0.98}",
    "Why does my model overfit after 5 epochs?",
)


class QuestionTests(SymptomTest):
    def test_a_sentence_says_the_symptom(self) -> None:
        for text, slug in SYMPTOMS:
            with self.subTest(text):
                self.assertIn(slug, self.shown(text))

    def test_a_solver_that_did_not_converge_is_no_training(self) -> None:
        for text in (
            "numpy.linalg.LinAlgError: SVD did not converge",
            "after model.eval() dropout is off",
        ):
            self.assertEqual(self.shown(text), [], text)

    def test_what_nothing_else_tells_is_found_by_its_words(self) -> None:
        for text, record in RECORDS:
            with self.subTest(text):
                found = [row["record"] for row in look_up(text)["candidates"]]
                self.assertIn(record, found)

    def test_words_alone_are_no_certainty(self) -> None:
        answer = look_up("tied embeddings are no longer tied after load_state_dict")
        first = answer["candidates"][0]
        self.assertEqual(answer["outcome"], "possible")
        self.assertEqual(first["because"][0]["en"], WORDS)
        self.assertIsNot((first["affected"] or {}).get("is_affected"), True)

    def test_other_questions_have_no_answer_here(self) -> None:
        for text in OTHERS:
            with self.subTest(text):
                answer = look_up(text)
                self.assertEqual(answer["candidates"], [])
                self.assertTrue(answer["first_checks"])


class ConstantTests(SimpleTestCase):
    def test_a_loss_that_hardly_moves_is_constant(self) -> None:
        for values, is_constant in (
            (("0.6931", "0.6932", "0.6930"), True),
            (("2.31", "2.30", "2.29"), False),
            (("0.6931", "0.6931"), False),
            (("inf", "inf", "inf"), False),
        ):
            figures = Figures()
            for at, value in enumerate(values):
                figures.add(LOSS, at, value)
            with self.subTest(values):
                self.assertEqual("constant" in figures.states(LOSS), is_constant)
