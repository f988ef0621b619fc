"""One law of arithmetic: what it is, what each form gave, and which records have it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.http import Http404
from django.utils.translation import gettext as _

from kb.models import Law, Record
from kb.records.laws import FINITE
from kb.wording import LAW_OUTCOMES
from portable.nan_probe.functions import ALLOWED
from portable.nan_probe.known import FORMS, RECORDS

# As a capture's page writes them into its link; anything else is not shown.
OPERANDS = re.compile(r"(?:[][0-9.,; ()+e-]|inf|nan|True|False){1,200}")


@dataclass(frozen=True)
class Yours:
    """The reader's own call, which a capture's page ran with the forms of the law."""

    call: str
    operands: str
    heals: list[str]
    does_not_heal: list[str]


@dataclass(frozen=True)
class LawPage:
    law: Law
    # Those that give a finite number, forward and backward; and the others.
    helping: list[dict[str, Any]]
    others: list[dict[str, Any]]
    records: list[Record]
    laws: list[Law]
    yours: Yours | None

    @property
    def release(self) -> str:
        """The torch that it ran on, without what follows the "+"."""
        return self.law.torch.partition("+")[0]


def build(slug: str, asked: Mapping[str, str]) -> LawPage:
    """Raises Http404. `asked`: the reader's call, if any."""
    laws = {law.slug: law for law in Law.objects.all()}
    law = laws.pop(slug, None)
    if law is None:
        raise Http404(_("There is no law %s.") % slug)
    forms = [row | {"said": LAW_OUTCOMES[row["outcome"]]} for row in law.forms]
    # Its records are those whose trigger fails by it.
    ids = [record for record, (_slice, name) in RECORDS.items() if name == law.name]
    return LawPage(
        law,
        helping=[row for row in forms if row["outcome"] in FINITE],
        others=[row for row in forms if row["outcome"] not in FINITE],
        records=list(Record.objects.visible().filter(pk__in=ids).order_by("pk")),
        laws=list(laws.values()),
        yours=yours(asked, FORMS.get(law.name, [])),
    )


def yours(asked: Mapping[str, str], forms: list[str]) -> Yours | None:
    call, operands = asked.get("call", ""), asked.get("operands", "")
    if call not in ALLOWED or not OPERANDS.fullmatch(operands):
        return None
    tried = {
        name: [form for at, form in enumerate(forms) if str(at) in asked.get(name, "")]
        for name in ("heals", "does_not_heal")
    }
    return Yours(call, operands, **tried)


def law_of(record: Record) -> Law | None:
    """The law by which the trigger of a record fails."""
    name = RECORDS.get(record.pk, ("", ""))[1]
    return Law.objects.filter(name=name).first() if name else None
