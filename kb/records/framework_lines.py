"""The lines of a framework that stand for a workaround where it trains.

What `repro_<framework>.py` runs as `workaround_<name>` is what is printed: each call of
the line stands in that check. A line without such a check is shown as not run.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Any

from django.utils.translation import gettext as _

from kb.choices import FRAMEWORKS
from kb.records.facts import FACTS_FILE, Facts, rows
from kb.records.snippets import functions, parsed, reached

CHECK = "workaround_"


def repro_of(framework: str) -> str:
    """The repro that runs the lines of a framework."""
    return f"repro_{framework}"


def line_problems(
    facts: Facts, sources: Mapping[str, str]
) -> Iterator[tuple[str, str, str]]:
    """(file, key, message) of each line that is not what runs. `sources`: by stem."""
    without = {repro_of(name): checks_in(sources, name) for name in FRAMEWORKS}
    for path, row in rows(facts, "workaround"):
        check = f"{CHECK}{row['name']}"
        for framework, line in row.get("lines", {}).items():
            by_name = functions_of(sources, framework)
            without[repro_of(framework)] -= {check}
            for message in unrun(line["apply"], by_name, check):
                yield FACTS_FILE, f"{path}.lines.{framework}.apply", message
    for stem, checks in without.items():
        for check in sorted(checks):
            yield f"{stem}.py", check, _("the workaround has no line for it to run")


def functions_of(
    sources: Mapping[str, str], framework: str
) -> dict[str, ast.FunctionDef]:
    module = parsed(sources.get(repro_of(framework), ""))
    return {one.name: one for one in functions(module)} if module else {}


def checks_in(sources: Mapping[str, str], framework: str) -> set[str]:
    return {one for one in functions_of(sources, framework) if one.startswith(CHECK)}


def unrun(
    line: str, by_name: Mapping[str, ast.FunctionDef], check: str
) -> Iterator[str]:
    """What of a line its check does not run, where it has one."""
    if check not in by_name:
        return
    printed = calls(parsed(line))
    if not printed:
        yield _("has a check, so it must be Python with a call")
    own = [by_name[name] for name in (check, *reached(by_name, check))]
    run = [call for function in own for call in calls(function)]
    for call in printed:
        if not any(holds(one, call) for one in run):
            values = {"check": check, "call": ast.unparse(call)}
            yield _("%(check)s does not run %(call)s") % values


def calls(tree: ast.AST | None) -> list[ast.Call]:
    nodes = ast.walk(tree) if tree else ()
    return [node for node in nodes if isinstance(node, ast.Call)]


def holds(run: ast.Call, printed: ast.Call) -> bool:
    """The same function, with the arguments that are printed: `...` and names of the
    reader's own stand for anything.
    """
    if last_name(run.func) != last_name(printed.func):
        return False
    given: dict[Any, str] = {one.arg: ast.dump(one.value) for one in run.keywords}
    given |= {at: ast.dump(one) for at, one in enumerate(run.args)}
    wanted: dict[Any, ast.expr] = {one.arg: one.value for one in printed.keywords}
    wanted |= dict(enumerate(printed.args))
    return all(
        is_open(value) or given.get(at) == ast.dump(value)
        for at, value in wanted.items()
    )


def is_open(value: ast.expr) -> bool:
    return isinstance(value, ast.Name) or (
        isinstance(value, ast.Constant) and value.value is ...
    )


def last_name(function: ast.expr) -> tuple[str, str]:
    """With its dot, if any: `model.float()` is no `float()`."""
    return ast.unparse(function).rpartition(".")[1:]
