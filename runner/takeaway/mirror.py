"""What any web host can serve without the site: OSV, strips and the data.

Paths are those of the site, so that a link to one holds for the other; pages and what
answers a question stay with the site, and whole addresses lead there.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.template.loader import render_to_string
from django.urls import is_valid_path, reverse
from django.utils.translation import get_language_from_path, override

from kb.api.serializers import MatrixSerializer, RecordSerializer
from kb.findings.results import timestamp
from kb.languages import DJANGO_LANG
from kb.models import Flip, Record
from kb.search.index.generation import current_generation
from kb.syndication import strip_picture
from kb.syndication.osv import views as osv
from kb.syndication.osv.queries import exported_ids
from runner.takeaway import data_package
from runner.takeaway.wheel import file_name

Json = dict[str, Any]

DATA = data_package.DATA
LINK = re.compile(r'(?:href|src)="([^"]+)"')


class MirrorError(Exception):
    """Why nothing was written, in a sentence."""


def write(folder: Path) -> int:
    """Put all files there in place of an earlier export; how many there are.

    Whoever reads meanwhile sees the old files, for a moment none, or the new ones.
    Raises MirrorError if a link leads nowhere, or `folder` holds something else.
    """
    if folder.exists() and not (folder / DATA).is_file() and any(folder.iterdir()):
        raise MirrorError(f"{folder} holds files that are no export: name another.")
    made = dict(files(settings.SITE_URL))
    if broken := sorted(set(broken_links(made, settings.SITE_URL))):
        raise MirrorError(f"Links that lead nowhere: {', '.join(broken)}")
    new, old = (folder.with_name(f".{folder.name}.{end}") for end in ("new", "old"))
    for left in (new, old):
        shutil.rmtree(left, ignore_errors=True)
    for path, content in made.items():
        (new / path).parent.mkdir(parents=True, exist_ok=True)
        (new / path).write_bytes(content)
    if folder.exists():
        folder.rename(old)
    new.rename(folder)
    shutil.rmtree(old, ignore_errors=True)
    return len(made)


def files(base: str) -> Iterator[tuple[str, bytes]]:
    """Path and content of each; `base`: the site's address.

    Raises MirrorError where nothing is published.
    """
    records = list(
        Record.objects.visible().prefetch_related("repros", "claims", "findings")
    )
    if not records:
        raise MirrorError("No record is published here: run load_records first.")
    version = data_package.version(records)
    shown = to_json(data(version, base, records))
    wheel = file_name(data_package.NAME, version)
    yield DATA, shown.encode()
    yield wheel, data_package.wheel(shown, version, base)
    yield from osv_files(base)
    for lang, below in (("en", ""), ("zh", "zh/")):
        with override(DJANGO_LANG[lang]):
            strips = {record: strip_picture.draw(record) for record in records}
            page = {"strips": strips, "base": base, "wheel": wheel, "data": DATA}
            made = pictures(strips)
            made["index.html"] = render_to_string("mirror/index.html", page)
        yield from ((below + path, text.encode()) for path, text in made.items())


def data(version: str, base: str, records: list[Record]) -> Json:
    """What the package carries: records, verdicts, and where a verdict turned."""
    flips = Flip.objects.filter(record__in=records).order_by("record", "pk")
    turned = ("record", "device_class", "kind", "before", "build", "observed_at")
    return {
        "version": version,
        "site": base,
        "licence": "Apache-2.0",
        "records": RecordSerializer(records, many=True).data,
        "matrix": MatrixSerializer(records, many=True).data,
        "flips": [
            {**row, "observed_at": timestamp(row["observed_at"])}
            for row in flips.values(*turned)
        ],
    }


def to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def osv_files(base: str) -> Iterator[tuple[str, bytes]]:
    """As the buckets of OSV are laid out, with the addresses of this site."""
    folder = site_path("osv-export").rpartition("/")[0]
    for entry in osv.documents_of(exported_ids(), base):
        yield f"{folder}/{entry['id']}.json", to_json(entry).encode()
    yield f"{folder}/all.zip", osv.archive(current_generation(), base)
    yield f"{folder}/modified_id.csv", osv.modified_csv().encode()


def pictures(strips: Mapping[Record, strip_picture.Picture]) -> dict[str, str]:
    return {
        site_path("strip", record.pk): render_to_string(
            "kb/releases.svg", {"picture": strip}
        )
        for record, strip in strips.items()
    }


def site_path(name: str, *args: str) -> str:
    return reverse(name, args=args).removeprefix("/")


# --- links ----------------------------------------------------------------------------


def broken_links(made: dict[str, bytes], base: str) -> Iterator[str]:
    """Of the pages and entries: what is neither one of the files nor of the site."""
    for path, content in made.items():
        if path.endswith(".html"):
            for link in LINK.findall(content.decode()):
                if not leads_somewhere(link, path, made, base):
                    yield link
        elif path.startswith("osv/") and path.endswith(".json"):
            for row in json.loads(content)["references"]:
                if not leads_somewhere(row["url"], path, made, base):
                    yield row["url"]


def leads_somewhere(link: str, path: str, made: dict[str, bytes], base: str) -> bool:
    """Sites of others are not asked."""
    if link.startswith(f"{base}/"):
        at = urlsplit(link.removeprefix(base)).path
        with override(get_language_from_path(at) or settings.LANGUAGE_CODE):
            return bool(is_valid_path(at))
    if urlsplit(link).scheme:
        return True
    return str((Path("/", path).parent / link).resolve()).lstrip("/") in made
