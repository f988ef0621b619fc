"""What launchers, loggers, terminals and forums put round a line does not count."""

import json
import re
import time

from django.test import SimpleTestCase

from kb.search.reading import (
    cleaning,
    error_ids as error_ids_module,
    lines,
    log,
    masks,
    names,
    probe,
    symptom_facets,
    tokens,
)
from kb.search.reading.log import key_line
from tests.kb.search.test_log import only_key
from tests.support.log_corpus import read_log

MESSAGE = "RuntimeError: the zebra crossed the giraffe"
NOTICE = "loss overflow in the zebra"
# What is put round a line; {} is the line.
SURROUNDINGS = """
[rank3]: {}
[rank11]:[W1024 09:10:11.123456789 MHA.cpp:667] {}
[default7]:{}
[1,0]<stderr>:{}
 3: {}
12: [rank12]: {}
node-17: {}
[gpu-node1:0]: {}
(Worker pid=81) {}
(RayTrainWorker pid=52110, ip=10.12.0.7) {}
(EngineCore_0 pid=123) ERROR 08-19 17:02:33 [core.py:700] {}
[pod/llm-worker-3/pytorch] {}
trainer-1  | {}
2025-10-07T19:22:30.118003411Z stderr F {}
2025-11-02T08:15:20.4411023Z {}
Oct 14 04:18:10 dgx2 python3[88123]: {}
Mon May  6 07:08:09 2024 [3] {}
2025-07-21 15:30:14.871 | ERROR    | trainer.amp:step:73 - {}
2025-03-20 10:12:44,318 - root - INFO - {}
[titan] 2025-04-04 12:04:09,553 - root - WARNING - {}
[2025-02-11 08:31:58,002] [INFO] [loss_scaler.py:190:update_scale] [deepspeed] {}
[INFO|trainer.py:2407] 2025-03-20 10:12:44,318 >> {}
[INFO|2025-01-16 18:02:11] llamafactory.model.adapter:157 >> {}
05/06/2024 07:08:09 - INFO - __main__ - {}
[NeMo W 2025-05-06 07:08:09 nemo_logging:349] {}
W0506 07:08:09.123000 140123 torch/_dynamo/convert_frame.py:757] [0/0] {}
[W MHA.cpp:667] {}
ERROR:trainer.engine:{}
2024/05/06 07:08:09 {}
06-May-24 07:08:09 {}
2025年05月06日 07:08:09 {}
[07:08:09] WARNING  {}
<ERROR> {}
2025-05-05T12:00:33.871Z [warning  ] {}
[RANK 0] {}
> {}
> > {}
- {}
    | {}
│ {} │
  12%|##   | 12/100 [00:01<00:09, 9.91it/s]{}
Epoch 3:   3%|▎   | 17/540 [00:09<04:51, 1.79it/s, v_num=4]{}
wandb: {}
E   {}
##[error]{}
""".strip("\n").split("\n")


class SurroundingsTests(SimpleTestCase):
    def test_what_stands_before_a_line_does_not_count(self) -> None:
        for line in SURROUNDINGS:
            for text in (MESSAGE, NOTICE):
                with self.subTest(line=line, text=text):
                    self.assertEqual(
                        only_key(line.replace("{}", text))[2], only_key(text)[2]
                    )

    def test_prose_around_a_message_holds_it(self) -> None:
        for text in (
            f"训练到第三步突然报错{MESSAGE}，请问怎么解决？",
            f"报错：{MESSAGE.replace(':', '：')}",
            f"I always get `{MESSAGE}` with bf16. Why?",
            f'{{"level": "error", "message": "{MESSAGE}"}}',
        ):
            with self.subTest(text):
                class_name, _text, _key = only_key(text)
                (line,) = read_log(text).key_lines
                self.assertEqual(class_name, "RuntimeError")
                self.assertIn("thezebracrossedthegiraffe", line.letters)

    def test_colours_and_links_of_a_terminal(self) -> None:
        text = (
            "\x1b[1;31mRuntimeError\x1b[0m: the \x1b]8;;file:///x\x07zebra\x1b]8;;\x07"
        )
        self.assertEqual(
            only_key(f"{text} crossed the giraffe")[2], only_key(MESSAGE)[2]
        )

    def test_a_message_that_a_terminal_broke(self) -> None:
        text = (
            "RuntimeError: element 0 of tensors does not require grad and does not have"
        )
        for width in (50, 61, 80):
            whole = f"{text} a grad_fn and no more words than these for the width"
            lines = [whole[at : at + width] for at in range(0, len(whole), width)]
            with self.subTest(width):
                joined = read_log("\n".join(lines)).unwrapped
                self.assertIn(key_line(1, "RuntimeError", whole[14:]).letters, [
                    line.letters for line in joined
                ])  # fmt: skip

    def test_what_follows_is_no_continuation(self) -> None:
        message = f"{MESSAGE} and then went on to the water hole"
        for after in (
            "  warnings.warn(",
            "Traceback (most recent call last):",
            "[2025-02-11 08:31:58,002] [INFO] next",
            "ValueError: another",
            "",
        ):
            with self.subTest(after):
                self.assertEqual(read_log(f"{message}\n{after}").unwrapped, [])

    def test_a_traceback_inside_json(self) -> None:
        entry = json.dumps({"exc_info": f'Traceback\n  File "a.py"\n{MESSAGE}'})
        (line,) = read_log(entry).key_lines
        self.assertIn("thezebracrossedthegiraffe", line.letters)
        self.assertTrue(read_log(entry).traceback)

    def test_lines_that_end_in_carriage_returns_only(self) -> None:
        (line,) = read_log(f"one\rtwo\r{MESSAGE}\r").key_lines
        self.assertEqual(line.number, 3)

    def test_an_error_that_names_its_cause(self) -> None:
        text = (
            "torch._inductor.exc.InductorError: AssertionError: the zebra is not a view"
        )
        found = [(line.class_name, line.text) for line in read_log(text).key_lines]
        self.assertEqual(found[-1], ("AssertionError", "the zebra is not a view"))
        self.assertEqual(found[0][0], "InductorError")

    def test_an_exception_shown_as_a_value(self) -> None:
        text = (
            f"TorchRuntimeError: node failed: got RuntimeError('{MESSAGE[14:]}') at x"
        )
        found = [(line.class_name, line.text) for line in read_log(text).key_lines]
        self.assertIn(("RuntimeError", MESSAGE[14:]), found)

    def test_frames_of_other_tracebacks(self) -> None:
        rows = {
            "File /o/site-packages/torch/_tensor.py:626, in Tensor.backward(self)": (
                "torch/_tensor.py:backward"
            ),
            "~/x/site-packages/torch/tensor.py:221: in backward": (
                "torch/tensor.py:backward"
            ),
            "│ /opt/x/dist-packages/torch/_tensor.py:522 in backward          │": (
                "torch/_tensor.py:backward"
            ),
            r'File "C:\x\Lib\site-packages\torch\_tensor.py", line 5, in backward': (
                "torch/_tensor.py:backward"
            ),
        }
        for text, frame in rows.items():
            with self.subTest(text):
                self.assertIn(frame, read_log(text).frames)


MODULES = (
    *(cleaning, error_ids_module, symptom_facets, lines, log, masks, probe),
    *(names, tokens),
)
# What makes an expression try again: long runs of what it may repeat, and no end.
HOSTILE = (
    "a", "a.", "a_", "aB", "1", "1.", "0x", "[1,", "(", "'a", '"', "/", "\\", " ", ":",
    "-", "%|", "━", "\x1b[", "\x1b]8;;", "2025-01-01 ", "10:00:00 ", "Error", "Error:",
    "gb0", "CUDA_ERROR_", "Function '", "nan ", "loss: ", "at::", "raise X(", "[rank",
    'File "', "torch.Size([", "pid=", "梯度", "Warning: ", "\\n", "<*>", "Backward0",
    "1, ", "torch.zeros(1,", "a.b", "梯a.",
)  # fmt: skip
SHORT, LONG = 5_000, 20_000


class LinearityTests(SimpleTestCase):
    """A text four times as long takes about four times as long, not sixteen."""

    def test_every_pattern_is_linear(self) -> None:
        for name, pattern in patterns():
            for run in HOSTILE:
                with self.subTest(pattern=name, run=run):
                    long = seconds(pattern, (run * LONG)[:LONG])
                    # Quadratic ones take 0.3 s and more; what is quick is not compared.
                    if long > 0.15:
                        short = seconds(pattern, (run * SHORT)[:SHORT])
                        self.assertLessEqual(long, 10 * short)


def patterns() -> list[tuple[str, re.Pattern[str]]]:
    return [
        (f"{module.__name__}.{name}", value)
        for module in MODULES
        for name, value in vars(module).items()
        if isinstance(value, re.Pattern)
    ]


def seconds(pattern: re.Pattern[str], text: str) -> float:
    begun = time.process_time()
    for _found in pattern.finditer(text):
        pass
    return time.process_time() - begun
