"""A corpus of records as there might be in ten years, made anew for each run.

Around the error texts of an installed torch (read out of its sources, holes filled
anew), in sentences recombined from the docstrings of torch, the articles of the
shipped records and Django's Chinese catalogue. The same seed gives the same corpus;
nothing of it is stored.
"""

from __future__ import annotations

import gettext
import json
import random
import re
import subprocess
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import django
from django.conf import settings

from kb.choices import Publication, SymptomClass, Upstream
from kb.models import Record
from kb.search.reading.glossary import HAN_PHRASES
from kb.search.reading.signatures import read_signature
from tests.support import log_corpus
from tests.support.builds import torch_python

SOURCES = Path(__file__).with_name("sources.py")
SEED = 20
TARGETS, UNKNOWN = 200, 300
# As in real reports: most records quote an error, some only describe.
QUOTING = 0.7
CLAUSE = re.compile(r"[\u4e00-\u9fff][^。；！？\n|*#`\[\]<>]{5,40}(?=[。；！？，])")
COMPONENTS = (
    "autograd", "sdpa", "inductor", "fsdp", "amp", "checkpoint", "optim", "rope",
    "distributed", "linalg", "quantization", "loss", "sparse", "dynamo", "attention",
)  # fmt: skip
PACKAGES = ("torch", "torch", "torch", "transformers", "deepspeed", "flash-attn")
CHINESE = (
    "启用{0}之后{1}变为 nan",
    "在{0}下训练时，{1}与{2}不一致",
    "{0}的{1}在反向传播中溢出",
    "关闭{0}可以绕过，但{1}会变慢",
    "只有同时使用{0}和{1}才会出现，{2}正常",
    "{0}被静默地置零，{1}不再更新",
)
FOLDERS = ("/home/{0}/work", "/mnt/{0}/llm", "/workspace/{0}", "D:\\{0}\\train")


class Template(NamedTuple):
    """An error text of torch: its class, the pieces between its holes, its file."""

    kind: str
    pieces: tuple[str, ...]
    path: str


@dataclass(frozen=True)
class Material:
    """What records are made of.

    No template of one list stands in another, none in the logs under tests/logs: a
    generated record that shows one of those would be no false answer.
    """

    targets: list[Template]
    unknown: list[Template]
    others: list[Template]
    english: list[str]
    chinese: list[str]


@cache
def material() -> Material:
    done = subprocess.run(
        [torch_python(), str(SOURCES)], capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    templates = distinct(
        Template(kind, tuple(pieces), path) for kind, pieces, path in found["templates"]
    )
    taken = letters("\n".join(every_paste()))
    templates = [item for item in templates if letters(longest(item)) not in taken]
    random.Random(SEED).shuffle(templates)
    telling = [template for template in templates if is_telling(template)]
    reserved = telling[: TARGETS + UNKNOWN]
    kept = set(reserved)
    return Material(
        targets=reserved[:TARGETS],
        unknown=reserved[TARGETS:],
        others=[template for template in templates if template not in kept],
        english=found["sentences"],
        chinese=chinese(),
    )


def every_paste() -> list[str]:
    """The texts under tests/logs."""
    golden = [path.read_text() for path in sorted(log_corpus.LOGS.glob("*.log"))]
    pastes = [*log_corpus.known(), *log_corpus.unknown()]
    return golden + [paste.text for paste in pastes]


def distinct(templates: Iterator[Template]) -> list[Template]:
    """One of those that differ in their holes only."""
    found: dict[str, Template] = {}
    for template in templates:
        found.setdefault(letters("".join(template.pieces)), template)
    return list(found.values())


def letters(text: str) -> str:
    return re.sub(r"[\W\d_]+", "", text).lower()


def longest(template: Template) -> str:
    return max(template.pieces, key=len)


def is_telling(template: Template) -> bool:
    """Says enough to be known by, as a signature of a record must."""
    text = filled(template, random.Random(0))
    return any(sign.is_telling for sign in read_signature("message", text))


def chinese() -> list[str]:
    """Clauses of the shipped articles and of Django's catalogue."""
    texts = [
        path.read_text() for path in sorted(settings.ISSUES_DIR.glob("*/article.zh.md"))
    ]
    for path in sorted(Path(django.__file__).parent.rglob("zh_Hans/**/django.mo")):
        with path.open("rb") as file:
            catalogue = gettext.GNUTranslations(file)
        texts += [f"{text}。" for text in catalogue._catalog.values()]  # type: ignore[attr-defined]
    return list(
        dict.fromkeys(found for text in texts for found in CLAUSE.findall(text))
    )


# --- texts ------------------------------------------------------------------------
def filled(template: Template, chance: random.Random) -> str:
    """The text with its holes filled, as torch would print it."""
    text = template.pieces[0]
    for piece in template.pieces[1:]:
        text += filling(chance) + piece
    return f"{template.kind}: {' '.join(text.split())[:600]}"


def filling(chance: random.Random) -> str:
    number = chance.randrange(2, 9000)
    return chance.choice(
        (
            str(number),
            f"torch.Size([{number}, {chance.randrange(1, 64)}])",
            f"torch.{chance.choice(('float32', 'bfloat16', 'float16', 'int64'))}",
            f"cuda:{number % 8}",
            f"<class 'models.block{number}.Layer'>",
            f"model.layers.{number % 80}.mlp.up_proj.weight",
            f"'{chance.choice(('mean', 'sum', 'gelu', 'nhwc', 'fan_in'))}'",
            f"{number / 7:.3f}",
        )
    )


def english_text(made_of: Material, chance: random.Random, sentences: int) -> str:
    """Sentences whose halves come from different ones."""
    found = []
    for _ in range(sentences):
        first, second = chance.choice(made_of.english), chance.choice(made_of.english)
        head, tail = first.split(), second.rstrip(".").split()
        found.append(" ".join([*head[: len(head) // 2], *tail[len(tail) // 2 :]]) + ".")
    return " ".join(found)


def chinese_text(made_of: Material, chance: random.Random, sentences: int) -> str:
    found = []
    for _ in range(sentences):
        pattern = chance.choice(CHINESE)
        said = pattern.format(*chance.sample(HAN_PHRASES, 3))
        found.append(f"{said}，{chance.choice(made_of.chinese)}。")
    return "".join(found)


# --- records ----------------------------------------------------------------------
def records(count: int) -> Iterator[Record]:
    """`count` unsaved published records; the first TARGETS have the reserved texts."""
    made_of = material()
    for number in range(count):
        yield record(number, made_of)


def record_id(number: int) -> str:
    """A free id of the form that has a page; there are 10,000 of those."""
    free = free_ids()
    return free[number] if number < len(free) else f"G{number:07d}"


@cache
def free_ids() -> list[str]:
    used = {
        tomllib.loads(path.read_text())["id"]
        for path in settings.ISSUES_DIR.glob("*/issue.toml")
    }
    every = (f"NAN-{number:04d}" for number in range(10_000))
    return [key for key in every if key not in used]


def record(number: int, made_of: Material) -> Record:
    chance = random.Random(f"{SEED} {number}")
    quoted = []
    if number < len(made_of.targets):
        quoted = [made_of.targets[number]]
    elif chance.random() < QUOTING:
        quoted = chance.sample(made_of.others, chance.choice((1, 1, 2)))
    signatures = [
        {"kind": "message", "text": filled(template, chance)} for template in quoted
    ]
    if chance.random() < 0.2:
        facet = chance.choice(("loss_nan", "grad_norm_nan", "loss_zero", "loss_inf"))
        signatures.append({"kind": "facet", "text": facet})
    english = [english_text(made_of, chance, chance.randrange(1, 4)) for _ in range(3)]
    han = [chinese_text(made_of, chance, chance.randrange(1, 4)) for _ in range(3)]
    component = chance.choice(COMPONENTS)
    return Record(
        id=record_id(number),
        slug=f"generated-{number}",
        publication=Publication.PUBLISHED,
        upstream=chance.choice(Upstream.values),
        symptom_class=chance.choice(SymptomClass.values),
        components=[component],
        title_en=f"{component}: {english_text(made_of, chance, 1)}"[:200],
        title_zh=f"{component}：{chinese_text(made_of, chance, 1)}"[:200],
        summary_en=english_text(made_of, chance, 1)[:400],
        summary_zh=chinese_text(made_of, chance, 1)[:400],
        symptom_en=english[0],
        root_cause_en=english[1],
        workaround_en=english[2],
        symptom_zh=han[0],
        root_cause_zh=han[1],
        workaround_zh=han[2],
        signatures=signatures,
        affected=[affected(chance)],
        sources=[{"id": "s-1", "kind": "report", "url": "", "title": "t"}],
    )


def affected(chance: random.Random) -> dict[str, object]:
    first = chance.randrange(0, 12)
    events = [{"introduced": f"2.{first}.0"}, {"fixed": f"2.{first + 2}.0"}]
    return {"package": chance.choice(PACKAGES), "events": events, "source": "s-1"}


# --- logs -------------------------------------------------------------------------
class Log(NamedTuple):
    text: str
    # The id of the record it shows; "" for none.
    record: str


def logs(count: int) -> list[Log]:
    """Logs of the first `count` targets: filled otherwise than the record."""
    return [
        Log(log_of(template, random.Random(f"log {at}")), record_id(at))
        for at, template in enumerate(material().targets[:count])
    ]


def unknown_logs(count: int) -> list[Log]:
    """Logs of errors that no record has."""
    return [
        Log(log_of(template, random.Random(f"unknown {at}")), "")
        for at, template in enumerate(material().unknown[:count])
    ]


def log_of(template: Template, chance: random.Random) -> str:
    """Some 45 lines of one rank: metrics, bars, frames, the message."""
    user, rank = f"user{chance.randrange(90)}", chance.randrange(8)
    folder = chance.choice(FOLDERS).format(user)
    mark = chance.choice(("", f"[rank{rank}]: ", f"(RayWorker pid={rank}312) "))
    library = f"/opt/conda/envs/{user}/lib/python3.1{rank % 4}/site-packages"
    lines = [metrics(step, chance) for step in range(chance.randrange(12, 30))]
    if template.kind.endswith("Warning"):
        lines.append(f"{library}/{template.path}:{chance.randrange(900)}: ")
        lines[-1] += filled(template, chance)
        lines.append("  warnings.warn(")
        lines += [metrics(step, chance) for step in range(30, 40)]
        return "\n".join(mark + line for line in lines)
    lines.append("Traceback (most recent call last):")
    places = [f"{folder}/train.py", f"{folder}/trainer/loop.py"]
    places += [f"{library}/torch/nn/modules/module.py"] * 2
    places.append(f"{library}/{template.path}")
    for place in places:
        lines.append(f'  File "{place}", line {chance.randrange(2000)}, in forward')
        lines.append(f"    out = self.run(x{chance.randrange(20)})")
    lines.append(filled(template, chance))
    lines.append("E1105 03:12:44.123 torch/distributed/elastic/agent.py:882] failed")
    lines[-1] += f" (exitcode: 1) local_rank: {rank} (pid: {rank}77)"
    return "\n".join(mark + line for line in lines)


def metrics(step: int, chance: random.Random) -> str:
    loss, norm, share = chance.random() * 3, chance.random() * 9, step * 2
    return chance.choice(
        (
            f"{{'loss': {loss:.4f}, 'grad_norm': {norm:.3f}, 'learning_rate': 2e-05}}",
            f"{share:3d}%|{'#' * step}| {step}/1000 [00:{step:02d}<12:31, 1.31it/s]",
            f"2026-11-{step % 28 + 1:02d} 10:11:12,345 - INFO - step {step} {loss:.3f}",
        )
    )
