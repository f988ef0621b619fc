"""How strangers write: titles, sentences, environment blocks, logs of any trainer."""

from __future__ import annotations

from typing import Any

from kb.lookup.answer import look_up
from kb.lookup.symptoms import Cause
from kb.models import Symptom
from tests.kb.lookup.test_symptoms import SymptomTest

Json = dict[str, Any]
LEARNS = "does-not-learn"
BCE, NLL = "bce-target-out-of-range", "nll-loss-of-probabilities"
SCALES = [65536, 32768, 16384, 8192]
ENV = """Collecting environment information...
PyTorch version: 2.4.1+cu121
Is debug build: False
ROCM used to build PyTorch: N/A
HIP runtime version: N/A
Is XPU available: False
GPU models and configuration: GPU 0: NVIDIA A10G
"""


class ReportTest(SymptomTest):
    def facts(self, log: str) -> set[tuple[str, str]]:
        named = look_up(log)["facts"]["named"]
        return {(row["fact"], row["value"]) for row in named}

    def figures(self, log: str) -> Json:
        found: Json = look_up(log)["facts"]["figures"]
        return found

    def checks(self, log: str) -> list[str]:
        return [row["name"] for row in look_up(log)["first_checks"]]

    def reasons(self, log: str) -> str:
        rows = look_up(log)["candidates"]
        return "; ".join(why["en"] for row in rows for why in row["because"])


class FigureTests(ReportTest):
    def test_a_title_is_no_step_of_the_log(self) -> None:
        log = "# My loss is nan!\n\n" + "\n".join(
            f"epoch {n}, loss: {value}" for n, value in enumerate(["2.5", "2.1", "nan"])
        )
        found = self.figures(log)
        self.assertEqual(found["first_bad"]["line"], 5)
        self.assertEqual(found["finite_before"], 2)
        self.assertNotIn("data", self.checks(log))

    def test_a_sentence_alone_says_nothing_of_the_first_step(self) -> None:
        for log in ("Loss NaN while training", "Why is my loss nan? Please help."):
            answer = look_up(log)
            self.assertIn("loss is nan.", answer["decision"]["en"])
            self.assertIn("loss 为 nan", answer["decision"]["zh"])
            self.assertNotIn("data", self.checks(log))

    def test_a_title_of_figures_is_none_of_them(self) -> None:
        log = "Norm=inf and Loss=nan under autocast\n" + "\n".join(
            f"12:00 | INFO | Train | Epoch {n} | Loss={value} | Norm=3.0"
            for n, value in enumerate(["0.91", "0.77", "nan"], 1)
        )
        found = self.figures(log)
        self.assertEqual((found["first_bad"]["line"], found["finite_before"]), (4, 2))

    def test_a_line_of_a_later_step_is_no_beginning(self) -> None:
        for line in ("Iter [4200/90000] loss: {}", "Epoch [1][850/5000]\tloss: {}"):
            log = "\n".join(line.format("nan") + tail for tail in ("", ", lr: 0.1"))
            self.assertNotIn("first value", look_up(log)["decision"]["en"], line)

    def test_the_loss_of_a_validation_is_not_that_of_the_training(self) -> None:
        log = "Epoch: 4, Train Loss: 0.71 Vali Loss: nan Test Loss: 0.80"
        self.assertIsNone(self.figures(log)["first_bad"])
        self.assertEqual(self.checks(log)[0], "evaluation")

    def test_each_rank_has_a_series_of_its_own(self) -> None:
        for form in ("[rank{}]: step {} loss {}", "rank {} | epoch {} | loss: {}"):
            values = [
                (0, 1, 0.51),
                (1, 1, 0.5),
                (0, 2, 0.4),
                (1, 2, "nan"),
                (0, 3, 0.3),
            ]
            log = "\n".join(form.format(*one) for one in values)
            found = self.figures(log)
            self.assertEqual(found["series"]["loss"], [[2, 0.5], [4, "nan"]])
            self.assertNotIn("finite again", self.reasons(log))

    def test_a_list_of_steps_in_one_line(self) -> None:
        losses = (2.31, "nan", 1.7)
        for form in ("{{'loss': {}, 'step': {}}}", '{{"loss": {}, "step": {}}}'):
            rows = ", ".join(form.format(loss, at) for at, loss in enumerate(losses))
            found = self.figures(f"[{rows}]")
            self.assertEqual(len(found["series"]["loss"]), 3)
            self.assertEqual(found["finite_before"], 1)

    def test_a_cell_may_be_empty_and_a_heading_quoted(self) -> None:
        log = "epoch,step,train_loss,val_loss\n0,49,0.5,\n0,49,,nan\n1,99,0.4,"
        self.assertEqual(self.figures(log)["series"]["loss"], [[2, 0.5], [4, 0.4]])
        log = '"Step","run - loss"\n"1","2.3"\n"2","NaN"'
        self.assertEqual(self.figures(log)["first_bad"]["line"], 3)

    def test_the_mean_of_a_run_is_no_step(self) -> None:
        steps = "\n".join(f"{{'loss': {loss}}}" for loss in (0.5, 0.2, 0.02))
        mean = "{'train_runtime': 18.6, 'train_loss': 0.24, 'epoch': 3.0}"
        self.assertNotIn("loss-grows", self.shown(f"{steps}\n{mean}"))
        bad = mean.replace("0.24", "nan.0")
        self.assertIn("loss-nan", self.shown(f"{steps}\n{bad}"))
        self.assertIn("loss-grows", self.shown(f"{steps}\n{{'loss': 0.24}}"))

    def test_a_norm_follows_from_a_loss_that_is_nan(self) -> None:
        self.assertEqual(self.shown("{'loss': nan, 'grad_norm': nan}"), ["loss-nan"])

    def test_a_program_that_speaks_chinese_is_a_program(self) -> None:
        rows = [
            f"训练轮数：{n}，当前批次的Loss：{v}" for n, v in ((1, 0.9), (2, "nan"))
        ]
        found = self.figures("\n".join(rows))
        self.assertEqual((found["first_bad"]["line"], found["finite_before"]), (2, 1))

    def test_the_total_is_the_loss_not_its_first_part(self) -> None:
        log = "Epoch [1][50/99] loss_cls: 0.2, loss_box: 0.3, loss: 7.5, grad_norm: 4.1"
        self.assertEqual(self.figures(log)["series"]["loss"], [[1, 7.5]])

    def test_scales_of_other_trainers_fall(self) -> None:
        for line in (
            "NOTE: overflow detected, setting loss scale to: {}",
            "Reducing dynamic loss scale from 131072 to {}",
            "Gradient overflow. Skipped, loss scaler 0 reducing loss scale to {}",
            "| > amp_scaler: {}",
            "| num_updates 7 | gnorm 2.1 | loss_scale {} |",
        ):
            with self.subTest(line):
                log = "\n".join(line.format(scale) for scale in SCALES)
                series = self.figures(log)["series"]["loss_scale"]
                self.assertEqual([value for _line, value in series], SCALES)
                self.assertIn("loss-scale-at-minimum", self.shown(log))

    def test_a_zero_that_is_said(self) -> None:
        for log in (
            "Train loss stays at 0.0 for the whole epoch",
            "the training loss drops to zero and stays there",
            "训练时loss一直为0，怎么回事",
            "loss 先波动，然后突然变成0",
        ):
            with self.subTest(log):
                self.assertIn("loss-zero", self.shown(log))
        self.assertNotIn("loss-zero", self.shown("loss goes down to 0.3 at step 0"))

    def test_chinese_needs_no_blanks(self) -> None:
        self.assertIn(
            "loss-zero-grad-norm-nan",
            self.shown("微调过程中loss为0，grad_norm为nan的情况"),
        )

    def test_marks_round_a_value(self) -> None:
        self.assertIn("loss-nan", self.shown("after a while the loss becomes `nan`"))


class OnsetTests(ReportTest):
    def test_what_is_said_of_the_beginning(self) -> None:
        for log in (
            "It trains well and then the loss is nan after about 300 steps.",
            "The loss suddenly becomes nan in epoch 4, why?",
            "训练了几轮之后 loss 突然变成 nan",
        ):
            with self.subTest(log):
                self.assertEqual(self.causes(log)[0], "divergence")
                self.assertIn("rate", self.checks(log))
        late = "Warning: loss is NaN, skip\nSteps: 2%| 1299/82400 [31:29<9:0, loss=nan]"
        self.assertNotIn("data", self.checks(f"{late}\n{late}"))
        first = "The loss is nan from the very beginning."
        self.assertIn("data", self.checks(first))
        self.assertNotIn("divergence", self.causes(first))

    def test_figures_know_better(self) -> None:
        log = "the loss is nan immediately\n" + "\n".join(
            f"step {n} loss: {v}" for n, v in enumerate(["3.1", "3.0", "2.9", "nan"])
        )
        self.assertNotIn("data", self.checks(log))


class RecoveryTests(ReportTest):
    LOG = "\n".join(
        f"iter {n} lr: 1e-3, loss: 1.{n}, grad_norm: {norm}"
        for n, norm in enumerate(["inf", "nan", "5.2", "4.8"])
    )

    def test_a_norm_that_recovers_was_skipped_by_the_scaler(self) -> None:
        self.assertEqual(self.causes(self.LOG)[0], "loss-scale-first-steps")
        self.assertIn("sporadic", self.checks(self.LOG))

    def test_one_that_does_not_was_not(self) -> None:
        log = self.LOG.replace("5.2", "nan").replace("4.8", "nan")
        self.assertNotEqual(self.causes(log)[0], "loss-scale-first-steps")
        self.assertNotIn("sporadic", self.checks(log))


class EnvironmentTests(ReportTest):
    def test_what_a_report_says_is_absent_is_absent(self) -> None:
        facts = self.facts(f"loss is nan with my model\n{ENV}")
        self.assertIn(("device", "cuda"), facts)
        self.assertNotIn(("device", "rocm"), facts)
        self.assertNotIn(("device", "xpu"), facts)
        settings = "loss nan with this\nbf16: false\nfp16: true\nflash_attn: disabled"
        self.assertIn(("dtype", "fp16"), self.facts(settings))
        self.assertNotIn(("dtype", "bf16"), self.facts(settings))
        self.assertNotIn(("mode", "flash_attention"), self.facts(settings))

    def test_a_bug_of_another_card_is_none(self) -> None:
        log = "loss nan from the first step on, fp16, GPU: NVIDIA H100 80GB HBM3"
        self.assertNotIn("gtx16-fp16", self.causes(log))
        self.assertEqual(
            self.causes(log.replace("H100 80GB HBM3", "GeForce GTX 1660"))[0],
            "gtx16-fp16",
        )

    def test_cards_and_settings_that_are_not_the_writers(self) -> None:
        both = "On a RTX3090 I get NaNs.\nThe RTX2080 works -> no problem here."
        self.assertIn(("card", "RTX3090"), self.facts(both))
        self.assertNotIn(("card", "RTX2080"), self.facts(both))
        choices = "model: x\nbf16: true  # choices: [fp16, bf16]\nloss: nan"
        self.assertNotIn(("dtype", "fp16"), self.facts(choices))
        either = 'dtype = "bfloat16"  # float32|bfloat16|float16\nloss is nan'
        self.assertEqual(
            {value for fact, value in self.facts(either) if fact == "dtype"}, {"bf16"}
        )

    def test_detection_of_an_anomaly_detects_no_objects(self) -> None:
        hint = "Hint: enable anomaly detection to find the operation that failed."
        self.assertNotIn(("method", "detection"), self.facts(hint))
        self.assertIn(("method", "detection"), self.facts("object detection, nan"))

    def test_the_version_a_sentence_among_many_states(self) -> None:
        log = "My loss is nan\n\nBatch 1 - Loss: nan\nBatch 2 - Loss: nan\n\n{}"
        for said, version in (
            (
                "The loss became NaN with PyTorch 2.4.1+cu118. 2.6 is fine.",
                "2.4.1+cu118",
            ),
            (
                "After upgrading from torch 2.4 to 2.5.1 it is nan in each step.",
                "2.5.1",
            ),
        ):
            packages = look_up(log.format(said))["facts"]["packages"]
            self.assertEqual(packages.get("torch"), version)

    def test_the_version_that_was_fine_is_not_the_one_that_fails(self) -> None:
        for log, version in (
            ("torch 2.5.1 正常，升级到 2.6.0 之后 loss nan", "2.6.0"),
            ("torch 2.5.1 is fine, after upgrading to 2.6.0 loss is nan", "2.6.0"),
            ("torch 2.5.1 works with CUDA 12.1, and the loss is nan", "2.5.1"),
            ("torch 2.5.1 loss nan, 降到 2.4.0 正常", "2.5.1"),
            (
                "在 torch 2.9.1 上正常，升级到 2.12.1 后 H100 上 cudnn 反向 nan",
                "2.12.1",
            ),
            ("torch 2.1.0 works fine, 2.4.1 gives nan", None),
        ):
            with self.subTest(log):
                packages = look_up(log)["facts"]["packages"]
                self.assertEqual(packages.get("torch"), version)


class ReasonTests(ReportTest):
    def test_of_causes_that_nothing_speaks_for_the_commonest_leads(self) -> None:
        for log in ("why is the loss nan?", "Loss nan on 4 x A100(80G), WarpGAN repo"):
            self.assertEqual(self.causes(log)[0], "divergence", log)

    def test_a_number_is_not_said_by_another(self) -> None:
        for log in ("I trained on scene-100613, loss nan", "loss nan, seed 2024-1001"):
            self.assertNotIn("-100", self.reasons(log))
        self.assertIn("-100", self.reasons("loss nan, all labels are -100"))

    def test_an_evaluation_is_no_mode(self) -> None:
        log = "All evaluation metrics were normal, after 30 epochs the loss is nan."
        self.assertNotIn("eval", self.reasons(log))
        self.assertIn("eval mode", self.reasons("the loss is nan in eval mode only"))

    def test_what_was_tried_in_vain_is_no_reason(self) -> None:
        tried = "Training in fp16 the loss is suddenly nan. {}"
        for said in (
            "Reducing the learning rate by 10 does not help.",
            "降低学习率十倍也没有效果。",
        ):
            self.assertEqual(self.causes(tried.format(said))[0], "fp16-overflow")
        helped = tried.format("Lowering the learning rate makes it come later.")
        self.assertIn("lowered the learning rate", self.reasons(helped))

    def test_a_device_is_wrong_where_the_cpu_is_right(self) -> None:
        log = "Loss grows towards infinity and is then nan after some epochs on mps. {}"
        for said in ("On the cpu there is no problem.", "用 cpu 训练正常。"):
            found = look_up(log.format(said))["candidates"][0]
            self.assertEqual(found["slug"], "mps-wrong-gradients")
            self.assertIn("the CPU is right", found["because"][0]["en"])

    def test_a_word_is_not_said_by_another(self) -> None:
        said = "loss is nan with various pictures"
        self.assertNotIn("iou", self.reasons(said))
        self.assertIn("iou", self.reasons("loss is nan with the iou loss"))

    def test_an_address_names_no_operator(self) -> None:
        log = "DDP unwraps the module at https://github.com/some/repo/run.py#L9 and so"
        self.assertIn("you name DDP", reasons := self.reasons(f"{log} each is alone"))
        self.assertNotIn("com", reasons)

    def test_a_name_is_said_as_it_was_written(self) -> None:
        said = self.reasons("gradients are None under ZeRO when a layer is used twice")
        self.assertIn("you name ZeRO", said)
        log = "我用 DeepSpeed ZeRO-2 训练，之后 grad_norm 变成 nan，loss 变成 0"
        self.assertIn("you name DeepSpeed, ZeRO", self.reasons(log))

    def test_a_printed_tensor_is_no_node_of_anomaly_mode(self) -> None:
        log = "loss is nan: tensor([nan], grad_fn=<DivBackward0>)"
        self.assertNotIn(("node", "DivBackward"), self.facts(log))

    def test_common_words_are_no_reason(self) -> None:
        for log in (
            "I get NaN in the middle of training on my own dataset, why?",
            "PyTorch with LoRA on a GeForce card of NVIDIA: weird numbers, please help",
            "lm_loss: 1.9, optimizer Adam, batch_size 4: [logging.py:96:log_dist] data",
        ):
            reasons = self.reasons(log)
            for word in ("na_n", "lo_ra", "ge_force", "py_torch", "nvidia", "gpu"):
                self.assertNotIn(f"you name {word}", reasons)
            for word in ("logging", "optimizer", "batch_size", "data"):
                self.assertNotIn(word, reasons)

    def test_a_name_that_many_records_have_is_no_reason(self) -> None:
        log = "The result of torch.norm is not what I expect, with autograd it differs"
        self.assertNotIn("you name", self.reasons(log))

    def test_what_is_not_so_is_no_reason(self) -> None:
        log = "The model does not learn: bf16 weights, the loss does not decrease"
        self.assertIn("the number format is bf16", self.reasons(log))
        self.assertNotIn("fp16", self.reasons(log))

    def test_data_without_a_nan_is_no_reason(self) -> None:
        for said in ("there is no nan in the data", "数据检查过没有 nan"):
            self.assertNotIn("nan_input", self.reasons(f"loss is nan, but {said}"))
        self.assertIn("nan_input", self.reasons("loss is nan, 数据里有 nan"))

    def test_what_facts_speak_for_is_listed_without_a_symptom(self) -> None:
        log = "16-true: Adam with eps=1e-8 made every parameter NaN in the first step"
        self.assertEqual(self.causes(log)[0], "adam-fp16-eps-underflow")

    def test_a_loss_that_is_named_leads(self) -> None:
        log = "Returning nan value instead of CTC loss\nThe grad norm is nan."
        self.assertEqual(self.causes(log)[0], "ctc-infeasible-target-inf-nan")

    def test_evaluations_of_yolo_are_its_symptom(self) -> None:
        for log in (
            "yolov8: val/box_loss, val/cls_loss, val/dfl_loss is nan",
            "使用yolov8训练时，val/box_loss, val/cls_loss,val/dfl_loss值为nan",
        ):
            self.assertIn("yolo-loss-nan", self.shown(log))
            self.assertIn("evaluation", self.checks(log))

    def test_a_detector_that_stops_at_a_nan(self) -> None:
        log = "FloatingPointError: Loss became infinite or NaN at iteration=424!"
        self.assertIn("loss-nan", self.shown(log))

    def test_a_learning_rate_is_no_failure_to_learn(self) -> None:
        log = "the loss is nan, learning rate 1e-4, I am not sure what it does"
        self.assertNotIn("does-not-learn", self.shown(log))


class ToldTests(ReportTest):
    def test_one_thing_is_told_in_many_words(self) -> None:
        for log, cause in (
            ("Loss nan with ArcFace after several batches", "sqrt-at-zero-nan-grad"),
            ("wav2vec2: the loss is nan", "ctc-infeasible-target-inf-nan"),
            ("自己标注的数据，loss 是 nan，官方数据正常", "nan-in-data"),
            ("mAP is nan, and the loss too", "empty-class-metric"),
            (
                "the loss is nan, it answers !!!!!!!!",
                "exclamation-marks-nan-logits",
            ),
            ("输出全部为“！”，reward 为 0", "exclamation-marks-nan-logits"),
            ("inputs are not normalized, loss nan", "divergence"),
            ("重新加载 checkpoint 后 loss 变高", "optimizer-state-not-restored"),
            (
                "gradient accumulation 4: the loss is four times as large",
                "trainer-loss-not-divided",
            ),
            ("新加的层没有加入优化器", "optimizer-without-parameters"),
            ("the model is NaN after one step", "fp16-weights"),
            ("第二个 step 的 loss 就是 nan", "adam-fp16-eps-underflow"),
            ("resumed run: the loss is not the same", "data-order-not-restored"),
            ("续训后 loss 与之前不一致", "data-order-not-restored"),
        ):
            self.assertEqual(self.causes(log)[0], cause, log)

    def test_names_of_settings_are_read(self) -> None:
        for log, mode in (
            ("use_amp: true, the loss is nan", "amp"),
            ("with mix precision the loss is nan", "amp"),
            ("all requires_grad are shown as false", "frozen"),
        ):
            self.assertIn(("mode", mode), self.facts(log), log)

    def test_words_of_another_sense_say_nothing(self) -> None:
        frozen = "for images, y in loader: # it does not learn\n    y = Variable(y, {})"
        facts = self.facts(frozen.format("requires_grad=False"))
        self.assertNotIn(("mode", "frozen"), facts)
        said = "the KL divergence is negative and later the loss is nan"
        self.assertNotIn("diverges", self.reasons(said))
        tensor = "I find the loss is negative: tensor(-6.8, grad_fn=<KlDivBackward0>)"
        self.assertEqual(self.shown(tensor), ["loss-negative"])

    def test_which_tensor_was_changed_in_place(self) -> None:
        said = "has been modified by an inplace operation: [torch.FloatTensor [{}]]{}"
        error = (
            f"RuntimeError: one of the variables needed for gradient computation {said}"
        )
        version = " is at version {}; expected version {} instead."
        output = ", which is output 0 of {},"
        for shape, made, versions, cause in (
            ("3, 16, 5", "", (3, 2), "optimizer-step-between-backwards"),
            ("9, 1", "TBackward", (2, 1), "optimizer-step-between-backwards"),
            ("9, 1", "SubBackward0", (1, 0), "inplace-saved-tensor"),
        ):
            after = (output.format(made) if made else "") + version.format(*versions)
            self.assertEqual(self.causes(error.format(shape, after))[0], cause)

    def test_a_cause_of_any_nan_may_be_one_of_another_symptom(self) -> None:
        code = "```python\nmodel = PPO('Mlp', env, n_steps=1, batch_size=1)\n```"
        log = f"I tracked nans of PPO to `advantages.std()`, of one step.\n{code}"
        self.assertEqual(self.shown(log), [])
        self.assertEqual(self.causes(log)[0], "std-single-sample-nan")

    def test_a_call_in_a_sentence_is_one_where_no_code_says_more(self) -> None:
        said = "loss goes to nan after some hundred iterations: x.norm(2, dim=1)"
        self.assertEqual(self.causes(said)[0], "sqrt-at-zero-nan-grad")
        self.assertIn("your code calls norm", self.reasons(said))
        self.assertNotIn("calls norm", self.reasons(f"{said}\n```\ny = x * 2\n```"))

    def test_a_question_without_a_full_stop_is_read_as_one(self) -> None:
        said = "accuracy drops to chance after model.eval()"
        self.assertEqual(self.shown(said), ["eval-differs"])
        self.assertEqual(self.shown(f"RuntimeError: {said}"), [])

    def test_a_loss_that_does_not_go_down_is_one_that_does_not_learn(self) -> None:
        for said in (
            "loss does not go down",
            "it predicts the same class for all",
            "test accuracy remains at 25% in all epochs",
            "准确率卡在 0.25",
        ):
            self.assertEqual(self.shown(said), ["does-not-learn"])
        self.assertEqual(self.shown("准确率一直在上升"), [])

    def test_runs_that_differ(self) -> None:
        for said in (
            "two trainings with the same seed give slightly different losses",
            "随机种子相同，每次训练结果不一样",
        ):
            self.assertEqual(self.shown(said), ["runs-differ"])
            self.assertIn("machine", self.checks(said))

    def test_what_a_kernel_asserts(self) -> None:
        error = "RuntimeError: CUDA error: device-side assert triggered"
        index = "indexSelectLargeIndex: Assertion `srcIndex < srcSelectDimSize` failed."
        for log, cause in (
            (error, "label-out-of-range"),
            ("what does device-side assert triggered mean?", "label-out-of-range"),
            (f"{index}\n{error}", "index-beyond-table"),
        ):
            self.assertEqual(self.shown(log), ["device-side-assert"])
            self.assertEqual(self.causes(log)[0], cause)

    def test_a_package_that_is_installed_may_be_unused(self) -> None:
        said = "loss 0 and grad_norm nan\n- Bitsandbytes version: 0.44.0"
        self.assertNotIn(("mode", "quantized"), self.facts(said))
        self.assertIn(("mode", "quantized"), self.facts("I use bitsandbytes"))

    def test_what_is_off_or_denied_is_no_fact(self) -> None:
        for said in (
            "TrainingArguments(fp16=False, bf16=True)\nloss: nan",
            '{"fp16": false, "bf16": true}\nloss: nan',
            "use_amp = False\nloss: nan",
            "train.py --no-amp --no_fp16\nloss: nan",
            "I do not use amp or fp16. The loss is nan.",
            "没有使用混合精度，也没有用 fp16，loss 是 nan",
        ):
            found = self.facts(said)
            self.assertNotIn(("dtype", "fp16"), found, said)
            self.assertNotIn(("mode", "amp"), found, said)
        self.assertIn(("dtype", "fp16"), self.facts("fp16=True\nloss: nan"))
        in_vain = "gradient nan with Mamba2, 学习率调小没用"
        self.assertNotEqual(self.causes(in_vain)[0], "divergence")

    def test_a_nan_that_is_denied(self) -> None:
        for said in (
            "I get no nan; loss is 0.5 and training is fine",
            "训练一切正常，没有 nan，loss 稳定下降",
        ):
            self.assertEqual(self.shown(said), [])

    def test_what_works_on_a_card_works_on_another(self) -> None:
        differs = ("mode", "card_differs")
        self.assertNotIn(differs, self.facts("it trains well with batch size 8"))
        self.assertIn(differs, self.facts("it trains well on my 3090"))

    def test_an_evaluation_that_is_nan_like_the_training(self) -> None:
        alone, both = "validation loss is nan", "training and validation loss is nan"
        self.assertIn(("mode", "evaluation_nan"), self.facts(alone))
        self.assertNotIn(("mode", "evaluation_nan"), self.facts(both))

    def test_a_step_that_a_sentence_mentions_is_no_reason(self) -> None:
        said = "weights don't change after optimizer.step()"
        self.assertNotIn("calls step", self.reasons(said))

    def test_an_operator_may_stand_in_a_sentence_as_a_word(self) -> None:
        for said in ("eigh backward nan repeated eigenvalues", "svd 反向 得到 nan"):
            self.assertEqual(self.causes(said)[0], "svd-eigh-degenerate-nan-grad")
            self.assertRegex(self.reasons(said), "you name (eigh|svd)")

    def test_the_name_of_an_environment_is_no_fact(self) -> None:
        for path in ("/opt/conda/envs/{}/bin/python", "C:\\Users\\{}\\train.py"):
            for name, has in (("vae", False), ("me/vae", True)):
                said = f"Loss is nan\nexitcode: 1 of binary: {path.format(name)}"
                self.assertEqual("you train vae" in self.reasons(said), has, said)

    def test_a_loss_of_a_rebuilt_tensor_is_cut_off(self) -> None:
        said = "the weights do not change: loss = F.cross_entropy(torch.tensor(out), y)"
        self.assertEqual(self.causes(said)[0], "argmax-cuts-gradient")
        self.assertIn("no gradient", self.reasons(said))

    def test_checkpointing_has_more_names_than_one(self) -> None:
        for said in (
            "I use gradient checkpoint with LoRA and all gradients are None",
            "LoRA 加梯度检查点后所有参数的梯度都是 None",
        ):
            self.assertEqual(self.causes(said)[0], "checkpoint-reentrant-lost-grad")
            self.assertIn("checkpointing", self.reasons(said))

    def test_whose_data_it_is_is_a_weak_sign(self) -> None:
        said = ('told == "own_data"', 'dtype == "fp16"')
        for because, strength in ((said[:1], 0.5), (said[1:], 1.0), (said, 1.5)):
            cause = Cause("some", {}, Symptom(), because)
            self.assertEqual(cause.strength, strength)

    def test_synonyms_are_one_reason(self) -> None:
        said = "the loss diverges, explodes and blows up: a spike, then nan"
        self.assertEqual(self.reasons(f"{said}. fp16, amp").count("diverges or"), 1)
        self.assertEqual(self.causes(f"{said}. fp16, amp")[0], "fp16-overflow")


class FewWordsTests(ReportTest):
    def test_few_words_are_a_question(self) -> None:
        for log, symptom in (
            ("loss spike", "loss-grows"),
            ("loss 突然变大", "loss-grows"),
            ("梯度爆炸怎么办", "loss-grows"),
            ("loss not decreasing pytorch", "does-not-learn"),
            ("梯度消失", "does-not-learn"),
            ("训练完 lora 权重没有变化", "does-not-learn"),
            ("3090 正常 4090 nan", "loss-nan"),
            ("nan after loading checkpoint", "loss-nan"),
        ):
            self.assertEqual(self.shown(log), [symptom], log)
        self.assertEqual(self.shown("RuntimeError: nan"), ["loss-nan"])

    def test_a_loss_that_grows_and_stays_finite(self) -> None:
        log = "\n".join(f"iter {at}: loss {loss}" for at, loss in enumerate((2, 2, 11)))
        self.assertEqual(self.shown(log), ["loss-grows"])
        self.assertEqual(self.causes(log)[0], "divergence")
        self.assertNotIn("loss-grows", self.shown(f"{log}\niter 3: loss nan"))
        self.assertEqual(self.checks("loss spike")[0], "rate")
        self.assertNotIn("graph", self.checks("梯度爆炸怎么办"))


class CheckTests(ReportTest):
    def test_a_flash_kernel_is_taken_out_in_words_of_the_trainer(self) -> None:
        log = "llamafactory-cli train with flash_attn: fa2\nloss is nan after 10 steps"
        answer = look_up(log)
        rows = {row["name"]: row for row in answer["first_checks"]}
        self.assertIn("flash_attn: disabled", rows["attention"]["code"])

    def test_labels_are_counted_where_the_trainer_prints_zero(self) -> None:
        log = "SFT with cutoff_len: 512\n{'loss': 0.0, 'grad_norm': nan}"
        self.assertIn("labels", self.checks(log))

    def test_bf16_alone_is_not_asked_to_leave_fp16(self) -> None:
        log = "mixed_precision: {}\nloss is nan"
        self.assertNotIn("dtype", self.checks(log.format("bf16")))
        self.assertIn("dtype", self.checks(log.format("fp16")))

    def test_what_goes_into_exp_is_bounded(self) -> None:
        log = "epoch 3 KLD loss: 3.1e+09 recon loss: 1.2\nepoch 4 KLD loss: nan"
        self.assertIn("unbounded", self.checks(log))
        self.assertIn("exp-overflow", self.causes(log))

    def test_without_a_nan_nobody_looks_for_one(self) -> None:
        log = "After backward the gradients are None and the weights do not change"
        self.assertIn("grad-none", self.shown(log))
        self.assertEqual(self.checks(log), ["graph", "moves", "reference", "probe"])
        self.assertIn("weights", self.checks("loss nan"))

    def test_a_gradient_that_is_none_where_it_is_used(self) -> None:
        error = "AttributeError: 'NoneType' object has no attribute 'data'"
        self.assertIn("grad-none", self.shown(f"p.grad.data.clamp_(-1, 1)\n{error}"))
        self.assertNotIn("grad-none", self.shown(f"x = batch.image.data\n{error}"))

    def test_nan_iterations_that_are_counted_as_none(self) -> None:
        log = "iteration 9 | lm loss: 2.1 | number of nan iterations:   {} |"
        self.assertNotIn("weights", self.checks(log.format(0)))
        self.assertIn("weights", self.checks(log.format(3)))

    def test_invalid_values_are_looked_for_where_they_begin(self) -> None:
        log = "ValueError: The parameter loc has invalid values"
        self.assertEqual(self.checks(log)[-3:], ["weights", "where", "probe"])

    def test_another_card_is_compared(self) -> None:
        for log in (
            "loss is nan, the same script works well on another GPU",
            "it runs normally on a 2070 but the loss is nan on a 5080",
            "loss 变成 nan，换了显卡就正常",
        ):
            self.assertIn("device", self.checks(log), log)

    def test_the_same_advice_is_given_once(self) -> None:
        log = "\n".join(f"step {at} loss {2 * 9**at}" for at in range(4))
        checks = self.checks(f"{log}\nstep 4 loss nan")
        self.assertIn("growth", checks)
        self.assertNotIn("rate", checks)

    def test_the_probe_is_started_as_the_trainer_is(self) -> None:
        for log, code in (
            ("yolov8: loss nan", "$(which yolo)"),
            ("swift sft: loss is nan", "-m swift.cli.sft"),
            ("llamafactory: loss is nan", "src/train.py"),
            ("my loop: loss is nan", "nan_probe.py train.py"),
        ):
            self.assertIn(code, look_up(log)["first_checks"][-1]["code"])

    def test_a_node_without_a_record_gets_a_check_of_its_own(self) -> None:
        log = "RuntimeError: Function 'MmBackward0' returned nan values in its 1th out"
        self.assertIn("node", self.checks(log))


class NoLeafTests(ReportTest):
    WARNING = (
        "UserWarning: The .grad attribute of a Tensor that is not a leaf Tensor is "
        "being accessed. Its .grad attribute won't be populated during "
        "autograd.backward()."
    )

    def test_a_warning_that_many_mistakes_print_is_sure_of_none(self) -> None:
        rows = look_up(self.WARNING)["candidates"]
        self.assertEqual(rows[0]["slug"], "grad-of-non-leaf")
        self.assertEqual({row["confidence"] for row in rows}, {"possible"})

    def test_what_was_read_tells_them_apart(self) -> None:
        moved = f"self.scale = nn.Parameter(torch.ones(4)).to(device)\n{self.WARNING}"
        self.assertEqual(self.causes(moved)[0], "parameter-moved-not-registered")
        hidden = f"{self.WARNING}\n  print(hidden.grad)\nNone"
        self.assertEqual(self.causes(hidden)[0], "grad-of-non-leaf")


class WordingTests(ReportTest):
    def shown(self, log: str) -> list[str]:
        return [row["slug"] for row in look_up(log)["symptoms"]]

    def test_a_state_that_is_denied_is_not_there(self) -> None:
        for denied in ("will never become zero", "can never be reduced to 0"):
            log = f"I overfit a single image, but the loss {denied}. What is wrong?"
            self.assertNotIn("loss-zero", self.shown(log), denied)
        self.assertIn("loss-zero", self.shown("Why is my loss always zero?"))

    def test_a_sentence_may_write_an_operator_as_code_does(self) -> None:
        log = "I get nan as soon as I take torch.log(t) of the scores in my forward."
        self.assertIn(("call", "log"), self.facts(log))
        self.assertEqual(self.causes(log)[0], "log-of-probability")

    def test_nothing_left_to_take_the_mean_of_is_said_in_many_ways(self) -> None:
        for said in (
            "the number of valid anchors is zero",
            "there are no positive pairs",
        ):
            log = f"My loss is nan in the batches where {said}."
            self.assertEqual(self.causes(log)[0], "empty-mean", said)
            self.assertIn("nothing is left to take the mean of", self.reasons(log))

    def test_words_for_two_networks_are_one_reason(self) -> None:
        log = (
            "RuntimeError: one of the variables needed for gradient computation has "
            "been modified by an inplace operation\n"
            "It is a GAN: the generator and the critic share a batch."
        )
        self.assertEqual(self.causes(log)[0], "optimizer-step-between-backwards")
        reason = "you train two networks against each other"
        self.assertEqual(self.reasons(log).count(reason), 1)

    def test_more_ways_to_name_a_symptom(self) -> None:
        for log, slug in (
            ("Resume 之后损失与断点处差异较大，接不上", "resume-loss-jumps"),
            ("The cloned tensor is detached. So gradient may not propagate.", LEARNS),
            ("The gradient does not flow to my encoder, it is detached.", LEARNS),
            ("Parameters stay requires_grad=False: they are not trainable.", LEARNS),
        ):
            with self.subTest(log):
                self.assertIn(slug, self.shown(log))
        log = "nan gradient: the euclidean distance of two equal points is zero"
        self.assertEqual(self.causes(log)[0], "sqrt-at-zero-nan-grad")
        log = "Same weights, but in eval mode the accuracy of my batchnorm net is bad."
        self.assertEqual(self.causes(log)[0], "batchnorm-eval-differs")
        log = "WGAN-GP with amp: the gradient penalty explodes, the loss keeps growing"
        self.assertIn("gradient-penalty-scaled", self.causes(log)[:2])

    def test_a_loss_that_is_negative_is_a_symptom(self) -> None:
        for log, cause in (
            ("Why is my loss negative? BCEWithLogitsLoss, masks from PNG.", BCE),
            ("训练时 loss 变成负数，最后一层是 softmax，用 NLLLoss", NLL),
            ("Epoch 3: loss=-9.27e+5 binary_cross_entropy_with_logits", BCE),
            ("Is a negative loss normal for a WGAN critic?", "critic-loss-negative"),
        ):
            with self.subTest(log):
                self.assertIn("loss-negative", self.shown(log))
                self.assertEqual(self.causes(log)[0], cause)
        said = look_up("Is a negative loss normal for a WGAN critic?")["decision"]
        self.assertIn("points to “By design: the loss of a W", said["en"])
        self.assertIn("首先是：“按设计如此", said["zh"])
        log = "# loss\nepoch 1 loss: -81.5\nepoch 2 loss: -250.2"
        self.assertIn("the loss is below -100", self.reasons(log))
        for log in (
            "The negative log likelihood loss is 2.3, too many false negatives.",
            "The loss is computed on negative samples and is never negative.",
            "对比损失的负样本太少，负载均衡损失正常",
        ):
            with self.subTest(log):
                self.assertNotIn("loss-negative", self.shown(log))

    def test_chinese_sentences_that_have_few_characters_in_a_row(self) -> None:
        for log, slug in (
            ("加上 model.eval() 精度只有 10%，不加有 90%", "batchnorm-eval-differs"),
            ("验证后忘了调 model.train()，后面精度不再提高", "eval-mode-left-on"),
            ("1660ti 上 loss 全是 nan，换了 3060 就正常了", "gtx16-fp16"),
        ):
            with self.subTest(log):
                self.assertEqual(self.causes(log)[0], slug)

    def test_a_name_that_all_training_code_has_is_no_reason(self) -> None:
        loop = (
            "for x, y in train_loader:\n    loss = criterion(net(x), y)\n{}"
            "    loss.backward()\n    optimizer.step()\nThe loss explodes soon."
        )
        self.assertNotIn("criterion", self.reasons(loop))
        self.assertEqual(self.causes(loop.format(""))[0], "zero-grad-missing")
        cleared = loop.format("    optimizer.zero_grad()\n")
        self.assertNotIn("zero-grad-missing", self.causes(cleared))

    def test_training_is_resumed_by_other_words(self) -> None:
        for log in (
            "When I restart training from where it stopped, the losses jump up.",
            "I load the last saved weights and get a higher loss than before.",
        ):
            self.assertIn("resume-loss-jumps", self.shown(log), log)
