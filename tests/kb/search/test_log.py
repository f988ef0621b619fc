"""Reading logs: the same message gives the same key whatever varies in it."""

from django.test import SimpleTestCase

from kb.search.reading.error_ids import contradict, error_ids
from kb.search.reading.lines import HEAD_LINES, LINE_CHARS, TAIL_LINES
from kb.search.reading.log import Reading, key_line, relative
from kb.search.reading.masks import masked
from kb.search.reading.signatures import read_signature
from kb.search.reading.symptom_facets import metrics_in
from tests.support.log_corpus import read_log


def only_key(text: str) -> tuple[str, str, str]:
    """(class, text, fingerprint) of the one key line in `text`."""
    (line,) = read_log(text).key_lines
    return line.class_name, line.text, line.fingerprint


# Each row: lines that are one and the same message.
SAME_MESSAGE = [
    [
        "RuntimeError: The size of tensor a (128) must match tensor b (64)",
        "[rank3]: RuntimeError: The size of tensor a (7) must match tensor b (4096)",
        "E   RuntimeError: The size of tensor a (1) must match tensor b (2)",
        "\x1b[36m(Worker pid=81)\x1b[0m RuntimeError: The size of tensor a (3) must "
        "match tensor b (4)",
    ],
    [
        "UserWarning: std(): degrees of freedom is <= 0. (Triggered internally at "
        "/x/pytorch/aten/src/ATen/native/ReduceOps.cpp:1807.)",
        "/usr/lib/python3/dist-packages/torch/x.py:10: UserWarning: std(): degrees of "
        "freedom is <= 0. (Triggered internally at ../aten/ReduceOps.cpp:1760.)",
    ],
    [
        "RuntimeError: value cannot be converted to at::Half without overflow: 1e9",
        "RuntimeError: value cannot be converted to at::Half without overflow: -2.5",
    ],
    [
        "RuntimeError: value cannot be converted to type at::Half without overflow",
        "RuntimeError: value cannot be converted to type c10::Half without overflow",
        "RuntimeError: value cannot be converted to type "
        "torch::headeronly::Half without overflow",
    ],
    [
        "RuntimeError: CUDA error: misaligned address",
        "torch.AcceleratorError: CUDA error: misaligned address",
    ],
    [
        "UserWarning: the gradient is old",
        "[W1024 09:10:11.123456789 Engine.cpp:66] Warning: the gradient is old "
        "(function operator())",
    ],
    [
        "RuntimeError: bad [torch.cuda.FloatTensor [256, 512]] of AsStridedBackward0",
        "RuntimeError: bad [torch.FloatTensor [3, 4]] of AsStridedBackward",
    ],
    [
        "ValueError: expected dtype torch.float32 but got torch.bfloat16 on cuda:0",
        "ValueError: expected dtype torch.float16 but got torch.int64 on cuda:7",
    ],
    [
        "RuntimeError: Function 'AcosBackward0' returned nan values in its 0th output.",
        'RuntimeError: Function "AcosBackward" returned nan values in its 12th output.',
    ],
    [
        "RuntimeError: bad weight model.layers.3.self_attn.q_proj of "
        "torch.Size([8, 128]) at 0x7f3a00",
        "RuntimeError: bad weight model.layers.31.mlp.up_proj of "
        "torch.Size([16, 4, 4]) at 0x55e0ff2",
    ],
    [
        "OSError: cannot read /data/a/model.safetensors from https://example.org/x?y=1",
        "OSError: cannot read /mnt/c/other.bin from https://example.com/z",
    ],
    [
        "2025-03-20 10:12:44,318 [WARNING] [stage3.py:2104:step] OVERFLOW! Rank 0 "
        "Skipping step. Attempted loss scale: 65536",
        "[2025-03-21 11:00:01,000] [WARNING] OVERFLOW! Rank 7 Skipping step. Attempted "
        "loss scale: 4096",
    ],
]
# Each row: two different problems.
OTHER_MESSAGE = [
    (
        "RuntimeError: Function 'SqrtBackward0' returned nan values in its 0th output.",
        "RuntimeError: Function 'LogBackward0' returned nan values in its 0th output.",
    ),
    ("RuntimeError: the sizes do not match", "ValueError: the sizes do not match"),
    (
        "RuntimeError: CUDA error: misaligned address",
        "RuntimeError: CUDA error: an illegal memory access was encountered",
    ),
]


class FingerprintTests(SimpleTestCase):
    def test_what_varies_does_not_count(self) -> None:
        for same in SAME_MESSAGE:
            with self.subTest(same[0][:50]):
                self.assertEqual(len({only_key(line)[2] for line in same}), 1)

    def test_neither_do_overloads_and_namespaces_as_words(self) -> None:
        old = key_line(1, "", "at::Half in torch::autograd::AcosBackward")
        new = key_line(1, "", "c10::Half in AcosBackward0")
        self.assertEqual(old.tokens, new.tokens)

    def test_what_tells_problems_apart_does(self) -> None:
        for one, other in OTHER_MESSAGE:
            with self.subTest(one[:50]):
                self.assertNotEqual(only_key(one)[2], only_key(other)[2])

    def test_a_fingerprint_is_stable(self) -> None:
        # Stored fingerprints carry ALGORITHM = 2: raise it if this must change.
        line = "RuntimeError: element 0 of tensors does not require grad"
        self.assertEqual(only_key(line)[2], "626c07bb9940536d")

    def test_masks(self) -> None:
        rows = {
            "Tried to allocate 2.32 GiB": "Tried to allocate <*>",
            "layers.33.q_proj is \u201cnan\u201d": "layers.<*>.q_proj is 'nan'",
            "on cuda:3 at 0xFF took 7.85s/it": "on <*> at <*> took <*>",
            "cuDNN v9.5.1+ is newer": "cuDNN <*> is newer",
            "in its 3th output of Conv2d": "in its <*> output of Conv2d",
        }
        for text, expected in rows.items():
            with self.subTest(text):
                self.assertEqual(masked(text), expected)


class KeyLineTests(SimpleTestCase):
    def test_class_text_and_number(self) -> None:
        log = "step 1\n\n[rank0]: torch.OutOfMemoryError: CUDA out of memory.\nbye"
        (line,) = read_log(log).key_lines
        self.assertEqual(line.number, 3)
        self.assertEqual(line.class_name, "OutOfMemoryError")
        self.assertEqual(line.text, "CUDA out of memory.")

    def test_a_repeated_message_is_one_key_line(self) -> None:
        log = "\n".join(f"[rank{n}]: RuntimeError: size {n} mismatch" for n in range(8))
        self.assertEqual([line.number for line in read_log(log).key_lines], [1])

    def test_lines_without_a_class(self) -> None:
        log = "all is well\nOVERFLOW! Rank 3 Skipping step.\n梯度溢出，跳过本步"
        self.assertEqual([line.number for line in read_log(log).key_lines], [2, 3])

    def test_raise_in_a_listing(self) -> None:
        class_name, text, _ = only_key('    raise ValueError("No inf checks here")')
        self.assertEqual((class_name, text), ("ValueError", "No inf checks here"))

    def test_values_are_no_key_lines(self) -> None:
        log = (
            "{'loss': nan, 'grad_norm': nan}\nstep: 5  loss: nan  lr: 0.1\n"
            "step 12 loss 0.0 grad_norm nan lr 1e-5"
        )
        self.assertEqual(read_log(log).key_lines, [])

    def test_frames(self) -> None:
        log = (
            'File "/x/dist-packages/torch/utils/checkpoint.py", line 29, in backward\n'
            "/x/site-packages/fla/ops/gsa/chunk.py:825: UserWarning: something odd\n"
            "Warning: odd (Triggered internally at /x/pytorch/aten/src/MHA.cpp:674.)"
        )
        self.assertEqual(
            read_log(log).frames,
            {
                "torch/utils/checkpoint.py": 1,
                "torch/utils/checkpoint.py:backward": 1,
                "fla/ops/gsa/chunk.py": 2,
                "aten/src/MHA.cpp": 3,
            },
        )

    def test_paths_of_ones_own_are_reduced_to_the_name(self) -> None:
        self.assertEqual(relative("/home/someone/secret/train.py"), "train.py")
        self.assertEqual(
            relative(r"C:\py\Lib\site-packages\torch\_tensor.py"), "torch/_tensor.py"
        )


class FacetTests(SimpleTestCase):
    def test_facets(self) -> None:
        rows: dict[str, list[str]] = {
            "{'loss': 0.0, 'grad_norm': nan}": ["loss_zero", "grad_norm_nan"],
            '{"train/loss": NaN, "grad_norm": Infinity}': ["loss_nan", "grad_norm_inf"],
            "{'eval_loss': nan}": ["eval_loss_nan", "loss_nan"],
            "step: 40  loss: nan  tps: 6,892": ["loss_nan"],
            " iteration 7/ 9 | lm loss: NAN | grad norm: -inf |": [
                "lm_loss_nan", "loss_nan", "grad_norm_inf",
            ],
            "loss=tensor(nan, device='cuda:0', grad_fn=<X>)": ["loss_nan"],
            "Loss is nan, stopping training": ["loss_nan"],
            "训练几步后 loss 变成 nan": ["loss_nan"],
            "grad_norm nan from step 1": ["grad_norm_nan"],
            "{'loss': 0.0, 'grad_norm': 1.4142135623730951}": [
                *("loss_zero", "grad_norm_sqrt2"),
            ],
            "step 7 total_norm: 1.7320508": ["grad_norm_sqrt3"],
            "{'loss': 1.4142135, 'grad_norm': 1.4147}": [],
            "layer3.bn1.running_var nan": ["running_var_nan"],
            "loss 0.0 grad_norm nan": ["loss_zero", "grad_norm_nan"],
            "step 12 loss 0.0000 grad_norm nan lr 1e-5": ["loss_zero", "grad_norm_nan"],
            "Epoch [1/3], Step [9/99] | Loss 0 | Grad Norm inf": [
                *("loss_zero", "grad_norm_inf"),
            ],
            "第 12 步 loss 0.0，grad_norm nan": ["loss_zero", "grad_norm_nan"],
            "loss 为 0 grad_norm nan": ["loss_zero", "grad_norm_nan"],
            "loss 0.0 grad_norm 1.4142135623730951": ["loss_zero", "grad_norm_sqrt2"],
            "step 3 loss 0.02 grad_norm nan": ["grad_norm_nan"],
            "loss 0 in 10 of 12 runs, grad_norm nan": ["grad_norm_nan"],
            "packet loss 0 of 12": [],
            "weight loss 0 kg, step 3 lr 0": [],
            "loss 0.0.1 lr 1": [],
            "[epoch 1] ctc loss: inf  lr 1.0e-3": ["ctc_loss_inf", "loss_inf"],
            "'reward_std': nan": ["reward_std_nan"],
            "9/540 [00:09<04:51, v_num=4, train_loss=nan.0]": [
                "train_loss_nan", "loss_nan",
            ],
            "wandb:  train/loss nan": ["loss_nan"],
            "Non-finite loss in step 3, stopping": ["loss_nan"],
            "梯度范数为 nan": ["grad_norm_nan"],
            "{'loss': 0.41, 'grad_norm': 0.7, 'learning_rate': 0.0}": [],
            "requires_grad=True, returned nan values": [],
            "transformers==4.50.0": [],
        }  # fmt: skip
        for text, expected in rows.items():
            with self.subTest(text):
                self.assertEqual(metrics_in(text).facets, expected)

    def test_line_numbers_of_facets(self) -> None:
        log = "start\r\n{'loss': 3.0}\r\n 1%|#  | 1/9 [00:01<00:08]\r{'loss': nan}\r\n"
        self.assertEqual(read_log(log).facets, {"loss_nan": 3})


class ErrorIdTests(SimpleTestCase):
    def test_names(self) -> None:
        rows: dict[str, set[str]] = {
            "visit https://x.org/gb/gb0170.html": {"gb:0170"},
            "CUDA error: an illegal memory access was encountered": {
                "cuda:illegaladdress"
            },
            "Search for `cudaErrorIllegalAddress' in": {"cuda:illegaladdress"},
            "CUDA_ERROR_ILLEGAL_ADDRESS": {"cuda:illegaladdress"},
            "CUDA_ERROR_LAUNCH_FAILED": {"cuda:launchfailure"},
            "CUBLAS_STATUS_EXECUTION_FAILED when calling": {
                "cublas:cublas_status_execution_failed"
            },
            "cuDNN error: CUDNN_STATUS_NOT_SUPPORTED": {
                "cudnn:cudnn_status_not_supported"
            },
            "ncclUnhandledCudaError: Call to CUDA function failed": {
                "nccl:ncclunhandledcudaerror"
            },
            "NVRM: Xid (PCI:0000:3b:00): 79, pid=1": {"xid:79"},
            "Function 'MulBackward0' returned nan values": {"op:MulBackward"},
            "47.62GiB, 2 GB0, gbm0012": set(),
        }
        for text, expected in rows.items():
            with self.subTest(text):
                found = error_ids(text)
                self.assertEqual(found, expected)

    def test_a_name_that_contradicts(self) -> None:
        illegal = error_ids("CUDA error: an illegal memory access was encountered")
        aligned = error_ids("CUDA error: misaligned address")
        nccl = error_ids("ncclSystemError: x")
        self.assertTrue(contradict(illegal, aligned))
        self.assertFalse(contradict(illegal, illegal | aligned))
        self.assertFalse(contradict(illegal, nccl))
        self.assertFalse(contradict(illegal, frozenset()))


class CapTests(SimpleTestCase):
    def read(self, text: str) -> Reading:
        return read_log(text)

    def test_only_head_and_tail_are_read(self) -> None:
        lines = ["x"] * (HEAD_LINES + TAIL_LINES + 10)
        lines[HEAD_LINES - 1] = "RuntimeError: last of the head"
        lines[HEAD_LINES] = "RuntimeError: in the gap"
        lines[HEAD_LINES + 10] = "RuntimeError: first of the tail"
        reading = self.read("\n".join(lines))
        self.assertEqual(
            [(line.number, line.text) for line in reading.key_lines],
            [(HEAD_LINES, "last of the head"), (HEAD_LINES + 11, "first of the tail")],
        )
        self.assertEqual(reading.cut_lines, 10)
        self.assertEqual(reading.cut_bytes, len("RuntimeError: in the gap") + 1 + 9 * 2)

    def test_long_lines_are_cut(self) -> None:
        reading = self.read("a" * LINE_CHARS + " RuntimeError: far away")
        self.assertEqual(reading.key_lines, [])
        self.assertEqual(reading.cut_bytes, len(" RuntimeError: far away"))

    def test_what_a_bar_overwrote_is_cut_in_its_middle(self) -> None:
        pieces = ["x" * 10] * 500
        pieces[15] = "RuntimeError: among the first"
        pieces[100] = "RuntimeError: in the gap"
        pieces[-5] = "RuntimeError: among the last"
        reading = self.read("\r".join(pieces) + "\nend")
        self.assertEqual(
            [line.text for line in reading.key_lines],
            ["among the first", "among the last"],
        )
        self.assertEqual(reading.cut_bytes, 279 * 11 + len(pieces[100]) + 1)

    def test_nothing(self) -> None:
        self.assertEqual(self.read("").key_lines, [])


class SignatureTests(SimpleTestCase):
    def test_kinds(self) -> None:
        rows = [
            ("message", "RuntimeError: sizes mismatch here", "message"),
            ("message", "'eval_loss': nan", "facet"),
            ("message", "Float8 training active with recipe rowwise", "remark"),
            ("code", "GB0012", "code"),
            ("frame", "/x/site-packages/torch/_tensor.py", "frame"),
            ("facet", "loss_nan", "facet"),
        ]
        for kind, text, expected in rows:
            with self.subTest(text):
                kinds = {signature.kind for signature in read_signature(kind, text)}
                self.assertEqual(kinds, {expected})

    def test_short_messages_tell_nothing_alone(self) -> None:
        (short,) = read_signature("message", "RuntimeError: invalid value")
        (long,) = read_signature(
            "message",
            "RuntimeError: none of output has requires_grad=True, not necessary",
        )
        self.assertFalse(short.is_telling)
        self.assertTrue(long.is_telling)
