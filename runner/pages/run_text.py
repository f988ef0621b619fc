"""A finished run as Markdown, to paste into an upstream issue."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.utils.translation import override

from kb.languages import DJANGO_LANG, Text as _
from runner import harness
from runner.pages.run_page import RunPage, Verdicted, run_badge
from runner.wording import verdicts

LABELS = {
    "build": _("Build"),
    "device": _("Device"),
    "values": _("Values other than the reviewed ones"),
    "check": _("check"),
    "outcome": _("outcome"),
    "repro": _("Repro"),
    "evidence": _("Evidence"),
}


def markdown(page: RunPage, lang: str) -> str:
    """Verdict, sentence, checks, build and digests; "" while there is no evidence."""
    if page.shown is None:
        return ""
    run, body = page.run, page.shown.body
    record = run.repro.record
    lines = [
        f"**{run_badge(run, lang)}** — {record.id} {record.text('title', lang)}",
        "",
        verdicts.evidence_sentence(body)[lang],
        "",
        *table(page.shown, lang),
        "",
        *facts(body, lang),
        f"- {label('repro', lang)}`{body['repro']['name']}.py` "
        f"`{body['repro']['digest']}`",
        f"- {label('evidence', lang)}`{body['digest']}` {address(page, lang)}",
    ]
    return "\n".join(line.rstrip() for line in lines)


def label(name: str, lang: str) -> str:
    return f"{LABELS[name][lang]}{'：' if lang == 'zh' else ': '}"


def table(shown: Verdicted, lang: str) -> list[str]:
    outcomes = [
        (item["name"], verdicts.outcome(item["name"], item["outcome"], lang))
        for item in shown.body["checks"]
        if item["name"] != "requirements"
    ]
    rows = [f"| `{name}` | {words} |" for name, words in outcomes]
    return [
        f"| {LABELS['check'][lang]} | {LABELS['outcome'][lang]} |",
        "|---|---|",
        *rows,
    ]


def facts(body: dict[str, Any], lang: str) -> list[str]:
    build, device = body["build"], body["device"]
    values = harness.settings_of(body)
    cuda = f", CUDA {build['cuda']}, cuDNN {build['cudnn']}" if build["cuda"] else ""
    return [
        f"- {label('build', lang)}torch {build['raw']} ({build['git']}), "
        f"Python {build['python']}, {build['platform']}{cuda}",
        f"- {label('device', lang)}{device['class']} {device['name']}",
        *([f"- {label('values', lang)}`{values}`"] if values else []),
    ]


def address(page: RunPage, lang: str) -> str:
    """The run's address where the site knows its own; else nothing."""
    if not settings.SITE_URL:
        return ""
    with override(DJANGO_LANG[lang]):
        return f"{settings.SITE_URL}{page.run.get_absolute_url()}"
