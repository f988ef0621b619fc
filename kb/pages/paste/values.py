"""Values that a paste states for a record's run, as a look-up's page shows them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from kb.choices import PARAMETERS

Json = dict[str, Any]


class ReadValue(NamedTuple):
    """A parameter as it was read; `box` is log or env."""

    name: str
    label: str
    value: Any
    box: str
    line: int


@dataclass(frozen=True)
class ReadValues:
    """All of a match or lead, each once, and the build that was pasted."""

    values: list[ReadValue] = field(default_factory=list)
    torch: str = ""

    def __bool__(self) -> bool:
        return bool(self.values)

    @property
    def query(self) -> str:
        """The end of the record's address that fills in its run form; "" for nothing.

        `pasted` names the values that were read, for the form to say so.
        """
        shown = {"torch": self.torch} if self.torch else {}
        shown |= {value.name: value.value for value in self.values}
        if self.values:
            shown["pasted"] = ",".join(value.name for value in self.values)
        return f"?{urlencode(shown, safe=',', quote_via=quote)}" if shown else ""


def values_of(found: Json, torch: Json | None) -> ReadValues:
    """`found`: a match or lead; `torch`: as the answer's environment has it."""
    values = {
        read["name"]: ReadValue(
            read["name"],
            str(PARAMETERS.get(read["name"], read["name"])),
            repro["values"][read["name"]],
            read["box"],
            read["line"],
        )
        for repro in found["parameters"]
        for read in repro["read"]
    }
    return ReadValues(list(values.values()), torch["raw"] if torch else "")
