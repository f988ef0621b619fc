"""nan_probe.py: the package in portable/ as one file, written when it is served."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.staticfiles.finders import BaseFinder
from django.core.files.storage import FileSystemStorage

from runner.takeaway.bundle import Carrier

NAME = "nan_probe.py"
PACKAGE = Path(settings.BASE_DIR) / "portable" / "nan_probe"


class Probe(Carrier):
    program = "nan_probe"
    end = "importing.py"
    notes = (
        "Which op made the first NaN or Inf of a training step?",
        "训练中的第一个 NaN 或 Inf 由哪个算子产生？",
        f"python {NAME} train.py ARGUMENTS: the script as it is / 无需改动脚本",
        "import nan_probe: what it offers stands in __init__.py below / 用法见下",
    )

    def parts(self) -> dict[str, str]:
        return modules()


def modules() -> dict[str, str]:
    """File name -> text; what a reader looks for stands first."""
    paths = sorted(PACKAGE.glob("*.py"))
    return {path.name: path.read_text("utf-8") for path in paths}


def nan_probe() -> str:
    return Probe().text()


class ProbeFinder(BaseFinder):
    """Offers the file at the address of static files, up to date each time."""

    def written(self) -> FileSystemStorage:
        folder = Path(settings.DATA_DIR) / "takeaway"
        path, text = folder / NAME, nan_probe()
        if not path.exists() or path.read_text("utf-8") != text:
            folder.mkdir(parents=True, exist_ok=True)
            new = folder / (NAME + ".new")
            new.write_text(text, "utf-8")
            new.replace(path)
        return FileSystemStorage(location=folder)

    def find(self, path: str, find_all: bool = False, **_: Any) -> Any:
        if path != NAME:
            return []
        found = self.written().path(NAME)
        return [found] if find_all else found

    def list(
        self, ignore_patterns: Callable[..., Any] | Any
    ) -> Iterator[tuple[str, FileSystemStorage]]:
        yield NAME, self.written()
