"""Pasted logs with their answers: what they must be answered with, and what must not.

`tests/logs/known/*.log` are composed around the symptom strings of public reports;
`unknown.toml` and the messages of an installed torch belong to no record.
"""

from __future__ import annotations

import json
import random
import subprocess
import tomllib
from functools import cache
from typing import NamedTuple

from kb.models import Record
from kb.search.reading.cleaning import plain_text
from kb.search.reading.lines import select_lines
from kb.search.reading.log import Reading, read_lines
from kb.search.reading.masks import letters
from kb.search.reading.signatures import MIN_LETTERS, read_signatures
from tests import TESTS
from tests.support.builds import torch_python

LOGS = TESTS / "logs"


def read_log(text: str) -> Reading:
    return read_lines(select_lines(plain_text(text)))


# Runs under a build's own Python: prints the message templates of torch's sources,
# as lists of literal pieces between the holes.
TEMPLATES = """
import ast, json, pathlib, importlib.util as u
root = pathlib.Path(u.find_spec("torch").origin).parent
def pieces(node):
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    if isinstance(node, ast.JoinedStr):
        out = [""]
        for part in node.values:
            if isinstance(part, ast.Constant):
                out[-1] += part.value
            else:
                out.append("")
        return out
    return None
found = []
for folder in ("nn", "optim", "autograd", "distributed", "amp", "utils", "_dynamo"):
    for path in sorted(root.joinpath(folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            call = node.exc if isinstance(node, ast.Raise) else node
            if not (isinstance(call, ast.Call) and call.args):
                continue
            name = getattr(call.func, "id", getattr(call.func, "attr", ""))
            kind = "UserWarning" if name == "warn" else name
            text = pieces(call.args[0])
            if text and kind.endswith(("Error", "Warning")) and len("".join(text)) > 30:
                found.append([kind, text, str(path.relative_to(root.parent))])
print(json.dumps(found))
"""
FILLINGS = (
    "torch.Size([8, 512, 64])",
    "17",
    "torch.bfloat16",
    "cuda:3",
    "<class 'model.Block'>",
    "layers.11.mlp.up_proj.weight",
    "'mean'",
    "4096.5",
)


class Paste(NamedTuple):
    name: str
    text: str
    # The id of the record that answers it; "" where none does.
    record: str


def known() -> list[Paste]:
    answers = tomllib.loads((LOGS / "known.toml").read_text())["known"]
    return [
        Paste(name, (LOGS / "known" / f"{name}.log").read_bytes().decode(), record)
        for name, record in answers.items()
    ]


def unknown() -> list[Paste]:
    pastes = tomllib.loads((LOGS / "unknown.toml").read_text())["paste"]
    return [Paste(paste["name"], paste["text"], "") for paste in pastes]


@cache
def templates() -> list[tuple[str, list[str], str]]:
    """(class, literal pieces, source file) of the errors that a real torch raises."""
    done = subprocess.run(
        [torch_python(), "-c", TEMPLATES], capture_output=True, text=True, check=True
    )
    return [tuple(entry) for entry in json.loads(done.stdout)]  # type: ignore[misc]


def from_templates(count: int, seed: int = 5) -> list[Paste]:
    """Tracebacks around `count` of torch's own messages, other holes each time.

    Without those that the present records know.
    """
    chance = random.Random(seed)
    signs = [
        sign.letters
        for row in Record.objects.visible()
        for sign in read_signatures(row.signatures)
        if sign.kind == "message"
    ]
    unknown = [row for row in templates() if not is_known(row[1], signs)]
    chosen = chance.sample(unknown, count)
    return [
        Paste(f"{path}:{at}", traceback_of(kind, pieces, path, chance), "")
        for at, (kind, pieces, path) in enumerate(chosen)
    ]


def is_known(pieces: list[str], signatures: list[str]) -> bool:
    """One of a template's longer pieces stands in a signature, or holds one."""
    said = [letters(piece) for piece in (*pieces, "".join(pieces))]
    return any(
        sign and piece and (piece in sign or sign in piece)
        for piece in said
        if len(piece) >= MIN_LETTERS
        for sign in signatures
    )


def traceback_of(kind: str, pieces: list[str], path: str, chance: random.Random) -> str:
    text = pieces[0]
    for piece in pieces[1:]:
        text += chance.choice(FILLINGS) + piece
    line = chance.randrange(20, 900)
    where = f"/opt/conda/lib/python3.11/site-packages/{path}"
    if kind.endswith("Warning"):
        return f"{where}:{line}: {kind}: {text}\n  warnings.warn(\nstep 3 loss 1.93\n"
    return (
        f"step 2 loss 2.01\nTraceback (most recent call last):\n"
        f'  File "/home/u{line}/run.py", line {line}, in <module>\n    train(args)\n'
        f'  File "{where}", line {line * 2}, in forward\n{kind}: {text}\n'
    )


HOSTILE_BYTES = 200_000
REPEATS = HOSTILE_BYTES // 8
SIGNED = "RuntimeError: element 0 of tensors does not require grad and does not have a"


def hostile() -> dict[str, str]:
    """Texts of 200 kB made to be slow to read, by what makes them so."""
    chance = random.Random(1)
    words = ["".join(chance.choices("abcdefghij", k=8)) for _ in range(3000)]
    errors = [
        f"{word.title()}Error: {' '.join(chance.choices(words, k=8))}" for word in words
    ]
    near = [
        f"error {word} failed nan tensors grad require element grad_fn"
        for word in words
    ]
    signed = [f"[rank{at}]: {SIGNED} {word} grad_fn" for at, word in enumerate(words)]
    texts = {
        "one word": "a" * HOSTILE_BYTES,
        "open brackets": "RuntimeError: ((((([[[[[{{{{" * REPEATS,
        "open quotes": "File \"C:/a Function '" * REPEATS,
        "distinct errors": "\n".join(errors * 2),
        "lines like a signature": "\n".join(near * 2),
        "a signature, varied": "\n".join(signed),
        "metrics": "{'loss': nan, 'grad_norm': inf, 'a_b': 0.0}\n" * REPEATS,
        "wrapped warnings": f"UserWarning: {'x ' * 30}\n" * REPEATS,
        "carriage returns": "\r 12%|##  | 3/9 [00:01<00:02]" * REPEATS,
        "prefixes": "[2025-01-01 00:00:00,123] [INFO] [rank3]: " * REPEATS,
        "escapes": "\x1b[31\x1b]8;;" * REPEATS,
        "Chinese": "梯度丢失损失变成" * REPEATS,
        "dots and slashes": "a./b.\\c:" * REPEATS,
    }
    return {name: cut(text[:HOSTILE_BYTES]) for name, text in texts.items()}


def cut(text: str) -> str:
    """At most HOSTILE_BYTES of UTF-8."""
    return text.encode()[:HOSTILE_BYTES].decode("utf-8", "ignore")
