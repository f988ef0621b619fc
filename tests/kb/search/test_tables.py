"""Figures in the forms that programs print: tables, lists, parts, and Chinese."""

from __future__ import annotations

from django.test import SimpleTestCase

from kb.search.reading.figures import LOSS, NORM, read_figures


class FormTests(SimpleTestCase):
    def read(self, text: str, kind: str = LOSS) -> list[str]:
        figures = read_figures(enumerate(text.splitlines(), 1))
        return [str(point.value) for point in figures.series.get(kind, [])]

    def test_the_table_of_a_notebook(self) -> None:
        for sign in ("\t", " | ", "  "):
            rows = (("Step", "Training Loss", "Validation Loss"), ("50", "0.8", "0.7"))
            text = "\n".join(sign.join(row) for row in (*rows, ("100", "0.0", "nan")))
            with self.subTest(sign):
                self.assertEqual(self.read(text), ["0.8", "0.0"])

    def test_a_separator_is_no_bar(self) -> None:
        text = (
            "Epoch  GPU_mem  box_loss  cls_loss  dfl_loss\n"
            "1/9  2.1G  1.2  nan  1.1  640: 100%|████| 60/60 [00:10<00:00]"
        )
        self.assertEqual(self.read(text), ["nan"])

    def test_what_stands_below_a_table_is_no_row_of_it(self) -> None:
        text = (
            "Epoch  GPU_mem  box_loss  cls_loss  dfl_loss  Instances  Size\n"
            "1/9  2.1G  1.2  0.9  1.1  24  640: 100%|████| 60/60 [00:10<00:00]\n"
            "Class  Images  Instances  Box(P  R  mAP50  mAP50-95): 100%|████| 4/4\n"
            "all  128  929  0.644  0.538  0.606  0.447\n"
            "person  128  0  0  0  0  0"
        )
        self.assertEqual(self.read(text), ["1.2"])

    def test_columns_of_the_validation_are_no_losses(self) -> None:
        text = "epoch,train/box_loss,val/box_loss,val/cls_loss\n1,1.2,nan,0.7"
        self.assertEqual(self.read(text), ["1.2"])

    def test_lists_of_names_and_values(self) -> None:
        wandb = "wandb: train/loss 0.0\nwandb: train/grad_norm nan"
        self.assertEqual(self.read(wandb), ["0.0"])
        self.assertEqual(self.read(wandb, NORM), ["nan"])
        self.assertEqual(
            self.read("|    loss    | 0.4   |\n|    loss  | nan |"), ["0.4", "nan"]
        )

    def test_chinese_names(self) -> None:
        text = "第1轮 训练损失：0.5 验证损失：0.6\n第2轮 训练损失：nan 梯度范数 nan"
        self.assertEqual(self.read(text), ["0.5", "nan"])
        self.assertEqual(self.read(text, NORM), ["nan"])

    def test_a_loss_of_the_validation_is_none(self) -> None:
        text = "train loss : 0.4\nvalidation loss: nan\nval loss nan, eval loss = nan"
        self.assertEqual(self.read(f"{text}\n\t Val. Loss: nan |"), ["0.4"])

    def test_parts_are_losses_and_settings_are_none(self) -> None:
        self.assertEqual(
            self.read("Loss_D: 0.4 Loss_G: 2.0\nLoss_D: nan Loss_G: nan"),
            ["0.4", "nan"],
        )
        self.assertEqual(self.read("loss_weight: 2.0\nloss_type: 1"), [])

    def test_gradients_that_are_said_to_be_zero(self) -> None:
        for line in ("all gradients are zero", "梯度全是0", "I get zero gradients"):
            with self.subTest(line):
                self.assertEqual(self.read(line, NORM), ["0.0"])
        for line in ("optimizer.zero_grad()", "zero_grad is missing", "grad: 0.3"):
            with self.subTest(line):
                self.assertEqual(self.read(line, NORM), [])
