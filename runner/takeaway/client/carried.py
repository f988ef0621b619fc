"""The files that a site serves, as the wheel carries them, and how one is started.

`carried.json` holds sections that the files share and of which sections each is made,
so that 90 files that all have the harness in them are one harness large. A file comes
out of it byte for byte as the site serves it, with the digests that it checks.
"""

import contextlib
import json
import os
import pkgutil
import runpy
import sys
import tempfile
from functools import lru_cache
from typing import Any, Dict, Iterator, List

Json = Dict[str, Any]


class Missing(Exception):
    """What is asked for is not carried; the text says what is."""


@lru_cache(maxsize=None)
def everything() -> Json:
    data = pkgutil.get_data(__package__ or "doesitnan", "carried.json")
    found: Json = json.loads((data or b"").decode("utf-8"))
    return found


def text_of(name: str) -> str:
    """The file of this name: "doctor.py", "NAN-0002/repro.py"."""
    sections: List[str] = everything()["sections"]
    return "".join(sections[at] for at in everything()["files"][name])


def names() -> List[str]:
    """Of every repro, such as "NAN-0002/repro.py", in order."""
    return sorted(name for name in everything()["files"] if "/" in name)


def records() -> List[str]:
    return sorted({name.partition("/")[0] for name in names()})


def repro(asked: str) -> str:
    """The name of the file for NAN-0002, nan-0002 or NAN-0002/other.

    Raises Missing where there is none, or several and none of them is called repro.
    """
    record, _, name = asked.partition("/")
    found = [one for one in names() if one.startswith(record.upper() + "/")]
    wanted = "%s/%s" % (record.upper(), (name or "repro").replace(".py", "") + ".py")
    if wanted in found:
        return wanted
    if not name and len(found) == 1:
        return found[0]
    if found:
        shown = ", ".join(one[: -len(".py")] for one in found)
        raise Missing("there are %s: name one" % shown)
    raise Missing(
        "no repro of %s is in this copy (%s to %s); the site has the newest copy"
        % (asked, records()[0], records()[-1])
    )


@contextlib.contextmanager
def laid_out(name: str) -> Iterator[str]:
    """The path of a carried file, which is there for the block."""
    with tempfile.TemporaryDirectory(prefix="doesitnan-") as folder:
        path = os.path.join(folder, name.replace("/", "-"))
        with open(path, "wb") as file:
            file.write(text_of(name).encode("utf-8"))
        yield path


def start(name: str, arguments: List[str]) -> int:
    """Run a carried file in this process, as `python FILE ARGUMENTS` would.

    Raises SystemExit, as the file does.
    """
    with laid_out(name) as path:
        sys.argv[:] = [path, *arguments]
        runpy.run_path(path, run_name="__main__")
    return 0
