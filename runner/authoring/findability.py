"""Whether readers will find a record: its signatures, the search, its page."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.http import Http404, HttpRequest
from django.template import TemplateDoesNotExist, TemplateSyntaxError
from django.test import RequestFactory, override_settings
from django.urls import NoReverseMatch, resolve
from django.utils.translation import override

from kb.choices import LANGS
from kb.languages import DJANGO_LANG
from kb.lookup.answer import EmptyPaste, PasteTooLarge, look_up
from kb.models import Record
from kb.records.articles import log_fences
from kb.records.facts import FACTS_FILE
from kb.records.files import RecordFile
from kb.search.ranking.listing import SORTS, listing
from runner.authoring import quotes
from runner.authoring.parts import Part
from runner.authoring.skeleton import shown
from runner.pages.views import record_detail

# The names of style sheets with their digests exist only once a site collected them.
AS_THEY_LIE = {
    **settings.STORAGES,
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}
# What a template or a view raises where a record holds what it does not expect.
PAGE_FAULTS = (
    *(ArithmeticError, AttributeError, LookupError, TypeError, ValueError),
    *(Http404, NoReverseMatch, TemplateDoesNotExist, TemplateSyntaxError),
)


def pasted_logs(record: str, logs: Path | None) -> dict[Path, str]:
    """The pasted logs that this record is to answer."""
    answers = logs / "known.toml" if logs is not None else None
    if answers is None or not answers.exists():
        return {}
    known = tomllib.loads(answers.read_text("utf-8"))["known"]
    names = [name for name, answer in known.items() if answer == record]
    paths = [answers.parent / "known" / f"{name}.log" for name in names]
    return {
        path: path.read_bytes().decode(errors="replace")
        for path in paths
        if path.exists()
    }


# --- signatures ---------------------------------------------------------------------
def signature_part(
    file: RecordFile, toml: str, pasted: Mapping[Path, str], printed: list[str]
) -> Part:
    quoted = [*log_fences(file.articles["en"]), *pasted.values()]
    return Part("signatures", list(quotes.unseen(file, toml, printed, quoted)))


# --- search -------------------------------------------------------------------------
def search_part(file: RecordFile, pasted: Mapping[Path, str]) -> Part:
    """Asks the index of the current database for the titles and the logs."""
    part = Part("search")
    for lang in LANGS:
        title = file.facts["title"][lang]
        found = [key for key, _score in listing(title, {}, {}, SORTS[0]).found]
        if found[:1] != [file.id]:
            part.problems.append(
                f"{file.slug}/{FACTS_FILE}: title.{lang}: a search for the title finds "
                f"{first(found)}. Name in it what tells this record from that one."
            )
    for path, log in pasted.items():
        try:
            found = found_first(log)
        except (EmptyPaste, PasteTooLarge) as error:
            part.problems.append(f"{shown(path)}: {error}")
            continue
        if file.id not in found:
            part.problems.append(
                f"{shown(path)}: the look-up of this log finds {first(found)}. It "
                "needs a line that one of the signatures matches, or words that this "
                "record alone has."
            )
    if not pasted:
        part.problems.append(no_log(file))
    return part


def found_first(log: str) -> list[str]:
    """The candidates of the answer, best first. Raises EmptyPaste, PasteTooLarge."""
    return [row["record"] for row in look_up(log)["candidates"] if row["record"]]


def first(found: list[str]) -> str:
    return f"{found[0]} first" if found else "nothing"


def no_log(file: RecordFile) -> str:
    return (
        f"no pasted log is kept for {file.id}: put one into tests/logs/known/, and "
        f'{file.slug} = "{file.id}" into tests/logs/known.toml'
    )


# --- the page -----------------------------------------------------------------------
def page_part(file: RecordFile) -> Part:
    """Renders the record's page from the current database, as any reader gets it."""
    part = Part("page")
    record = Record.objects.get(pk=file.id)
    for lang, address in record.urls().items():
        with override(DJANGO_LANG[lang]), override_settings(STORAGES=AS_THEY_LIE):
            try:
                status = record_detail(request_for(address), file.id, file.slug)
            except PAGE_FAULTS as error:
                kind = type(error).__name__
                part.problems.append(f"{address} cannot be shown: {kind}: {error}")
                continue
        if status.status_code != 200:
            part.problems.append(f"{address} answers {status.status_code}, not 200")
    return part


def request_for(address: str) -> HttpRequest:
    """As a reader without a login asks for a page."""
    hosts = (name for name in settings.ALLOWED_HOSTS if "*" not in name)
    host = next(hosts, "localhost").lstrip(".")
    request: HttpRequest = RequestFactory().get(address, headers={"host": host})
    request.user = AnonymousUser()
    request.resolver_match = resolve(address)
    return request
