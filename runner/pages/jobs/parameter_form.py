"""The parameters of repros as fields of the run form, and the values of a run again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kb.choices import PARAMETERS
from kb.models import Repro
from portable.harness import shown_value
from runner.models import Run


@dataclass(frozen=True)
class Field:
    """One parameter: a list of choices, or a number from `low` to `high`."""

    label: str
    key: str
    value: str
    default: str
    choices: list[str]
    low: str = ""
    high: str = ""
    step: str = "1"
    unit: str = ""

    @property
    def is_changed(self) -> bool:
        return self.value != self.default


@dataclass(frozen=True)
class Group:
    """The parameters of one repro."""

    repro: str
    fields: list[Field]

    @property
    def is_changed(self) -> bool:
        return any(field.is_changed for field in self.fields)


def groups(repros: Iterable[Repro], asked: Mapping[str, str]) -> list[Group]:
    """Of each repro with parameters; `asked` by name, as an address has them."""
    found = (Group(repro.name, list(fields(repro, asked))) for repro in repros)
    return [group for group in found if group.fields]


def fields(repro: Repro, asked: Mapping[str, str]) -> Iterator[Field]:
    for name, declared in (repro.header.get("parameters") or {}).items():
        default = shown_value(declared["default"])
        value = wanted(declared, asked.get(name, default), default)
        yield Field(
            label=str(PARAMETERS.get(name, name)),
            key=field_name(repro, name),
            value=value,
            default=default,
            choices=[shown_value(item) for item in declared.get("choices", ())],
            low=shown_value(declared.get("min", "")),
            high=shown_value(declared.get("max", "")),
            step="1" if is_whole(declared) else "any",
            unit=declared.get("unit", ""),
        )


def field_name(repro: Repro, name: str) -> str:
    """Of the form: two repros of a record may have the same parameters."""
    return f"set-{repro.name}-{name}"


def wanted(declared: Mapping[str, Any], text: str, default: str) -> str:
    """What an address asks for, where the list of choices has it; else the default."""
    choices = [shown_value(item) for item in declared.get("choices", ())]
    return text[:20] if not choices or text in choices else default


def is_whole(declared: Mapping[str, Any]) -> bool:
    numbers = [declared.get(key, 0) for key in ("min", "max", "default")]
    return all(isinstance(number, int) for number in numbers)


def hidden_fields(run: Run) -> list[tuple[str, str]]:
    """(name, value) of the form that asks for the very same run again."""
    return [
        (field_name(run.repro, name), text)
        for name, _mark, text in (item.partition("=") for item in run.settings)
    ]
