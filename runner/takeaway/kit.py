"""The kit: reviewed repros, harness and wheels in one file, for a node without network.

`python kit.zip` starts the doctor's machinery with a schedule (programs/kit.py). The
file is a zip whose `__main__.py` carries the parts, as the doctor does, with the wheels
beside it.
"""

from __future__ import annotations

import importlib.util
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from kb.models import Repro
from portable import harness
from runner.takeaway.bundle import Bundle, Json, about, modules_of
from runner.takeaway.doctor import Doctor
from runner.takeaway.sweeps import Axes
from runner.takeaway.telling import Telling
from runner.takeaway.wheels import Wheel

MB = 1_000_000
LIMIT_MB = 60
# NVIDIA's binding of NVML: one file under the BSD licence that stands in it.
NVML = "pynvml"
# The same for the same content: a kit that is made again is the same file.
MADE_AT = (1980, 1, 1, 0, 0, 0)


class TooLarge(Exception):
    """A kit above 60 MB; the text says how much."""


class Kit(Bundle):
    program = "kit"
    notes = (
        "Reviewed repros of training failures of PyTorch, for a machine without a "
        "network.",
        "PyTorch 训练故障的已审核复现脚本，供没有网络的机器使用。",
        "python kit.zip --json evidence.json [--resume evidence.json] "
        "[--budget-s S] [--jobs N] [--only-cuda] [--record ID] "
        "[--sweeps after|no|only] [--lang zh]",
        "Writes that file and below the folder for temporary files; sends nothing.",
        "只写入该文件和临时目录，不上传任何内容。",
    )
    python = ">=3.10"
    modules = (*Doctor.modules, "doctor", "schedule", "node", "kit_sweeps", "kit_words")
    packages = (
        *("kb/rules/sarif.py", "runner/sweeps/cells.py"),
        *modules_of("runner/gpus", but=["__init__.py"]),
    )

    def __init__(
        self,
        repros: Iterable[Repro],
        tells: Mapping[int, Telling],
        stacks: Mapping[int, list[str]],
        wheels: Iterable[Wheel],
        made_for: Mapping[str, str],
        sweeps: Mapping[int, list[Axes]],
    ) -> None:
        """`tells`: by repro id; `stacks`: of each repro the names of its wheels.

        `sweeps`: of each the sweeps that are to be made.
        """
        super().__init__(repros)
        self.tells, self.stacks, self.sweeps = tells, stacks, sweeps
        self.wheels, self.made_for = tuple(wheels), made_for

    def parts(self) -> dict[str, str]:
        return super().parts() | {f"{NVML}.py": nvml_source()}

    def manifest(self) -> Json:
        known = {
            wheel.path.name: {"digest": wheel.digest, "python": wheel.python}
            for wheel in self.wheels
        }
        return {**super().manifest(), "wheels": known, "made_for": dict(self.made_for)}

    def about(self, repro: Repro) -> Json:
        header, checks = harness.read_repro(repro.source)
        in_cell = harness.cell_checks(checks)
        tells = self.tells[repro.pk]
        return {
            **about(repro),
            "any_device": header.any_device,
            "gpus": header.min_devices if header.device == "cuda" else 0,
            "compiles": "compiler" in header.needs,
            "checks": len(harness.check_order(checks, header.trials)),
            "cell_checks": len(harness.check_order(in_cell, header.trials)[1:]),
            "sweeps": self.sweeps.get(repro.pk, []),
            "wheels": self.stacks.get(repro.pk, []),
            "unseen": tells.unseen,
            "decides": tells.decides,
            "usual_s": tells.usual_s,
        }

    def write(self, path: Path) -> int:
        """The file, whole or not at all; its size in bytes. Raises TooLarge."""
        part = path.with_name(f"{path.name}.part")
        try:
            with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as file:
                put(file, "__main__.py", self.text().encode())
                for wheel in self.wheels:
                    # Compressed already.
                    put(file, f"wheels/{wheel.path.name}", wheel.data, packed=True)
            size = part.stat().st_size
            if size > LIMIT_MB * MB:
                raise TooLarge(f"It would have {size / MB:.0f} MB, above {LIMIT_MB}.")
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
        return size


def put(file: zipfile.ZipFile, name: str, data: bytes, *, packed: bool = False) -> None:
    entry = zipfile.ZipInfo(name, MADE_AT)
    entry.external_attr = 0o644 << 16
    method = zipfile.ZIP_STORED if packed else zipfile.ZIP_DEFLATED
    file.writestr(entry, data, compress_type=method, compresslevel=9)


def nvml_source() -> str:
    """pynvml as it is installed here; the site needs it itself."""
    spec = importlib.util.find_spec(NVML)
    path = spec.origin if spec else None
    return Path(path).read_text("utf-8") if path else ""
