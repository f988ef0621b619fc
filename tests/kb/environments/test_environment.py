"""Environments as people paste them: every form gives the same facts."""

import time
import tomllib
from typing import Any

from django.test import SimpleTestCase

from kb.environments.cards import cards_told
from kb.environments.environment import (
    Environment,
    find_environment,
    of_packages,
    only_environment,
    parse_environment,
)
from kb.environments.hardware import architecture, gpu_names, meets
from kb.environments.images import torch_of_image
from kb.environments.package_lines import canonical
from kb.environments.spoken import spoken_of, stated_in
from tests import TESTS

METRICS = "{'loss': 0.0, 'grad_norm': nan, 'learning_rate': 4.995131923687488e-05}"
PASTES = TESTS / "environments" / "pastes.toml"

FREEZE = """\
-e git+https://github.com/fla-org/flash-linear-attention@aa583eb7822893#egg=fla
flash_attn==2.7.4.post1
numpy==2.4.6
torch @ file:///tmp/torch-2.5.0%2Bcu124-cp311-cp311-linux_x86_64.whl#sha256=0123
# a comment
torchao==0.9.0 ; python_version >= "3.9"
transformers[torch]==4.50.0
"""
COLLECT_ENV = """\
Collecting environment information...
PyTorch version: 2.5.1+cu124
Is debug build: False
CUDA used to build PyTorch: 12.4
ROCM used to build PyTorch: N/A

OS: Ubuntu 22.04.4 LTS (x86_64)
GCC version: (Ubuntu 11.4.0-1ubuntu1~22.04) 11.4.0
Clang version: 14.0.0-1ubuntu1.1
CMake version: version 3.30.5
Libc version: glibc-2.35

Python version: 3.10.12 (main, Sep 11 2024, 15:47:36) [GCC 11.4.0] (64-bit runtime)
Python platform: Linux-5.15.0-117-generic-x86_64-with-glibc2.35
Is CUDA available: True
CUDA runtime version: 12.4.131
GPU models and configuration:
GPU 0: NVIDIA H100 80GB HBM3
GPU 1: NVIDIA H100 80GB HBM3

Nvidia driver version: 550.54.15
cuDNN version: Could not collect
Is XNNPACK available: True

CPU:
Architecture:                       x86_64
CPU MHz:                            2000.178
BogoMIPS:                           4000.35

Versions of relevant libraries:
[pip3] numpy==1.26.4
[pip3] torch==2.5.1
[conda] triton                    3.1.0                    pypi_0    pypi
"""
CONDA = """\
# packages in environment at /x/envs/train:
#
# Name                    Version                   Build  Channel
numpy                     1.26.4          py310h5f9d8c6_0
pytorch                   2.5.1           py3.10_cuda12.4_cudnn9.1.0_0    pytorch
"""
BULLETS = """\
### 环境信息
- PEFT: 0.15.0
- `transformers` version: 4.50.0
* PyTorch version (GPU?): 2.6.0a0+df5bbc09d1.nv24.12 (True)
- **Datasets**：3.4.1
- GPU type: NVIDIA A800-SXM4-80GB
"""
PIP_LIST = """\
Package      Version
------------ -----------
numpy        2.4.6
torch        2.13.0+cpu
"""


class DeviceTest(SimpleTestCase):
    def test_a_device_without_a_card(self) -> None:
        for text, device in (
            ("tensor([nan, nan], device='mps:0')", "mps"),
            ("model.to('cuda')", "cuda"),
            ("torch 2.7.1 on an M2 Mac", "mps"),
            ("torch 2.7.1, ROCm 6.3", "rocm"),
            ("torch 2.7.1，昇腾", "npu"),
            ("torch 2.7.1, CPU only", "cpu"),
            ("torch 2.7.1 没有 GPU", "cpu"),
            ("torch 2.7.1+cu128", ""),
        ):
            with self.subTest(text):
                self.assertEqual(parse_environment(text).device, device)
        log = "RuntimeError: expected device='mps:0' but ROCm 6.3"
        self.assertEqual(find_environment(log).device, "mps")

    def test_a_card_beside_a_pin(self) -> None:
        found = parse_environment("torch==2.9.1+cu128 H100")
        self.assertEqual((found.torch_raw, found.gpus), ("2.9.1+cu128", ("H100",)))
        self.assertEqual(parse_environment("nvidia-nccl-cu12==2.21.5").gpus, ())

    def test_which_lists_are_complete(self) -> None:
        few = "torch==2.5.1\ntransformers==4.50.0\nnumpy==2.0\n"
        self.assertFalse(parse_environment(few).is_complete)
        asked = "filelock==3.17\nsympy==1.13.1\nnetworkx==3.4\n"
        self.assertTrue(parse_environment(few + asked).is_complete)
        self.assertFalse(parse_environment(COLLECT_ENV).is_complete)
        # As many as the report of a command names that chooses them, or a file of pins.
        pins = "\n".join(f"package-{number}==1.{number}" for number in range(16))
        self.assertFalse(parse_environment(f"torch==2.5.1\n{pins}").is_complete)
        many = pins + "\n" + pins.replace("package", "other")
        self.assertTrue(parse_environment(f"torch==2.5.1\n{many}").is_complete)


class ParseTests(SimpleTestCase):
    maxDiff = None

    def test_freeze(self) -> None:
        self.assertEqual(
            parse_environment(FREEZE),
            Environment(
                torch_raw="2.5.0+cu124",
                packages={
                    "flash-linear-attention": "git+https://github.com/fla-org/"
                    "flash-linear-attention@aa583eb7822893",
                    "flash-attn": "2.7.4.post1",
                    "numpy": "2.4.6",
                    "torchao": "0.9.0",
                    "transformers": "4.50.0",
                },
                kind="freeze",
            ),
        )

    def test_collect_env(self) -> None:
        self.assertEqual(
            parse_environment(COLLECT_ENV),
            Environment(
                torch_raw="2.5.1+cu124",
                packages={"python": "3.10.12", "numpy": "1.26.4", "triton": "3.1.0"},
                gpu="NVIDIA H100 80GB HBM3",
                kind="collect_env",
                gpus=("NVIDIA H100 80GB HBM3",),
            ),
        )

    def test_conda(self) -> None:
        self.assertEqual(
            parse_environment(CONDA),
            Environment("2.5.1", {"numpy": "1.26.4"}, kind="conda"),
        )

    def test_bullets(self) -> None:
        self.assertEqual(
            parse_environment(BULLETS),
            Environment(
                torch_raw="2.6.0a0+df5bbc09d1.nv24.12",
                packages={
                    "peft": "0.15.0",
                    "transformers": "4.50.0",
                    "datasets": "3.4.1",
                },
                gpu="NVIDIA A800-SXM4-80GB",
                kind="freeze",
                gpus=("NVIDIA A800-SXM4-80GB",),
            ),
        )

    def test_pip_list(self) -> None:
        self.assertEqual(
            parse_environment(PIP_LIST),
            Environment("2.13.0+cpu", {"numpy": "2.4.6"}, kind="freeze"),
        )

    def test_bare_versions(self) -> None:
        rows = {
            "2.6.0a0+df5bbc09d1.nv24.12\n": "2.6.0a0+df5bbc09d1.nv24.12",
            "torch==2.13.0+cpu": "2.13.0+cpu",
            "torch 2.5.1": "2.5.1",
            "PyTorch: 2.5.1": "2.5.1",
            "torch.__version__ = '2.8.0.dev20250404+cu126'": "2.8.0.dev20250404+cu126",
            "'2.5.1+cu121'": "2.5.1+cu121",
            "1.13.0a0": "1.13.0a0",
            "torch==1.13.0a0+gitunknown": "1.13.0a0",
            "PyTorch version: 2.5.1+cu124\n[pip3] torch==2.5.1": "2.5.1+cu124",
            "torch==2.5.1\ntorch.__version__: 2.5.1+cu124": "2.5.1+cu124",
        }
        for text, expected in rows.items():
            with self.subTest(text):
                self.assertEqual(parse_environment(text).torch_raw, expected)

    def test_torch_from_a_commit(self) -> None:
        url = "git+https://github.com/pytorch/pytorch@df5bbc09d191fff3"
        self.assertEqual(parse_environment(f"torch @ {url}").torch_raw, url)

    def test_what_is_not_understood_is_counted(self) -> None:
        found = parse_environment("torch==2.5.1\nhello there\n\ntorch>=2\n")
        self.assertEqual((found.torch_raw, found.unparsed_lines), ("2.5.1", 2))

    def test_nothing(self) -> None:
        self.assertEqual(parse_environment(""), Environment())
        self.assertFalse(parse_environment("hello").is_given)

    def test_names(self) -> None:
        for name in ("Flash_Attn", "flash.attn", "FlashAttention"):
            self.assertEqual(canonical(name), "flash-attn")
        self.assertEqual(parse_environment(FREEZE).version("Flash-Attn"), "2.7.4.post1")
        self.assertEqual(parse_environment(FREEZE).version("torch"), "2.5.0+cu124")


class FindTests(SimpleTestCase):
    def test_a_log_is_not_a_list_of_versions(self) -> None:
        log = (
            "loss: 0.125\nstep: 4.5.6\nx == 3\nlr 0.0005\n"
            "  version 2.5.1 of something\nassert a == b\n"
        )
        self.assertEqual(find_environment(log), Environment())

    def test_what_a_log_says_plainly(self) -> None:
        log = (
            "starting\ntorch==2.6.0\n- Transformers: 4.50.0\n"
            "|   0  NVIDIA H100 80GB HBM3          On  | 00000000:1B:00.0 Off |\n"
        )
        self.assertEqual(
            find_environment(log),
            Environment(
                "2.6.0",
                {"transformers": "4.50.0"},
                gpu="NVIDIA H100 80GB HBM3",
                kind="freeze",
                gpus=("NVIDIA H100 80GB HBM3",),
            ),
        )

    def test_merged(self) -> None:
        given = parse_environment("torch==2.5.1\npeft==0.14.0")
        in_log = find_environment("torch==2.6.0\ntrl==0.9.1")
        merged = given.merged(in_log)
        self.assertEqual(merged.torch_raw, "2.5.1")
        self.assertEqual(merged.packages, {"peft": "0.14.0", "trl": "0.9.1"})


class PasteTests(SimpleTestCase):
    """The corpus in tests/environments/pastes.toml."""

    pastes: list[dict[str, Any]] = tomllib.loads(PASTES.read_text())["paste"]

    def test_as_a_list(self) -> None:
        for paste in self.pastes:
            if "only_log" not in paste:
                with self.subTest(paste["name"]):
                    found = parse_environment(paste["text"])
                    self.check(found, paste)
                    self.assertEqual(found.unparsed_lines, paste.get("unparsed", 0))
                    if found.is_given:
                        self.assertEqual(found.kind, paste.get("kind", "freeze"))

    def test_inside_a_log(self) -> None:
        for paste in self.pastes:
            if "only_log" in paste or "log" in paste:
                with self.subTest(paste["name"]):
                    log = f"Traceback (most recent call last):\n{paste['text']}\nstep 3"
                    self.check(find_environment(log), paste)

    def check(self, found: Environment, paste: dict[str, Any]) -> None:
        self.assertEqual(found.torch_raw, paste.get("torch"))
        self.assertEqual(found.is_given, paste.get("given", True))
        self.assertEqual(found.is_cpu_build, paste.get("is_cpu_build", False))
        for name, version in paste.get("packages", {}).items():
            self.assertEqual(found.version(name), version, name)
        for name in paste.get("absent", ()):
            self.assertIsNone(found.version(name), name)
        if "gpu" in paste and (found.gpu or paste.get("log_gpu", True)):
            self.assertEqual(found.gpu, paste["gpu"])
            self.assertEqual(architecture(found.gpu or ""), paste["arch"])

    def test_whether_a_paste_is_nothing_else(self) -> None:
        for paste in self.pastes:
            if "only_log" not in paste:
                with self.subTest(paste["name"]):
                    is_all = paste.get("given", True) and not paste.get("unparsed")
                    found = only_environment(paste["text"])
                    self.assertEqual(found is not None, is_all)
        complaint = "torch==2.5.1\nRuntimeError: x"
        for text in ("", "hello", complaint, METRICS, "loss 0.25"):
            with self.subTest(text):
                self.assertIsNone(only_environment(text))

    def test_words_behind_a_package(self) -> None:
        rows = {
            "torch 2.5.1 sdpa returns zeros": "sdpa returns zeros",
            "transformers==4.38.1: fp16 nan": "fp16 nan",
            "torch 2.5.1": None,
            "torch 2.5.1+cu121 pypi_0 pypi": None,
            "torch 2.5.1 /usr/lib/python3/dist-packages pip": None,
            "torch 2.5.1 and torchvision 0.20.1": None,
            "torch==2.5.1 ; python_version > '3.8'": None,
            "torch==2.5.1  # via accelerate": None,
            "numpy 1.26.4 sdpa nan": None,
            "torch 2.5.1 sdpa nan\n" * 4: None,
        }
        for text, words in rows.items():
            with self.subTest(text):
                found = [item.words for item in spoken_of(text)]
                self.assertEqual(found, [words] if words else [])

    def test_what_sentences_state(self) -> None:
        """A version that is another's, or one of several, is none of the writer's."""
        rows: dict[str, list[tuple[str, str]]] = {
            "I use PyTorch 2.5.1 and an A100 and get NaN loss.": [("PyTorch", "2.5.1")],
            "in bf16, torch 2.5.1, A100. It worked at first.": [("torch", "2.5.1")],
            "I'm on torch 2.6 with CUDA 12.4; the loss becomes nan": [("torch", "2.6")],
            "loss nan with torch 2.7.0 and flash-attn 2.7.4": [
                ("torch", "2.7.0"),
                ("flash-attn", "2.7.4"),
            ],
            "使用的是 torch2.3，loss 为 nan": [("torch", "2.3")],
            "It works with torch 2.4.0": [],
            "With torch 2.4.0 everything is fine, it began later.": [],
            "After upgrading from torch 2.4 to 2.5.1 the loss is nan": [
                ("torch", "2.5.1")
            ],
            "从 torch 2.4 升级到 2.5.1 之后 loss 变成 nan": [("torch", "2.5.1")],
            "torch 2.4.0 -> 2.5.1 broke my training": [("torch", "2.5.1")],
            "I upgraded PyTorch to 2.6.0, now it is nan": [("PyTorch", "2.6.0")],
            "If I downgrade torch from 2.5.1 to 2.4.0 the NaN disappears": [
                ("torch", "2.5.1")
            ],
            "torch 从 1.12 降到 1.10 就正常了": [("torch", "1.12")],
            "I updated torch to 2.6.0 and it works now": [],
            "I use torch 2.5.1; since peft was updated from 0.9 to 0.10.0 it fails": [
                ("peft", "0.10.0"),
                ("torch", "2.5.1"),
            ],
            "please upgrade to torch 2.5.1": [],
            "用 torch 1.2 以上的 nn.CTCLoss，loss 依然是 nan": [("torch", "1.2")],
            "nan remains with torch 2.6.0 and newer, too": [("torch", "2.6.0")],
            "torch 2.1 or later is needed": [],
            "affects torch 2.0.0 to 2.3.1": [],
            "我用的pytorch 1.2版，自带的 ctc": [("pytorch", "1.2")],
            "Tested with PyTorch 2.1.0, 2.2.0 and 2.3.0: all give NaN": [],
            "torch 2.1 / 2.2 are the same": [],
            "this needs torch 2.4.0": [],
            "it does not happen in torch 2.2.1": [],
            "torch 2.0.1 上正常，loss 没问题": [],
            "the loss is at 2.31 after epoch 2.5": [],
        }
        for line, expected in rows.items():
            with self.subTest(line):
                found = ((item.name, item.version) for item in stated_in(line))
                self.assertEqual(list(dict.fromkeys(found)), expected)

    def test_sentences_that_differ_state_nothing(self) -> None:
        said = [
            package
            for line in ("I use torch 2.5.1.", "My colleague has torch 2.4.0.")
            for package in stated_in(line)
        ]
        self.assertIsNone(of_packages(said).torch_raw)
        self.assertEqual(of_packages(said[:1]).torch_raw, "2.5.1")


class HardwareTests(SimpleTestCase):
    def test_architectures(self) -> None:
        rows = {
            "NVIDIA H100 80GB HBM3": "sm_90",
            "H100-SXM5-80GB": "sm_90",
            "NVIDIA GH200 480GB": "sm_90",
            "H800 PCIe": "sm_90",
            "A100-PCIE-40GB": "sm_80",
            "NVIDIA A800-SXM4-80GB": "sm_80",
            "A10G": "sm_86",
            "RTX A6000": "sm_86",
            "NVIDIA RTX 6000 Ada Generation": "sm_89",
            "RTX 4090D": "sm_89",
            "RTX4090": "sm_89",
            "NVIDIA GeForce RTX 3060 Laptop GPU": "sm_86",
            "NVIDIA GeForce RTX 5090": "sm_120",
            "RTX PRO 6000 Blackwell Server Edition": "sm_120",
            "Quadro RTX 8000": "sm_75",
            "NVIDIA TITAN RTX": "sm_75",
            "TITAN V": "sm_70",
            "GTX 1660 Ti": "sm_75",
            "Tesla T4": "sm_75",
            "Tesla V100S-PCIE-32GB": "sm_70",
            "Tesla P100-PCIE-16GB": "sm_60",
            "B300": "sm_103",
            "AMD Instinct MI250X": "gfx90a",
            "AMD Instinct MI355X": "gfx950",
            "AMD Radeon RX 7900 XTX": "gfx1100",
            "gfx942:sramecc+:xnack-": "gfx942",
            "Apple M2 Ultra": "mps",
            "Ascend 910B3": "ascend",
            "4090": "sm_89",
            "Intel Arc B580": None,
            "Matrox G200": None,
        }
        for name, expected in rows.items():
            with self.subTest(name):
                self.assertEqual(architecture(name), expected)

    def test_names_in_lines(self) -> None:
        rows = {
            "8*A100 80G, NVLink": ["A100 80G"],
            "8xH100": ["H100"],
            "H100 x 8": ["H100"],
            "2 张 4090 显卡": ["4090"],
            "on one A100 and two RTX 3090 Ti": ["A100", "RTX 3090 Ti"],
            "NVIDIA H20 (96 GB)": ["NVIDIA H20"],
            "step 4090 ms 12": [],
            "took 4090 ms": [],
            "loss at L2 of 3.0 in B1": ["L2"],
            "RTX2080ti -> nothing": ["RTX2080ti"],
            'RTX4090 using the "no half vae" box': ["RTX4090"],
            "用的4090显卡": ["4090"],
            "第3060步": [],
            "bf16 on an A100. It worked": ["A100"],
            "A100.sif": [],
            "two A100s, later RTX 3090s": ["A100s", "RTX 3090s"],
            "A100spread": [],
            "A1b, T5, M1": [],
        }
        for line, expected in rows.items():
            with self.subTest(line):
                self.assertEqual(list(gpu_names(line)), expected)

    def test_cards_that_words_name(self) -> None:
        """Without those on which all is well, where there are others."""
        rows = {
            "单卡4090训练 loss nan": ["RTX 4090"],
            "用的4090显卡，训练出现nan": ["RTX 4090"],
            "3090上正常4090上nan": ["RTX 4090"],
            "换到4090之后loss变nan，3090没有问题": ["RTX 4090"],
            "3090 fine 4090 nan": ["RTX 4090"],
            "It appears in 3090, A40, but doesn't appear in A100.": ["RTX 3090", "A40"],
            "On a GTX1080, RTX2080 -> no problems.\nOn RTX3090 I get NaNs": ["RTX3090"],
            "There is no A100 for me, and with six 3090 cards it is nan": ["RTX 3090"],
            "1660ti 训练 loss 全是 nan，换了3060就正常了": ["GTX 1660"],
            "共 3060 训练样本，loss nan": [],
            "all works on RTX4090": [],
            "loss nan at step 3060 with 4090 images, batch 2080 nan": [],
        }
        for text, expected in rows.items():
            with self.subTest(text):
                lines = [(at, line, True) for at, line in enumerate(text.split("\n"))]
                found = [card.name for card in cards_told(lines)]
                self.assertEqual(found, expected)
        self.assertEqual(list(cards_told([(1, "on 4090 nan", False)])), [])

    def test_what_a_record_demands(self) -> None:
        rows: list[tuple[str, list[str], bool | None]] = [
            ("sm_90", ["NVIDIA H100 80GB HBM3"], True),
            ("sm_90", ["NVIDIA A100-SXM4-80GB"], False),
            ("sm_90", ["A100", "H100"], True),
            ("sm_90", ["A100", "some card"], None),
            ("sm_90", [], None),
            ("sm_90a", ["H20"], True),
            ("sm_80+", ["A100"], True),
            ("sm_80+", ["B200"], True),
            ("sm_80+", ["Tesla V100-SXM2-32GB"], False),
            ("sm_80+", ["AMD Instinct MI300X"], False),
            (">= 8.9", ["RTX 4090"], True),
            (">= 8.9", ["A100"], False),
            ("sm_80 及以上", ["H800"], True),
            ("Hopper (H100, H200)", ["H200"], True),
            ("Ampere or Hopper", ["RTX 3090"], True),
            ("gfx942", ["AMD Instinct MI300X"], True),
            ("gfx942", ["H100"], False),
            ("a card with tensor cores", ["H100"], None),
        ]
        for value, gpus, expected in rows:
            with self.subTest(value=value, gpus=gpus):
                self.assertIs(meets(value, gpus), expected)


class ImageTests(SimpleTestCase):
    def test_what_is_no_image_of_torch(self) -> None:
        for text in (
            "pytorch: 2.5.1",
            "nvcr.io/nvidia/nemo:24.12",
            "vllm/vllm-openai:v0.8.5",
            "pytorch/pytorch:latest",
            "flash_attn-2.7.4+cu12torch2.5cxx11abiFALSE",
        ):
            with self.subTest(text):
                self.assertIsNone(torch_of_image(text))


class BoundTests(SimpleTestCase):
    """Hostile lines cost no more than any text of their size: no time squared."""

    PIECES = (
        "a", "1.", "torch 1 ", "torch.1", "(", '"name":1', "-1", " ", "=1", "a=1",
        "[", "A1", ">>> ", "版本1", "torch==1", "git+1", "nvidia 1", "1 ", "a-1", "|",
        "RTX 1", "a|1", "from torch 1.2 to ", "4090 ok ", "4090上正常",
        '{"name": "1", ', "torch version 1", "a1.whl ", "-cp3-", "x.y: 1.2, ", "gpu 1 ",
    )  # fmt: skip

    def test_hostile(self) -> None:
        for piece in self.PIECES:
            line = piece * (20_000 // len(piece))
            for text in (line, f"{line[:100]}\n" * 200, f"GPU: {line}", f"env: {line}"):
                with self.subTest(piece=piece, text=text[:20]):
                    begin = time.process_time()
                    parse_environment(text)
                    find_environment(text)
                    of_packages(stated_in(text))
                    cards_told([(1, text, True)])
                    self.assertLess(time.process_time() - begin, 2.0)
