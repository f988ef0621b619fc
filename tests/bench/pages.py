"""How long pages and a look-up take, on the shipped records and with many more.

Every page is also timed on a site with 10,000 records and 100,000 runs beside one with
100 and 1,000 (tests.bench.crowd), each in a process of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from django.test import Client, override_settings

from kb.lookup.answer import look_up
from tests.bench.figures import Figure, figure, seconds

ROOT = Path(__file__).resolve().parent.parent.parent
FEW, MANY = 100, 10_000
# Pages that work out what many records show before they answer, in milliseconds.
BEFORE_THE_FIRST_BYTE = {
    "claims": "<= 150",
    "contradictions": "<= 150",
    "comparison": "<= 100",
    "comparison over the API": "<= 100",
}
# Of these what all records show is the work: they grow with them.
ALL_OF_THE_RECORDS = {
    "comparison, each of another pair": "<= 100",
    "comparison over the API, each of another pair": "<= 100",
    "comparison with nothing in memory, without its page": "<= 100",
}
LOG = (
    "UserWarning: cuDNN SDPA backward got grad_output.strides() != output.strides(), "
    "attempting to materialize a grad_output with matching strides\n"
    + "{'loss': 2.31, 'grad_norm': nan, 'learning_rate': 0.0001}\n" * 40
    + "- PyTorch: 2.6.0a0+df5bbc09d1.nv24.12\n"
)


# Pages are made here each time; `readers` has them from memory.
@override_settings(PAGE_CACHE_SECONDS=0)
def figures() -> list[Figure]:
    client = Client(SERVER_NAME="localhost")

    def get(path: str) -> Callable[[], None]:
        def work() -> None:
            answer = client.get(path)
            if answer.status_code != 200:
                raise SystemExit(f"{path} answered {answer.status_code}")
            list(answer)

        return work

    health, front = seconds(get("/healthz"), 50), seconds(get("/en/"), 50)
    page = seconds(get("/en/NAN-0002/checkpoint-reentrant-lost-grad/"), 30)
    lookup = seconds(lambda: look_up(LOG), 30)
    return [
        figure("page without content, median", health * 1000, "ms"),
        figure("front page, median", front * 1000, "ms"),
        figure("front page / page without content", front / health, "x"),
        figure("record page, median", page * 1000, "ms"),
        figure("look-up of a pasted log, median", lookup * 1000, "ms"),
        *crowds(),
    ]


def crowds() -> Iterator[Figure]:
    """Each page with MANY records against the same page with FEW.

    Both sites are asked at the same time: what else the machine does is the same.
    """
    with tempfile.TemporaryDirectory(prefix="doesitnan-pages-") as folder:
        counts = FEW, MANY
        for count in counts:
            finished(crowd(count, folder, "--fill"))
        asked = [crowd(count, folder) for count in counts]
        few, many = (json.loads(finished(process)) for process in asked)
    for name, time in many.items():
        wanted = (BEFORE_THE_FIRST_BYTE | ALL_OF_THE_RECORDS).get(name, "")
        yield figure(f"{name}, {MANY} records", time * 1000, "ms CPU", wanted)
        most = "" if name in ALL_OF_THE_RECORDS else "<= 3"
        yield figure(f"  / with {FEW}", time / few[name], "x", most)


def crowd(count: int, folder: str, *options: str) -> subprocess.Popen[bytes]:
    """The process of a site with so many records, in a folder below `folder`."""
    data = Path(folder, str(count))
    data.mkdir(exist_ok=True)
    environ = os.environ | {"DATA_DIR": str(data), "SECRET_KEY": "bench"}
    environ["PAGE_CACHE_SECONDS"] = "0"
    environ.pop("DATABASE_URL", None)
    return subprocess.Popen(
        [sys.executable, "-m", "tests.bench.crowd", str(count), *options],
        env=environ,
        cwd=ROOT,
        stdout=subprocess.PIPE,
    )


def finished(process: subprocess.Popen[bytes]) -> bytes:
    """What it printed. Raises SystemExit where it failed."""
    printed, _nothing = process.communicate()
    if process.returncode:
        raise SystemExit(f"{process.args!r} ended with {process.returncode}")
    return printed
