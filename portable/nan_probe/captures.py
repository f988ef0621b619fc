"""capture.json: written whole or not at all, read as a stranger's, run on any torch."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile

import torch

from .calls import ALLOWED, Missing, Refused, Run, decoded, encoded
from .catching import myself
from .drafting import drafted, repro_of
from .explaining import CLASSES, explained
from .laws import all_finite
from .shrinking import FAILS, Shrinker

KIND, VERSION, LARGEST = "doesitnan-capture", 1, 2**20
PRESENT, ABSENT, NOT_APPLICABLE, TROUBLE = 1, 0, 125, 2
WORDS = {
    PRESENT: "not finite",
    ABSENT: "finite",
    NOT_APPLICABLE: "cannot run here",
    TROUBLE: "no answer",
}


# --- making one ---


def candidates(call):
    """Runs that may fail by themselves, the public call first."""
    name, args, kwargs = call["function"], call["args"], call["kwargs"]
    if name is not None and call["direction"] == "backward":
        for one in call["gradients"]:
            yield Run(name, args, kwargs, one)
    elif name is not None:
        yield Run(name, args, kwargs)
    aten, operands = call["aten"]
    yield Run(aten, operands)


def shrink(path, folder):
    """What the child does: the capture's folder on its last line."""
    call = torch.load(path)
    why = "no function of it is among those that are run"
    for run in candidates(call):
        shrinker = Shrinker(run)
        numbers = run.numbers()
        try:
            made = capture_of(shrinker.shrunk(), call)
        except (ValueError, LookupError) as error:
            why = str(error)
            continue
        made["shrunk"] = {
            "from": numbers,
            "to": shrinker.size(),
            "tries": shrinker.tries,
        }
        print(written(made, folder))
        return 0
    sys.stderr.write(why + "\n")
    return 1


def capture_of(run, call):
    results = run()
    return {
        "kind": KIND,
        "version": VERSION,
        "call": {
            "function": run.name,
            "args": [encoded(one) for one in run.args],
            "kwargs": {name: encoded(one) for name, one in run.kwargs.items()},
            "gradient": encoded(run.gradient),
        },
        "aten": call["aten"][0],
        "direction": call["direction"],
        "value": "nan" if any(bool(one.isnan().any()) for one in results) else "inf",
        **explained(run),
        "environment": {
            "torch": torch.__version__,
            "python": platform.python_version(),
            "system": platform.system(),
            "machine": platform.machine(),
        },
    }


def digest_of(capture):
    text = json.dumps({**capture, "digest": None}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def written(capture, folder):
    """The capture's folder, which gets its name when all of it is there."""
    capture = {**capture, "digest": digest_of(capture)}
    name = "{}-{}".format(capture["call"]["function"], capture["digest"][:12])
    new = tempfile.mkdtemp(prefix=".new-", dir=folder)
    for file, text in (
        ("capture.json", json.dumps(capture, indent=1) + "\n"),
        ("repro.py", repro_of(run_of(capture))),
    ):
        with open(os.path.join(new, file), "w", encoding="utf-8") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
    final = os.path.join(folder, name)
    if os.path.isdir(final):
        shutil.rmtree(new)
    else:
        os.rename(new, final)
    return final


# --- reading one ---


def read(path):
    """Raises Refused where it is no whole capture."""
    if os.path.isdir(path):
        path = os.path.join(path, "capture.json")
    with open(path, encoding="utf-8") as file:
        text = file.read(LARGEST + 1)
    if len(text) > LARGEST:
        raise Refused("larger than 1 MiB")
    try:
        capture = json.loads(text)
    except ValueError:
        raise Refused("not whole: no JSON") from None
    if not isinstance(capture, dict) or capture.get("kind") != KIND:
        raise Refused("no capture")
    if capture.get("version") != VERSION:
        raise Refused("of another version: {!r}".format(capture.get("version")))
    if capture.get("digest") != digest_of(capture):
        raise Refused("not what was written: its digest differs")
    return capture


def run_of(capture):
    call = capture["call"]
    # Both become source.
    if call["function"] not in ALLOWED:
        raise Refused("{} is not among those that are run".format(call["function"]))
    if not all(map(str.isidentifier, call["kwargs"])):
        raise Refused("an argument whose name is none")
    return Run(
        call["function"],
        [decoded(one) for one in call["args"]],
        {name: decoded(one) for name, one in call["kwargs"].items()},
        decoded(call["gradient"]),
    )


def verdict(capture):
    """(exit status, in words) on this torch."""
    try:
        results = run_of(capture)()
    except Missing as error:
        return NOT_APPLICABLE, str(error)
    except (NotImplementedError, *FAILS, AttributeError, KeyError) as error:
        return TROUBLE, str(error)
    bad = sum(int((~one.isfinite()).sum()) for one in results)
    total = sum(one.numel() for one in results)
    if all_finite(results):
        return ABSENT, f"all {total} numbers are finite"
    return PRESENT, f"{bad} of {total} numbers are not finite"


# --- telling of one ---


def markdown(capture, rows):
    """What one posts below an issue."""
    heals = (
        "; ".join(f"`{one}`" for one in capture["heals"]) or "nothing that was tried"
    )
    environment = ", ".join(f"{k} {v}" for k, v in capture["environment"].items())
    return "\n".join(
        [
            "```python",
            repro_of(run_of(capture)).rstrip(),
            "```",
            f"Law: {capture['law']}. Class: {CLASSES[capture['class']]}.",
            f"Heals this very case: {heals}.",
            "",
            "| torch | this call | |",
            "|---|---|---|",
            *(f"| {torch} | {word} | {said} |" for torch, word, said in rows),
            "",
            f"Made by {environment}; sha256 {capture['digest']}",
        ]
    )


# --- the command ---


def parser():
    found = argparse.ArgumentParser(
        prog="nan_probe capture.json",
        description="Runs a captured call. / 运行捕获到的调用。",
        epilog="Exit status: 1 not finite, 0 finite, 125 cannot run on this torch, "
        "2 refused. With several Pythons: that of the last.",
    )
    found.add_argument("capture", help="capture.json, or its folder")
    found.add_argument(
        "--python",
        action="append",
        help="run it there: a path, or a build below $BUILDS_DIR; may be repeated",
    )
    found.add_argument("--markdown", action="store_true", help="as one posts it")
    found.add_argument("--bisect", action="store_true", help="between which it changes")
    found.add_argument("--draft", action="store_true", help="a record's repro, as JSON")
    found.add_argument("--json", action="store_true", help="one line of JSON")
    return found


def main(arguments):
    options = parser().parse_args(arguments)
    try:
        capture = read(options.capture)
        run_of(capture)
    except Missing:
        pass  # each torch says so for itself
    except (Refused, OSError) as error:
        sys.stderr.write(f"{options.capture}: {error}\n")
        return TROUBLE
    if options.draft:
        print(json.dumps(drafted(run_of(capture), capture)))
        return 0
    if options.python:
        pythons = map(python_of, options.python)
        rows = [elsewhere(python, options.capture) for python in pythons]
    else:
        status, said = verdict(capture)
        rows = [{"torch": torch.__version__, "status": status, "said": said}]
    tell(options, capture, rows)
    return rows[-1]["status"]


def python_of(named):
    """A Python by its path, or by the slug of a build as a site keeps them."""
    builds = os.environ.get("BUILDS_DIR", os.path.join("var", "builds"))
    path = os.path.join(builds, named, "bin", "python")
    return path if os.path.isfile(path) else named


def elsewhere(python, path):
    """A fresh process under another Python; what it says in one line."""
    command, environment = myself(python)
    done = subprocess.run(
        [*command, os.path.abspath(path), "--json"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
        timeout=300,
    )
    try:
        return json.loads(done.stdout)
    except ValueError:
        said = (done.stderr.strip().splitlines() or ["it died"])[-1]
        return {"torch": python, "status": TROUBLE, "said": said}


def tell(options, capture, rows):
    if options.json:
        print(json.dumps(rows[-1]))
        return
    if options.bisect:
        rows = sorted(rows, key=lambda row: release(row["torch"]))
    table = [(row["torch"], WORDS[row["status"]], row["said"]) for row in rows]
    if options.markdown:
        print(markdown(capture, table))
        return
    for row in table:
        print("{}: {} ({})".format(*row))
    if options.bisect:
        for one, other in zip(table, table[1:]):
            if one[1] != other[1]:
                print(f"between {one[0]} ({one[1]}) and {other[0]} ({other[1]})")


def release(version):
    found = []
    for part in version.split("+")[0].split("."):
        digits = "".join(one for one in part if one.isdigit())
        found.append(int(digits or 0))
    return found
