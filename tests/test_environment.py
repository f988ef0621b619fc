"""Environments as people paste them: every form gives the same facts."""

from django.test import SimpleTestCase

from kb.environment import Environment, canonical, find_environment, parse_environment

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
            ),
        )

    def test_merged(self) -> None:
        given = parse_environment("torch==2.5.1\npeft==0.14.0")
        in_log = find_environment("torch==2.6.0\ntrl==0.9.1")
        merged = given.merged(in_log)
        self.assertEqual(merged.torch_raw, "2.5.1")
        self.assertEqual(merged.packages, {"peft": "0.14.0", "trl": "0.9.1"})
