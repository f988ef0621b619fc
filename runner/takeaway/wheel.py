"""The client as a wheel: what the single files are made of, in one package.

Written as a wheel is defined (PEP 427), without a build backend: the site serves it
from memory, and would need that backend wherever it runs. The same records give the
same bytes, and other content another version: installers keep what has the same one.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
import tomllib
import zipfile
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from django.conf import settings

from kb.search.index.generation import Generation
from kb.syndication import dates
from runner.takeaway.doctor import doctor, published_repros
from runner.takeaway.lint import lint
from runner.takeaway.pipe import pipe_client
from runner.takeaway.probe import modules, nan_probe
from runner.takeaway.single_file import single_file

NAME = "doesitnan"
CLIENT = Path(__file__).parent / "client"
# The earliest that a zip file can tell; when it was made is no part of it.
EPOCH = (1980, 1, 1, 0, 0, 0)
PLAIN_FILE = 0o100644 << 16
# Where a file that users take away has its next part (runner.takeaway.bundle).
NEXT_PART = re.compile(r"^(?=PARTS\['|# mypy: ignore-errors$)", re.MULTILINE)
METADATA = """\
Metadata-Version: 2.4
Name: doesitnan
Version: {version}
Summary: Look up, reproduce and avoid known training failures of PyTorch
License-Expression: Apache-2.0
License-File: LICENSE
Requires-Python: >=3.8
Keywords: pytorch,nan,gradients,training,debugging
Classifier: Environment :: Console
Classifier: Natural Language :: Chinese (Simplified)
Classifier: Natural Language :: English
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: Python :: 3
Classifier: Topic :: Scientific/Engineering :: Artificial Intelligence
Classifier: Topic :: Software Development :: Debuggers
{urls}Description-Content-Type: text/markdown

Which known failure is this NaN, this lost gradient? `doesitnan lookup train.log` asks a
site, of which DOESITNAN_SITE is the address; `doesitnan run`, `doctor`, `lint` and
`probe` ask none. `doesitnan --help` lists all commands.
"""
KIND = """\
Wheel-Version: 1.0
Generator: does-it-nan ({version})
Root-Is-Purelib: true
Tag: py3-none-any
"""
COMMANDS = """\
[console_scripts]
doesitnan = doesitnan.cli:main
"""


class Wheel(NamedTuple):
    version: str
    data: bytes

    @property
    def name(self) -> str:
        return file_name(NAME, self.version)


def file_name(name: str, version: str) -> str:
    """Of a wheel, with the version in it, as installers want it."""
    return f"{name}-{version}-py3-none-any.whl"


def version_of(files: dict[str, str]) -> str:
    """The project's version, the newest date of the records, and a digest's digits."""
    text = (settings.BASE_DIR / "pyproject.toml").read_text("utf-8")
    project = tomllib.loads(text)["project"]["version"]
    records = {repro.record for repro in published_repros()}
    newest = max((dates.span(record, ())[1] for record in records), default=dates.NEVER)
    digest = hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()
    return f"{project}.post{newest:%Y%m%d}{int(digest[:12], 16) % 10**6:06d}"


@lru_cache(maxsize=2)
def of_site(generation: Generation, site: str) -> Wheel:
    """The wheel of all published records as they were at `generation`."""
    return wheel(site)


def wheel(site: str) -> Wheel:
    """The wheel; it asks `site` where its user names none ("": it has none)."""
    files = package(site)
    version = version_of(files)
    files |= {
        f"{NAME}/version.py": f'VERSION = "{version}"\n',
        f"{NAME}-{version}.dist-info/entry_points.txt": COMMANDS,
    }
    return Wheel(version, packed(NAME, version, files, METADATA, site))


def packed(
    name: str, version: str, files: Mapping[str, str], metadata: str, site: str
) -> bytes:
    """A wheel of these files (path -> text), with what says what it is."""
    info = f"{name}-{version}.dist-info"
    whole = {
        **files,
        f"{info}/licenses/LICENSE": (settings.BASE_DIR / "LICENSE").read_text("utf-8"),
        f"{info}/METADATA": metadata.format(version=version, urls=urls(site)),
        f"{info}/WHEEL": KIND.format(version=version),
    }
    record = f"{info}/RECORD"
    rows = [row(path, text.encode()) for path, text in whole.items()]
    listed = {**whole, record: "".join([*rows, f"{record},,\n"])}
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as zipped:
        for path, text in listed.items():
            entry = zipfile.ZipInfo(path, EPOCH)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, PLAIN_FILE
            zipped.writestr(entry, text.encode())
    return written.getvalue()


def urls(site: str) -> str:
    """Where an index links to."""
    found = {"Homepage": site, "Repository": settings.REPOSITORY_URL}
    return "".join(f"Project-URL: {name}, {at}\n" for name, at in found.items() if at)


def row(path: str, data: bytes) -> str:
    """A line of RECORD, by which an installer checks a file."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=")
    return f"{path},sha256={digest.decode()},{len(data)}\n"


def package(site: str) -> dict[str, str]:
    """Path -> text of all that is installed."""
    found = {f"{NAME}/{path.name}": path.read_text() for path in CLIENT.glob("*.py")}
    found[f"{NAME}/pipe.py"] = pipe_client(site)
    for name, text in modules().items():
        found[f"{NAME}/nan_probe/{name}"] = text
    found[f"{NAME}/carried.json"] = json.dumps(carried(), ensure_ascii=False, indent=0)
    return dict(sorted(found.items()))


def carried() -> dict[str, Any]:
    """The files that a site serves, each as a list of sections that they share."""
    files = {"doctor.py": doctor(), "lint.py": lint(), "nan_probe.py": nan_probe()}
    for repro in published_repros():
        files[f"{repro.record_id}/{repro.name}.py"] = single_file(repro)
    sections: dict[str, int] = {}
    made_of = {
        name: [
            sections.setdefault(part, len(sections)) for part in NEXT_PART.split(text)
        ]
        for name, text in files.items()
    }
    return {"sections": list(sections), "files": made_of}
