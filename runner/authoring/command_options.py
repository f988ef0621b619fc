"""Arguments that commands about record folders share."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path

from django.conf import settings


def add_root(parser: ArgumentParser) -> None:
    parser.add_argument(
        "root",
        nargs="?",
        type=Path,
        default=settings.ISSUES_DIR,
        help="folder of record folders (default: fixtures/issues)",
    )


def add_logs(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--logs",
        type=Path,
        metavar="FOLDER",
        help="folder of known.toml and known/ (default: tests/logs for records in "
        "fixtures/issues, none for those elsewhere)",
    )
