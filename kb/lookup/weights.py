"""The weighted words that a paste speaks of, all its parts together."""

from __future__ import annotations

from kb.environments import spoken
from kb.lookup.paste import Paste
from kb.search.reading import names
from kb.search.reading.code import names_of_code
from kb.search.reading.parts import PRINTED, Kind
from kb.search.reading.query import raise_to, weighted_words
from kb.search.reading.symptom_facets import metrics_in
from portable.masking import key_lines

# Characters of a part that are read for their words: of a log those lines that tell.
PRINTED_CHARS, WRITTEN_CHARS = 4000, 12_000
KEY_LINES = 40


def weights_of(paste: Paste) -> dict[str, float]:
    """The weighted words of all parts but lists of packages, and the symptoms."""
    weights: dict[str, float] = {}
    if paste.is_only_environment:
        return weights
    for kind in Kind:
        text = "\n".join(paste.texts(kind))
        if not (text or kind == Kind.PROBE):
            continue
        if kind == Kind.CODE:
            raise_to(of_code(text[:WRITTEN_CHARS]), weights)
        elif kind == Kind.PROBE and paste.reading.probe:
            raise_to(weighted_words(paste.reading.probe.words), weights)
        elif kind == Kind.TENSOR:
            raise_to(of_tensors(telling(text)[:PRINTED_CHARS]), weights)
        elif kind in PRINTED:
            raise_to(weighted_words(telling(text)[:PRINTED_CHARS]), weights)
        elif kind == Kind.ENVIRONMENT:
            for begun in spoken.spoken_of(text):
                raise_to(weighted_words(begun.words[:WRITTEN_CHARS]), weights)
        else:
            raise_to(weighted_words(text[:WRITTEN_CHARS]), weights)
    lines = "\n".join(line.text for line in paste.reading.key_lines[:KEY_LINES])
    raise_to(of_tensors(lines), weights)
    written = " ".join("\n".join(paste.texts(Kind.WORDS)).split())[:WRITTEN_CHARS]
    facets = {*paste.reading.facets, *metrics_in(written).facets}
    raise_to({facet.lower(): 1.0 for facet in facets}, weights)
    return weights


def telling(printed: str) -> str:
    """The lines that complain, with those around them; all of them where none does."""
    lines = list(enumerate(printed.split("\n")))
    return "\n".join(line for _at, line in key_lines(lines) or lines)


def of_code(source: str) -> dict[str, float]:
    """Words of code; its names by what they are imported as."""
    weights = weighted_words(source)
    named = names_of_code(source)
    if named:
        weights = {
            token: weight
            for token, weight in weights.items()
            if not token.startswith(names.PREFIX)
        }
    return weights | dict.fromkeys(named, 1.0)


def of_tensors(printed: str) -> dict[str, float]:
    """What lines say beside how tensors are printed, and what made the tensors."""
    weights = weighted_words(names.PRINTED.sub(" ", printed))
    return weights | dict.fromkeys(names.made_by(printed), 1.0)
