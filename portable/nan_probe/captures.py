"""capture.json: written whole or not at all, distrusted when read, run on any torch."""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import json
import os
import platform
import shutil
import sys
import tempfile

import torch

from .calls import Missing, Run, decoded, encoded
from .catching import asked, last_line
from .drafting import drafted, repro_of
from .explaining import CLASSES, explained, ways, word
from .known import known_by
from .schema import KIND, LARGEST, VERSION, Refused, checked, digest_of, is_slice
from .shrinking import FAILS, Shrinker

# What a call may raise: an ordinary answer of torch, and no number is told of it.
TROUBLES = (*FAILS, NotImplementedError, AttributeError, LookupError, ArithmeticError)
TROUBLES += (MemoryError, AssertionError)
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
    name, args = call["function"], call["args"]
    # What a function hands on to modes with its arguments: its defaults, and where
    # its warnings point to.
    kwargs = {key: one for key, one in call["kwargs"].items() if one is not None}
    kwargs.pop("_stacklevel", None)
    is_gradient = call["direction"] == "backward" and call["gradients"] is not None
    if name is not None and is_gradient:
        for one in (*call["gradients"], None):
            yield Run(
                name, args, kwargs, ones(name, args, kwargs) if one is None else one
            )
    elif name is not None:
        yield Run(name, args, kwargs)
    aten, operands = call["aten"]
    yield Run(aten, operands)


def ones(name, args, kwargs):
    """The gradient of a sum, where what came in from above was not seen."""
    try:
        return torch.ones_like(Run(name, args, kwargs)()[0])
    except TROUBLES:
        return torch.ones(())


def shrink(path, folder):
    """What the child does: the capture's folder on its last line."""
    call = torch.load(path)
    why = "no function of it is among those that are run"
    for run in candidates(call):
        try:
            run.check(run.args)
            shrinker = Shrinker(run)
            made = capture_of(shrinker.shrunk(), call)
            made["shrunk"] = {
                "from": run.numbers(),
                "to": shrinker.size(),
                "tries": shrinker.tries,
            }
            print(written(made, folder))
        except (ValueError, LookupError) as error:
            why = str(error)
            continue
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
        "value": word(results),
        **({"slice": call["slice"]} if is_slice(call.get("slice")) else {}),
        **explained(run),
        "environment": {
            "torch": torch.__version__,
            "python": platform.python_version(),
            "system": platform.system(),
            "machine": platform.machine(),
        },
    }


def written(capture, folder):
    """The capture's folder, which gets its name once it is complete.

    Raises Refused for what nobody could read again.
    """
    capture = {**capture, "digest": digest_of(capture)}
    whole = json.dumps(capture, indent=1) + "\n"
    checked(whole)
    name = "{}-{}".format(capture["call"]["function"], capture["digest"][:12])
    new = tempfile.mkdtemp(prefix=".new-", dir=folder)
    for file, text in (
        ("capture.json", whole),
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
    with open(path, "rb") as file:
        return checked(file.read(LARGEST + 1))


def run_of(capture):
    call = capture["call"]
    return Run(
        call["function"],
        [decoded(one) for one in call["args"]],
        {name: decoded(one) for name, one in call["kwargs"].items()},
        decoded(call["gradient"]),
    )


def outcome(capture):
    """What a checked capture's call gives on this torch; never one of its numbers."""
    found = {"torch": torch.__version__}
    try:
        run = run_of(capture)
        results = run()
        if not results:
            raise Refused("value", "it gives nothing that could be finite")
        found.update(counted(results))
        if found["status"] == PRESENT:
            found.update(explained(run), ways=ways(run))
    except Missing as error:
        found.update(status=NOT_APPLICABLE, said=line_of(error))
    except TROUBLES as error:
        return {**found, "status": TROUBLE, "said": line_of(error)}
    return found


def diagnosed(capture, name, code, operands):
    """What a record's own diagnosis answers for the captured operands, or None.

    Code, its function's name and the expression of its arguments are the record's:
    nothing of a capture is run.
    """
    run = run_of(capture)
    names = dict.fromkeys("abcdefgh")
    names.update(zip("abcdefgh", run.args), kwargs=run.kwargs, torch=torch)
    try:
        exec(code, names)
        return bool(eval(f"{name}({operands})", names))
    except TROUBLES:
        return None


def line_of(error):
    """An error of torch in one line, which a stranger's words cannot fill."""
    text = " ".join((str(error) or type(error).__name__).split())
    return "".join(one if one.isprintable() else "?" for one in text)[:300]


def counted(results):
    total = sum(one.numel() for one in results)
    floats = [one.float() if one.element_size() == 1 else one for one in results]
    nan = sum(int(one.isnan().sum()) for one in floats)
    bad = sum(int((~one.isfinite()).sum()) for one in floats)
    said = f"{bad} of {total} numbers are not finite"
    return {
        "status": PRESENT if bad else ABSENT,
        "said": said if bad else f"all {total} numbers are finite",
        "total": total,
        "nan": nan,
        "inf": bad - nan,
        "digest": digest_of_results(results),
    }


def digest_of_results(results):
    """By which equal results of two builds are known, and no number is."""
    found = hashlib.sha256()
    for one in results:
        plain = one.detach().cpu().resolve_conj().resolve_neg().contiguous()
        found.update(f"{plain.dtype} {list(plain.shape)}\n".encode())
        size = plain.numel() * plain.element_size()
        found.update(ctypes.string_at(plain.data_ptr(), size) if size else b"")
    return found.hexdigest()[:16]


# --- telling of one ---


def markdown(capture, rows):
    """What one posts below an issue."""
    heals = (
        "; ".join(f"`{one}`" for one in capture["heals"]) or "nothing that was tried"
    )
    same, _ = known_by(capture.get("slice"), capture["law"])
    environment = ", ".join(f"{k} {v}" for k, v in capture["environment"].items())
    return "\n".join(
        [
            "```python",
            repro_of(run_of(capture)).rstrip(),
            "```",
            f"Law: {capture['law']}. Class: {CLASSES[capture['class']]}.",
            f"Heals this very case: {heals}.",
            *(f"Known: {one}, whose trigger has this very slice." for one in same),
            "",
            "| torch | this call | |",
            "|---|---|---|",
            *(f"| {torch} | {word} | {said} |" for torch, word, said in rows),
            "",
            f"Made by {environment}; sha256 {capture['digest']}",
        ]
    )


# --- the command ---

FLAGS = {
    "--markdown": "print Markdown for an issue / 输出 Markdown",
    "--bisect": "find the two Pythons between which it changes / 在哪两者之间改变",
    "--draft": "print a repro as JSON / 输出复现脚本草稿",
    "--json": "print one line of JSON / 输出一行 JSON",
}


def parser():
    found = argparse.ArgumentParser(
        prog="nan_probe capture.json",
        description="Runs a captured call. / 运行捕获到的调用。",
        epilog="Exit status: 1 not finite, 0 finite, 125 cannot run on this torch, 2 "
        "refused. With several Pythons: the status of the last.",
    )
    found.add_argument("capture", help="capture.json, or its folder / 捕获或其文件夹")
    found.add_argument(
        "--python",
        action="append",
        help="run it with this Python: a path, or a build below $BUILDS_DIR; "
        "repeatable / 用此 Python 运行，可多次给出",
    )
    for flag, does in FLAGS.items():
        found.add_argument(flag, action="store_true", help=does)
    return found


def main(arguments):
    options = parser().parse_args(arguments)
    try:
        capture = read(options.capture)
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
        rows = [outcome(capture)]
    tell(options, capture, rows)
    return rows[-1]["status"]


def python_of(named):
    """A Python by its path, or by the slug of a build as a site keeps them."""
    builds = os.environ.get("BUILDS_DIR", os.path.join("var", "builds"))
    path = os.path.join(builds, named, "bin", "python")
    return path if os.path.isfile(path) else named


def elsewhere(python, path):
    """A fresh process under another Python; what it says in one line."""
    done = asked([os.path.abspath(path), "--json"], 300, python)
    try:
        return json.loads(done.stdout)
    except ValueError:
        said = last_line(done.stderr)
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
    parts = version.split("+")[0].split(".")
    return [int("".join(filter(str.isdigit, part)) or 0) for part in parts]
