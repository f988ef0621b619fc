"""Loops as people paste them: out of order, with gradients switched off, or right."""

from __future__ import annotations

from tests.kb.lookup.test_symptoms import NO_GRAPH, SymptomTest

OFF, ORDER = "forward-without-grad", "step-out-of-order"
FROZEN, ARGMAX = "frozen-by-mistake", "argmax-cuts-gradient"
VALIDATES = """
def validate(net, loader):
    net.eval()
    with torch.no_grad():
        for x, y in loader:
            right += (net(x).argmax(1) == y).sum()
"""
RAISED = f"""
Traceback (most recent call last):
  File "train.py", line 31, in <module>
    loss.backward()
{NO_GRAPH}
"""


def loop(*lines: str) -> str:
    return "for x, y in train_loader:\n" + "".join(f"    {line}\n" for line in lines)


class SwitchedOffTests(SymptomTest):
    def test_a_forward_pass_without_a_graph_comes_first(self) -> None:
        update = ("loss.backward()", "optimizer.step()")
        block = ("with torch.no_grad():", "    loss = criterion(net(x), y)", *update)
        encoder = "@torch.{}()\ndef embed(x):\n    return net.backbone(x)\n\n"
        embeds = loop("loss = criterion(embed(x), y)", *update)
        for log in (
            loop(*block) + RAISED,
            encoder.format("no_grad") + embeds + RAISED,
            encoder.format("inference_mode") + embeds + VALIDATES + RAISED,
            "torch.set_grad_enabled(False)\n" + embeds + RAISED,
            "The weights of my encoder are not updating. I run encode() under no_grad.",
            "编码器的权重不更新：前向放在 no_grad 里，后面接分类头",
        ):
            with self.subTest(log):
                self.assertEqual(self.causes(log)[0], OFF)

    def test_what_inference_mode_says_is_sure(self) -> None:
        said = "Inference tensors cannot be saved for backward. To work around you can"
        log = f"RuntimeError: {said} make a clone to get a normal tensor and use it in"
        self.assertEqual(self.causes(f"{log} autograd.")[0], OFF)

    def test_a_validation_or_a_teacher_without_a_graph_is_right(self) -> None:
        hard = ("loss = criterion(net(x).argmax(1).float(), y)", "loss.backward()")
        freeze = "for p in net.parameters():\n    p.requires_grad = False\n"
        taught = ("with torch.no_grad():", "    soft = teacher(x)", *hard)
        closure = (
            '  File "transformers/optimization.py", line 5, in step\n    closure()'
        )
        for log, cause in (
            (loop(*hard) + VALIDATES + RAISED, ARGMAX),
            (VALIDATES + loop(*hard) + RAISED, ARGMAX),
            (loop(*taught) + RAISED, ARGMAX),
            (freeze + loop("loss = criterion(net(x), y)") + VALIDATES + RAISED, FROZEN),
            (VALIDATES + closure + RAISED, "optimizer-step-no-grad-closure"),
        ):
            with self.subTest(log):
                self.assertEqual(self.causes(log)[0], cause)


class OrderTests(SymptomTest):
    def test_a_step_that_finds_no_gradient_comes_first(self) -> None:
        loss, back = "loss = criterion(net(x), y)", "loss.backward()"
        step, zero = "optimizer.step()", "optimizer.zero_grad()"
        turned = ("if (i + 1) % 4:", f"    {step}", f"    {zero}")
        scaled = ("scaler.scale(loss).backward()", zero, "scaler.step(optimizer)")
        for log in (
            loop(loss, back, zero, step),
            "My loss does not go down.\n" + loop(loss, back, zero, step),
            loop(loss, *scaled),
            loop(zero, loss, step, back),
            "The loss stays flat.\n" + loop(loss, back, *turned),
            "Weights do not change. I call zero_grad() between backward() and step().",
            "loss 不下降，我把 zero_grad() 放在 backward() 和 step() 之间",
        ):
            with self.subTest(log):
                self.assertEqual(self.causes(log)[0], ORDER)

    def test_the_right_orders_are_left_alone(self) -> None:
        loss, back = "loss = criterion(net(x), y)", "loss.backward()"
        step, zero = "optimizer.step()", "optimizer.zero_grad()"
        due = ("if (i + 1) % 4 == 0:", f"    {step}", f"    {zero}")
        for log in (
            loop(zero, loss, back, step),
            loop(loss, zero, back, step),
            loop(loss, back, step, zero, "scheduler.step()"),
            loop(loss, back, *due),
            loop("loss_d.backward()", "opt_d.step()", "opt_g.zero_grad()")
            + loop("loss_g.backward()", "opt_d.zero_grad()", "opt_g.step()"),
        ):
            for words in ("", "My loss does not go down.\n"):
                with self.subTest(words + log):
                    self.assertNotEqual(self.causes(words + log)[:1], [ORDER])
