"""The checks of a repro, read from its source, and their order in a run."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import functools
import gc
import threading
from typing import Any, Iterator, List, Mapping, Optional, Sequence, Tuple

from .contract import parse_header
from .fields import NAME, ContractError, Header
from .spec import CheckSpec
from .values import OTHER_DEVICES, PROBE_TIMEOUT_S


def _parameter_reads(source: str) -> Iterator[str]:
    """The names in calls `parameter("name")`; "" for one that names none."""
    for node in ast.walk(tree_of(source)):
        is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        if is_call and node.func.id == "parameter":  # type: ignore[attr-defined]
            first = [*node.args, None][0]  # type: ignore[attr-defined]
            named = isinstance(first, ast.Constant) and isinstance(first.value, str)
            yield first.value if named else ""


def _unread(header: Header, source: str) -> Iterator[str]:
    """Parameters that the source does not read, and reads of what is none."""
    if not header.parameters and "parameter(" not in source:
        return
    read = set(_parameter_reads(source))
    for name in header.parameters:
        if name not in read:
            yield "tool.doesitnan.parameters.%s: the source never reads it" % name
    for name in sorted(read - set(header.parameters)):
        yield "parameter(%r): tool.doesitnan.parameters declares no such name" % name


REQUIRED_CHECKS = ("control", "detector", "trigger")
_SINGLE_CHECKS = ("reference", "control", "detector", "trigger")
CHECK_FAMILIES = ("workaround_", "refuted_")

_PARSING = threading.Lock()


@contextlib.contextmanager
def parsing() -> Iterator[None]:
    """Lets no other thread in while a tree is made.

    CPython up to 3.11.7 counts a tree's depth for all threads together: two that parse
    at once get a SystemError now and then (python/cpython#106905). `traceback` parses,
    too, and asks for no lock; but only what a collection runs can let it in.
    """
    with _PARSING:
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            yield
        finally:
            if was_enabled:
                gc.enable()


@functools.lru_cache(maxsize=2)  # One repro is read several times over.
def tree_of(source: str) -> ast.Module:
    """Shared by all who ask for it, so nobody changes it."""
    with parsing():
        return ast.parse(source)


def functions_of(source: str) -> List[Any]:
    try:
        body = tree_of(source).body
    except SyntaxError as error:
        raise ContractError(["line %s: %s" % (error.lineno, error.msg)]) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise ContractError(["the source cannot be parsed: %s" % error]) from None
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [node for node in body if isinstance(node, kinds)]


def is_check(name: str) -> bool:
    """Whether a function of this name is a check; `requires` is none."""
    return name in _SINGLE_CHECKS or name.startswith(CHECK_FAMILIES)


def list_checks(source: str) -> List[str]:
    """Names of the checks in the order they run, read without executing anything.

    reference, control, detector, trigger, workaround_*, refuted_*; `requires` is not a
    check. Raises ContractError with every problem found.
    """
    errors: List[str] = []
    found: List[str] = []
    for node in functions_of(source):
        name = node.name
        if not is_check(name) and name != "requires":
            continue
        where = "line %d: %s" % (node.lineno, name)
        if isinstance(node, ast.AsyncFunctionDef):
            errors.append("%s: a check is a plain function, not async" % where)
        given = node.args
        positional = given.args or given.posonlyargs or given.vararg
        if positional or given.kwonlyargs or given.kwarg:
            errors.append("%s: a check takes no arguments" % where)
        if not NAME.match(name) or name in CHECK_FAMILIES:
            errors.append("%s: name it in lower-case letters, digits and _" % where)
        if name in found:
            errors.append("%s: defined twice" % where)
        found.append(name)
    errors.extend("%s: missing" % name for name in REQUIRED_CHECKS if name not in found)
    if errors:
        raise ContractError(errors)
    ordered = [name for name in _SINGLE_CHECKS if name in found]
    for family in CHECK_FAMILIES:
        ordered.extend(name for name in found if name.startswith(family))
    return ordered


def read_repro(source: str) -> Tuple[Header, List[str]]:
    """Header and checks of a repro, and whether they fit each other."""
    header, checks = parse_header(source), list_checks(source)
    errors = [
        "tool.doesitnan.env.%s: names no check" % name
        for name in header.env
        if name != "all" and name not in checks
    ]
    has_workaround = any(name.startswith("workaround_") for name in checks)
    if has_workaround and not (header.match or header.match_waived):
        errors.append(
            "tool.doesitnan.match: missing; a workaround is compared with the control "
            "(or give match_waived with the reason)"
        )
    errors.extend(_unread(header, source))
    if errors:
        raise ContractError(errors)
    return header, checks


def check_order(checks: Sequence[str], trials: int) -> List[Tuple[str, int]]:
    """(check, trial) in the order of the contract, the requirements first."""
    order = [("requirements", 0)]
    for name in checks:
        order.extend((name, trial) for trial in range(times_of(name, trials)))
    return order


def cell_checks(names: Sequence[str]) -> List[str]:
    """Those that give a verdict; a cell of a sweep has no others."""
    return [name for name in names if not name.startswith(CHECK_FAMILIES)]


def times_of(check: str, trials: int) -> int:
    """How often a check runs: what may hide by chance, as often as there are trials."""
    return trials if check == "trigger" or check.startswith("workaround_") else 1


def phase_of(check: str, trial: int, trials: int) -> str:
    """The phase of a run at this check, as shown: "trigger 2/5"."""
    times = times_of(check, trials)
    counted = check == "trigger" or times > 1
    return "%s %d/%d" % (check, trial + 1, times) if counted else check


def variant_checks(source: str, checks: Sequence[str]) -> List[str]:
    """The checks that run in each variant: what a reader pastes, and what it needs.

    The workarounds that are functions `apply_<name>`, after control and trigger.
    """
    pasted = {node.name for node in functions_of(source)}
    prefix = "workaround_"
    found = [
        n
        for n in checks
        if n.startswith(prefix) and "apply_" + n[len(prefix) :] in pasted
    ]
    return ["control", "trigger", *found] if found else []


def on_device(header: Header, device: str) -> Header:
    """The same where tensors are made on another device: a `cuda` of ROCm, `mps`, ….

    Raises ContractError where the repro is not declared to run there.
    """
    if device in ("", header.device):
        return header
    if not header.any_device or device not in OTHER_DEVICES:
        raise ContractError(["device: this repro is none for %s" % device])
    return dataclasses.replace(header, device=device)


def check_spec(
    header: Header,
    name: str,
    trial: int = 0,
    parameters: Optional[Mapping[str, Any]] = None,
) -> CheckSpec:
    """How one check of this repro is to be started; `parameters` from `choose`."""
    env = dict(header.env.get("all", {}))
    env.update(header.env.get(name, {}))
    preset = {}
    if header.device == "cpu":
        preset["CUDA_VISIBLE_DEVICES"] = ""
    if "loopback" in header.needs:
        preset["GLOO_SOCKET_IFNAME"] = "lo"
    timeout_s = header.timeout_s
    if name == "requirements":
        # It imports torch first of all, and compiles for real where that is needed.
        timeout_s = max(timeout_s, PROBE_TIMEOUT_S)
    chosen = dict(parameters or {})
    device = header.device if header.any_device and header.device != "cpu" else ""
    return CheckSpec(
        *(name, trial, env, timeout_s, header.memory_mib, preset, chosen, device)
    )
