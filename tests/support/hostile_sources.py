"""Whole programs of what tests/repros has of each: settings, a docstring, a trigger.

What nearly all of them share, header, control and detector, stands here once. A body
begins with the settings of its header that are not the usual ones, and defines itself
whatever is to be otherwise. Programs that break the contract are a good one, edited.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from portable.harness.checks import tree_of
from tests import TESTS

REPROS = TESTS / "repros"
USUAL = {
    "fidelity": '"upstream_bug"',
    "device": '"cpu"',
    "bug": '"reached > 0"',
    "timeout_s": "20",
    "memory_mib": "1024",
}
# Each is added to a program that speaks of it and does not define it.
PARTS = {
    "END": 'END = {"t": "end"}',
    "RESULT": """
RESULT = {"t": "result", "check": "trigger", "trial": 0, "observations": {"reached": 0}}
""",
    "stolen_sender": '''
def stolen_sender():
    """The function by which the harness speaks, from the frame that holds it."""
    frame = sys._getframe()
    while "send" not in frame.f_locals:
        frame = frame.f_back
    return frame.f_locals["send"]
''',
}
CHECKS = {"control": 0, "detector": 1, "trigger": 0}
SETTING = re.compile(r"# (\w+) = (.+)\n")


def names() -> list[str]:
    files = [path.relative_to(REPROS) for path in REPROS.glob("*/*.py")]
    broken = [f"contract/{name}" for name in EDITS]
    return sorted([*(str(path.with_suffix("")) for path in files), *broken])


def whole(name: str, targets: object) -> bytes:
    folder, _, own = name.partition("/")
    if folder == "contract":
        old, new = EDITS[own]
        return GOOD.replace(old, new) if old else GOOD + new
    body = (REPROS / f"{name}.py").read_text(encoding="utf-8")
    return joined(body, targets).encode()


def joined(body: str, targets: object = None) -> str:
    settings = dict(USUAL)
    while found := SETTING.match(body):
        settings[found[1]], body = found[2], body[found.end() :]
    tree = tree_of(body)
    lines = body.splitlines(keepends=True)
    at = end_of_imports(tree)
    added = "\n".join(missing(tree, targets))
    return header(settings) + "".join([*lines[:at], f"\n{added}\n", *lines[at:]])


def header(settings: dict[str, str]) -> str:
    own = "".join(f"# {key} = {value}\n" for key, value in settings.items())
    top = '# /// script\n# dependencies = ["torch>=1.13"]\n# [tool.doesitnan]\n'
    return f"{top}{own}# ///\n"


def end_of_imports(tree: ast.Module) -> int:
    """The line after the docstring and the imports that follow it."""
    line = 0
    for node in tree.body:
        if not isinstance(node, ast.Import | ast.ImportFrom | ast.Expr):
            break
        line = node.end_lineno or line
    return line


def missing(tree: ast.Module, targets: object) -> Iterator[str]:
    spoken = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    defined |= {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    if "TARGETS" in spoken:
        yield f"TARGETS = {targets!r}"
    for name, part in PARTS.items():
        if name in spoken - defined:
            yield part.strip("\n")
    for name, reached in CHECKS.items():
        if name not in defined:
            yield f'def {name}():\n    return {{"reached": {reached}}}\n'


GOOD = joined('"""Keeps the contract but for one thing."""\n').encode()
TOP, LIMIT = b"# /// script\n", b"# timeout_s = 20\n"
LAST = b"# memory_mib = 1024\n"
TRIGGER, RETURN = b"def trigger():\n", b'    return {"reached": 0}\n'
# What of it is replaced, or "" for what is added at its end.
EDITS: dict[str, tuple[bytes, bytes]] = {
    "syntax_error": (b"", b"def broken(:\n"),
    "not_utf_8": (b"", b"# \xff\xfe\x80\n"),
    "nul": (b"", b"NAME = '\0'\n"),
    "empty": (GOOD, b""),
    "no_header": (GOOD.partition(b"# ///\n")[0] + b"# ///\n", b"import os\n"),
    "two_headers": (TOP, GOOD.partition(b"# ///\n")[0] + b"# ///\n" + TOP),
    "open_header": (b"# ///\n", b""),
    "unknown_key": (LIMIT, LIMIT + b'# tier = "A"\n'),
    "no_limit": (LIMIT + LAST, b"# timeout_s = 1e9\n# memory_mib = 99999999\n"),
    "unlimited": (LIMIT, b"# timeout_s = inf\n"),
    "timeout_nan": (LIMIT, b"# timeout_s = nan\n"),
    "long_integer": (LIMIT, b"# timeout_s = " + b"9" * 5000 + b"\n"),
    "preload": (LAST, LAST + b'# env = {all = {LD_PRELOAD = "./evil.so"}}\n'),
    "other_path": (
        LAST,
        LAST + b'# env = {trigger = {PYTHONPATH = "/tmp", PYTHONHOME = "/tmp"}}\n',
    ),
    "nested_header": (
        LAST,
        LAST + b"# match = {x = " + b"[" * 3000 + b"]" * 3000 + b"}\n",
    ),
    "predicate_is_code": (b"reached > 0", b"__import__('os').getpid() > 0"),
    "upper_bound": (b"torch>=1.13", b"torch<2"),
    "arguments": (TRIGGER, b"def trigger(reached=0):\n"),
    "coroutine": (TRIGGER, b"async def trigger():\n"),
    "twice": (b"", TRIGGER + b'    return {"reached": 1}\n'),
    "missing_trigger": (TRIGGER, b"def trigger_later():\n"),
    "made_at_run_time": (
        TRIGGER + RETURN,
        b"def made():\n" + RETURN + b"\n\ntrigger = made\n",
    ),
    "nested_brackets": (b"", b"DEEP = " + b"(" * 5000 + b")" * 5000 + b"\n"),
    "nested_signs": (b"", b"DEEP = " + b"-" * 20000 + b"1\n"),
    "nested_attributes": (b"", b"DEEP = x" + b".x" * 20000 + b"\n"),
}
