"""`make bench`: figures as JSON on stdout and as a table on stderr.

Each figure is a ratio inside one run, or a time without a target. What was not
measured is null and not ok. ONLY=search runs one section.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

import django
from django.core.management import call_command

from tests.bench.figures import Figure, table

ROOT = Path(__file__).resolve().parent.parent.parent
# Search last: it leaves 3,000 made records, among which another would be measured.
SECTIONS = ("execution", "answers", "api", "readers", "probe", "search")


def main(wanted: list[str]) -> None:
    call_command("migrate", verbosity=0, interactive=False)
    call_command("collectstatic", verbosity=0, interactive=False)
    call_command("load_records", stdout=sys.stderr)
    found: list[Figure] = []
    for section in wanted:
        # Only after django.setup() can they be imported.
        module = importlib.import_module(f"tests.bench.{section}")
        figures = module.figures()
        print(f"\n{section}\n{table(figures, section)}", file=sys.stderr, flush=True)
        found += [{"section": section, **item} for item in figures]
    print(json.dumps({"figures": found}, indent=1), flush=True)


def chosen() -> list[str]:
    """The sections of $ONLY, in their order; all of them without."""
    if sys.argv[1:]:
        raise SystemExit(f"No arguments; ONLY names sections: {', '.join(SECTIONS)}")
    only = os.environ.get("ONLY", "").replace(",", " ").split()
    unknown = set(only) - set(SECTIONS)
    if unknown:
        raise SystemExit(f"ONLY takes {', '.join(SECTIONS)}, not {', '.join(unknown)}")
    folder = Path(__file__).parent
    here = [name for name in SECTIONS if (folder / f"{name}.py").exists()]
    return [name for name in here if name in only or not only]


if __name__ == "__main__":
    sections = chosen()
    # A database of its own; the builds are the project's.
    data = Path(os.environ.get("DATA_DIR") or ROOT / "var").absolute()
    os.environ.setdefault("BUILDS_DIR", str(data / "builds"))
    folder = tempfile.mkdtemp(prefix="doesitnan-bench-")
    os.environ |= {"DATA_DIR": folder, "DJANGO_SETTINGS_MODULE": "config.settings"}
    os.environ.pop("DATABASE_URL", None)
    os.environ["SECRET_KEY"] = folder
    try:
        django.setup()
        main(sections)
    finally:
        shutil.rmtree(folder)
