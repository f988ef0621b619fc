"""A finished run as Markdown, to paste into an upstream issue."""

from __future__ import annotations

from collections import Counter
from typing import Any

from django.http import HttpRequest
from django.utils.translation import override

from kb import badges
from kb.addresses import base_address
from kb.languages import DJANGO_LANG, Text as _
from portable import harness
from runner import run_sentences
from runner.pages import local_commands
from runner.pages.environment_facts import commit_of
from runner.pages.run_page import RunPage, Verdicted, run_badge

LABELS = {
    "build": _("Build"),
    "device": _("Device"),
    "values": _("Values other than the reviewed ones"),
    "check": _("check"),
    "outcome": _("outcome"),
    "repro": _("Repro"),
    "evidence": _("Evidence"),
    "address": _("Address"),
}


def markdown(page: RunPage, lang: str, request: HttpRequest) -> str:
    """Verdict, sentence, checks, build and digests, then where it is and how to run it.

    "" while there is no evidence.
    """
    if page.shown is None:
        return ""
    run, body = page.run, page.shown.body
    record = run.repro.record
    lines = [
        f"**{run_badge(run, lang)}** — {record.id} {record.text('title', lang)}",
        "",
        run_sentences.evidence_sentence(body)[lang],
        "",
        *table(page.shown, lang),
        *facts(body, lang),
        f"- {label('repro', lang)}`{body['repro']['name']}.py` "
        f"`{body['repro']['digest']}`",
        f"- {label('evidence', lang)}`{body['digest']}`",
        f"- {label('address', lang)}{address(page, lang, request)}",
        "",
        "```sh",
        local_commands.of_repro(run.repro, request, run.build, run.settings).curl,
        "```",
    ]
    return "\n".join(line.rstrip() for line in lines)


def label(name: str, lang: str) -> str:
    return f"{LABELS[name][lang]}{'：' if lang == 'zh' else ': '}"


def table(shown: Verdicted, lang: str) -> list[str]:
    """A line per check, however many trials it had."""
    outcomes: dict[str, Counter[str]] = {}
    for item in shown.body["checks"]:
        if item["name"] != "requirements":
            words = badges.outcome(item["name"], item["outcome"], lang)
            outcomes.setdefault(item["name"], Counter())[words] += 1
    rows = [f"| `{name}` | {counted(words)} |" for name, words in outcomes.items()]
    if not rows:
        return []
    return [
        f"| {LABELS['check'][lang]} | {LABELS['outcome'][lang]} |",
        "|---|---|",
        *rows,
        "",
    ]


def counted(outcomes: Counter[str]) -> str:
    """ "bug", or of several trials "bug × 7, clean × 13"."""
    if outcomes.total() == 1:
        return next(iter(outcomes))
    return ", ".join(f"{words} × {times}" for words, times in outcomes.items())


def facts(body: dict[str, Any], lang: str) -> list[str]:
    build, device = body["build"], body["device"]
    values = harness.settings_of(body)
    cuda = f", CUDA {build['cuda']}, cuDNN {build['cudnn']}" if build["cuda"] else ""
    git = f" ({commit})" if (commit := commit_of(build["git"])) else ""
    return [
        f"- {label('build', lang)}torch {build['raw']}{git}, "
        f"Python {build['python']}, {build['platform']}{cuda}",
        f"- {label('device', lang)}{device['class']} {device['name']}",
        *([f"- {label('values', lang)}`{values}`"] if values else []),
    ]


def address(page: RunPage, lang: str, request: HttpRequest) -> str:
    """The run's page, at the site's own address or at that of the request."""
    with override(DJANGO_LANG[lang]):
        return f"{base_address(request)}{page.run.get_absolute_url()}"
