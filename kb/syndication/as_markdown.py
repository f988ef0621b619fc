"""A record as Markdown for programs, and a list of all records for them (llms.txt).

The same facts as the page, without its controls: what people see, whom it affects, what
runs showed on which builds, what helps with its code, causes and sources.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

from django.http import HttpRequest, HttpResponse
from django.utils.cache import patch_vary_headers
from django.utils.translation import gettext as _
from django.views.decorators.http import conditional_page, require_safe

from kb import wording
from kb.addresses import base_address, record_or_404
from kb.findings import checks, claims, diagnoses, remedies, results
from kb.findings.remedies import Remedy
from kb.languages import LIST_COMMA, current_lang
from kb.models import Finding, Record
from kb.records.articles import headings_of, split_workarounds
from kb.records.snippets import expanded
from kb.versions import affected_line

MARKDOWN = "text/markdown; charset=utf-8"
PLAIN = "text/plain; charset=utf-8"


@conditional_page
@require_safe
def record(request: HttpRequest, record_id: str) -> HttpResponse:
    rows = Record.objects.addressable().with_everything()
    found = record_or_404(rows, record_id)
    text = text_of(found, base_address(request), current_lang())
    response = HttpResponse(text, content_type=MARKDOWN)
    response["Link"] = f'<{found.get_absolute_url()}>; rel="canonical"'
    return response


@conditional_page
@require_safe
def llms(request: HttpRequest) -> HttpResponse:
    """https://llmstxt.org: what the site is, and each record with its Markdown."""
    base = base_address(request)
    lines = [
        "# Does it NaN?",
        "",
        "> Known training failures of PyTorch (NaN loss, lost or wrong gradients),",
        "> each with a repro that was run on released builds. Every record is Markdown",
        "> at the addresses below; /zh/ in place of /en/ is the Chinese one.",
        "",
        f"- [API]({base}/api/v1/openapi.json): look-up of logs, environments, records,"
        " runs and evidence",
        f"- [OSV]({base}/osv/PyPI/all.zip): which releases are affected",
        "",
        "## Records",
        "",
    ]
    lines += listed(f"{base}/en/{{}}.md")
    response = HttpResponse("\n".join(lines) + "\n", content_type=PLAIN)
    patch_vary_headers(response, ("Host",))
    return response


def listed(address: str) -> Iterator[str]:
    """A line for each record; `address` is that of one, with {} for its id."""
    rows = Record.objects.visible().order_by("pk").only("title_en", "summary_en")
    for row in rows:
        summary = f": {row.summary_en}" if row.summary_en else ""
        yield f"- [{row.pk} {row.title_en}]({address.format(row.pk)}){summary}"


def text_of(record: Record, base: str, lang: str) -> str:
    """The document; its headings are in the active language."""
    blocks = blocks_of(record, base, lang)
    return "\n\n".join(block for block in blocks if block) + "\n"


def blocks_of(record: Record, base: str, lang: str) -> Iterator[str]:
    """The document's blocks, which blank lines part."""
    findings = list(record.findings.all())
    yield f"# {record.pk} {record.text('title', lang)}"
    yield record.text("summary", lang)
    yield f"<{base}{record.get_absolute_url()}>"
    if record.withdrawn_because_en:
        yield _("Withdrawn: %s") % record.text("withdrawn_because", lang)
    yield from section(_("Affected"), affected_lines(record, lang))
    cells = list(results.cells(findings))
    yield from section(_("As observed here"), observed_lines(cells, lang))
    titles = headings_of(lang, record.depth)
    if record.is_brief:
        if not record.repros.all():
            yield _("Documented only: this site has no repro for it.")
        yield from section(titles["root_cause"], [prose(record, "root_cause", lang)])
    yield from section(titles["symptom"], [prose(record, "symptom", lang)])
    yield from signature_blocks(record)
    for item in diagnoses.of_record(record, findings):
        yield f"## {_('Is it yours?')}\n\n{item['text'][lang]}\n\n{fence(item['code'])}"
    if record.is_brief:
        said = split_workarounds(record.text("workaround", lang)).get("", "")
        yield from section(titles["workaround"], [said])
    yield from workaround_blocks(record, lang)
    for name in ("root_cause", "fix") if not record.is_brief else ():
        yield from section(titles[name], [prose(record, name, lang)])
    yield from section(_("Sources"), source_lines(record, lang))


def section(title: str, lines: Iterable[str]) -> Iterator[str]:
    text = "\n".join(line for line in lines if line)
    if text:
        yield f"## {title}\n\n{text}"


def prose(record: Record, name: str, lang: str) -> str:
    return record.text(name, lang).strip()


def affected_lines(record: Record, lang: str) -> Iterator[str]:
    for entry in affected_line.of_record(record):
        yield f"- {entry}"
    for entry in record.preconditions:
        yield f"- {entry['text'][lang]}"


def observed_lines(cells: list[Finding], lang: str) -> Iterator[str]:
    """One line for neighbouring builds with one verdict, by repro and device."""
    by_repro = sorted(cells, key=lambda cell: (cell.repro, cell.device_class))
    for _key, row in groupby(by_repro, lambda cell: (cell.repro, cell.device_class)):
        for verdict, group in groupby(row, lambda cell: cell.verdict):
            built = list(group)
            first, last = built[0], built[-1]
            span = first.build_raw
            if last is not first:
                span = f"{first.build_raw} – {last.build_raw}"
            badge = wording.BADGES[verdict].line(lang)
            yield f"- torch {span}, {first.device_class}, {first.repro}.py: {badge}"


def signature_blocks(record: Record) -> Iterator[str]:
    """Lines that programs printed; names of metrics are none."""
    lines = [row["text"] for row in record.signatures if row["kind"] != "facet"]
    if lines:
        yield fence("\n".join(lines), "text")


def workaround_blocks(record: Record, lang: str) -> Iterator[str]:
    """In the order in which to try them, each with its code as it was run."""
    code = {f"apply_{row['name']}": row.get("apply", "") for row in record.workarounds}
    texts = split_workarounds(record.text("workaround", lang))
    found = remedies.of_record(record, list(record.findings.all()))
    if found:
        yield f"## {_('Workarounds')}"
    for remedy in found:
        name, entry = remedy.entry["name"], remedy.entry
        title = checks.title_of(record, f"workaround_{name}")
        yield f"### {title[lang]} ({helps(record, remedy)[lang]})"
        yield expanded(texts.get(name, ""), code).strip()
        if entry["kind"] != "code":
            yield fence(entry["apply"], "")
        if entry["cost"][lang]:
            yield _("Cost: %s") % entry["cost"][lang]
        for line in remedy.lines:
            yield f"{line.label} ({line_ran(line)[lang]}):\n\n{fence(line.apply, '')}"


def helps(record: Record, remedy: Remedy) -> Mapping[str, str]:
    """Its status; on which builds it helps where it does not on every one."""
    findings = remedies.of_plain_code(record.findings.all())
    by_build = claims.workaround_by_build(remedy.entry["name"], findings)
    helping = [build for build, status in by_build.items() if status == "verified"]
    if not 0 < len(helping) < len(by_build):
        if remedy.not_executed == remedies.CHANGED:
            return dict(wording.NOT_EXECUTED[remedies.CHANGED])
        return dict(wording.WORKAROUND_STATUSES[remedy.status])
    names = {lang: sign.join(helping) for lang, sign in LIST_COMMA.items()}
    return wording.HELPS_ON.filled(helped=len(helping), run=len(by_build), builds=names)


def line_ran(line: remedies.Line) -> Mapping[str, str]:
    """Whether it helped in its framework, or the address that it is from."""
    if line.evidence:
        return dict(wording.WORKAROUND_STATUSES[line.status])
    words = dict(wording.LINE_NOT_RUN)
    return {lang: f"{said} <{line.url}>" for lang, said in words.items()}


def source_lines(record: Record, lang: str) -> Iterator[str]:
    for row in record.sources:
        note = f" {row['note'][lang]}" if row.get("note") else ""
        yield f"- {row['title']} <{row['url']}>{note}"


def fence(code: str, info: str = "python") -> str:
    ticks = "```"
    while ticks in code:
        ticks += "`"
    return f"{ticks}{info}\n{code}\n{ticks}"
