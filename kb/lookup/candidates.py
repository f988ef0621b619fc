"""At most three records for a paste, best first, each with reasons in named things.

What speaks for a record: a line that matches, a trap in the code, facts that a teller
of a shown symptom names, operators that the code calls. What rules one out is kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from kb.addresses import record_urls
from kb.findings import remedies
from kb.languages import Text as _
from kb.lookup import reasons, slices, weights
from kb.lookup.candidate import MAKES_NAN, Candidate
from kb.lookup.facts import Facts
from kb.lookup.first_checks import frameworks
from kb.lookup.known import known, names_of
from kb.lookup.near import Near
from kb.lookup.needs import is_possible_here, needed_packages
from kb.lookup.paste import Paste
from kb.lookup.questions import found_by_words
from kb.lookup.symptoms import (
    Cause,
    Shown,
    causes_in_code,
    causes_shown,
    is_of_many,
    is_told,
    signs_of,
)
from kb.lookup.traps import Trap, traps_in
from kb.records.articles import test_of
from kb.search.index.generation import Generation
from kb.search.index.inverted import Index
from kb.search.ranking.log_lines import SURE, Why
from kb.search.ranking.logs import LogMatch, match_log
from kb.search.ranking.nearness import Text
from kb.search.reading.figures import LOSS, NORM
from kb.search.reading.signatures import OP
from kb.search.reading.symptom_facets import ANOMALY
from kb.versions import affected
from kb.versions.affected import NONE
from kb.versions.ranges import NOT_AFFECTED, UNKNOWN

FIX_FIELDS = ("package", "version", "kind")
REMEDY_FIELDS = ("name", "kind", "apply", "cost")
MOST, MOST_REASONS, MOST_TEST_LINES = 3, 3, 5
# What each kind of evidence is worth; nearness orders what is equal.
SURE_MATCH, LINE, TRAP, SLICE = 20.0, 2.5, 4.0, 6.0
# Of a trap of another symptom than the one that the paste complains of.
BESIDE = 0.6
# Of a record that a search for the whole question finds.
BY_WORDS, BESIDE_CAUSES, AMONG = 4.0, 2.5, 0.4
FACET, ASKED, FOR, MOST_FOR = 0.3, 0.7, 1.6, 4
# A node or a number that at most so many records show is a name of its own.
RARE = 3
PLAIN = {f"{name}_{state}" for name in (LOSS, NORM) for state in ("zero", "nan", "inf")}
PEOPLE = 0.02
# Of a cause whose symptom nothing shows: the code calls what its teller names, or the
# paste has some NaN.
IN_CODE, OF_NAN = 0.6, 0.25
# Below this a record shares a word with the paste, and no more.
LEAST = 0.7
Json = dict[str, Any]


@dataclass
class Asked:
    """What candidates are made of: the paste, its facts, and the records there are."""

    paste: Paste
    facts: Facts
    shown: list[Shown]
    index: Index
    generation: Generation
    # What the reader answered, by slug.
    said: Mapping[str, bool]


def candidates_of(asked: Asked) -> tuple[list[Candidate], list[Candidate]]:
    """Those that may be it, best first; and those that something rules out."""
    matches = match_log(asked.paste.reading, asked.index)
    near = Near(Text(weights.weights_of(asked.paste), asked.index), asked.shown)
    causes, weight = causes_shown(asked.shown, asked.facts, asked.said), 1.0
    if not causes:
        causes, weight = causes_in_code(asked.facts, asked.said), IN_CODE
    traps = traps_in(asked.paste)
    slugs = names_of(asked.generation)
    alike = slices.alike(asked.paste.reading.probe)
    by_words = found_by_words(asked.paste, asked.facts, asked.index)
    wanted = {*(match.record for match in matches), *traps, *near.first, *alike}
    wanted |= by_words.keys() | {
        slugs[cause.slug] for cause in causes if cause.slug in slugs
    }
    records = known(sorted(wanted), asked.generation)
    found = {pk: Candidate(row.row.slug, row) for pk, row in records.items()}
    for cause in causes:
        # A slice tells more than its law.
        own = weight if not cause.is_measured else OF_NAN if alike else 1.0
        add_cause(cause, found, slugs, own, asked.facts)
    claims = Counter(why.signature for match in matches for why in match.why)
    for match in matches:
        fewest = min((claims[why.signature] for why in match.why), default=0)
        add_match(found.get(match.record), match, asked, fewest)
    for pk, trap in traps.items():
        add_trap(found.get(pk), trap, asked)
    for pk, row in alike.items():
        add_slice(found.get(pk), row, asked)
    for pk, candidate in found.items():
        near.add_to(pk, candidate, asked.facts)
    add_words(by_words, found, asked)
    listed = [found[pk] for pk in found if is_listed(pk, found[pk], traps)]
    listed = [row for row in listed if may_be(row, alike, asked)]
    for candidate in listed:
        rule_out(candidate, asked)
    order = sorted(listed, key=lambda row: (not row.is_sure, -row.score, row.slug))
    out = [row for row in order if row.ruled_out]
    return with_a_trap([row for row in order if not row.ruled_out], traps), out


def is_listed(pk: str, candidate: Candidate, traps: Mapping[str, Trap]) -> bool:
    return bool(candidate.because) and (candidate.score >= LEAST or pk in traps)


def with_a_trap(order: list[Candidate], traps: Mapping[str, Trap]) -> list[Candidate]:
    """A trap in the code is shown before a cause of which the paste says nothing."""
    silent = [row for row in order[:MOST] if row.is_unspoken]
    trapped = [row for row in order if row.row and row.row.pk in traps]
    if not silent or not trapped or trapped[0] in order[:MOST]:
        return order
    rest = [row for row in order if row not in (silent[-1], trapped[0])]
    return [*rest[: MOST - 1], trapped[0], silent[-1], *rest[MOST - 1 :]]


def add_cause(
    cause: Cause,
    found: dict[str, Candidate],
    slugs: Mapping[str, str],
    weight: float,
    facts: Facts,
) -> None:
    key = slugs.get(cause.slug, cause.slug)
    if key not in found and "name" not in cause.entry:
        return
    candidate = found.setdefault(key, Candidate(cause.slug))
    if weight < 1 and candidate.is_other_symptom(facts):
        return
    candidate.cause, candidate.is_told = cause, bool(cause.because)
    is_full = candidate.known and not candidate.known.row.is_brief
    if weight < 1 and is_full and cause.is_called and not cause.is_measured:
        return  # the operators of its repro are compared with the code already
    strength = min(cause.strength, MOST_FOR)
    people = PEOPLE * cause.entry.get("people", 1)
    if weight < 1 and not (cause.is_called or cause.is_measured):
        weight = OF_NAN
    candidate.score += weight * (ASKED + FOR * strength + people) + cause.said
    candidate.because += reasons.of_predicates(cause.because)
    if not candidate.because:
        candidate.because.append(reasons.of_symptom(cause.symptom))
    if cause.against:
        candidate.ruled_out = "log"


def add_match(
    candidate: Candidate | None, match: LogMatch, asked: Asked, fewest: int
) -> None:
    """`fewest`: how many records show the rarest of what matches."""
    if candidate is None:
        return
    facets_only = all(
        why.coverage == 0.0 or is_node(why.signature) for why in match.why
    )
    # Where no fact speaks for one, the commonest goes first.
    if facets_only and fewest <= RARE and not all(map(is_plain, match.why)):
        nodes = all(is_node(why.signature) for why in match.why)
        hint = nodes and candidate.is_unspoken
        candidate.is_told = candidate.is_told or not hint
        candidate.score += FACET if hint else LINE / fewest
    elif facets_only:
        if not is_possible_here(candidate.row, asked.facts):
            return
        if candidate.is_told or not asked.shown:
            candidate.score += FACET
    elif match.confidence in SURE and is_own(match, candidate, asked):
        candidate.confidence, candidate.is_told = match.confidence, True
        candidate.score += SURE_MATCH + match.score
    elif not {why.line for why in match.why} <= shared_lines(asked):
        # Beside a symptom's message another line is a hint, such as a thread's title.
        candidate.is_told = True
        line = ASKED if shared_lines(asked) else LINE + 1
        candidate.score += line * match.why[0].coverage + 0.05 * match.score
    lines = [why.line for why in match.why]
    candidate.lines = sorted({*candidate.lines, *lines})
    # That a loss is NaN is the symptom itself, and no reason for this cause.
    told = [why for why in match.why if not (asked.shown and is_plain(why))]
    said = [reasons.of_line(why, asked.paste.reading) for why in told]
    candidate.because = [*said[:1], *candidate.because, *said[1:]]


def shared_lines(asked: Asked) -> set[int]:
    """Lines with a message that many causes have."""
    return {line for shown in asked.shown for line in shown.lines}


def is_plain(why: Why) -> bool:
    """A loss or norm that is 0 or NaN, in whatever words."""
    return all(sign.text in PLAIN for sign in signs_of(why.signature))


def is_node(signature: str) -> bool:
    """A node of autograd that many mistakes end in; custom functions are their own."""
    named = ANOMALY.search(signature)
    if named:
        return not named[1].endswith("FunctionBackward")
    return signature.startswith((OP, "inf_in_")) and not signature.endswith(
        "FunctionBackward"
    )


def is_own(match: LogMatch, candidate: Candidate, asked: Asked) -> bool:
    """A message that many causes share is sure only with a fact that tells this one.

    The message itself is no such fact; and no warning shows a NaN where all figures
    are finite.
    """
    shared, row = shared_lines(asked), candidate.row
    if asked.facts.is_finite and row and row.symptom_class in MAKES_NAN:
        return False
    sure = [why for why in match.why if why.confidence in SURE]
    own = (why for why in sure if why.line not in shared)
    if any(not (is_node(why.signature) or is_of_many(why.signature)) for why in own):
        return True
    cause = candidate.cause
    if cause is None or cause.against or not shared:
        return False
    return is_told(cause, asked.facts.apart_from(asked.paste, shared))


def add_trap(candidate: Candidate | None, trap: Trap, asked: Asked) -> None:
    if candidate is None:
        return
    candidate.is_told = True
    # Not what the message is about, whose causes are known.
    other = candidate.cause is None and bool(shared_lines(asked))
    other = other or candidate.is_other_symptom(asked.facts)
    candidate.score += BESIDE if other else TRAP
    candidate.lines = sorted({*candidate.lines, trap.line})
    candidate.because.insert(0, reasons.of_trap(trap))


def add_slice(candidate: Candidate | None, alike: slices.Alike, asked: Asked) -> None:
    probe = asked.paste.reading.probe
    if candidate is None or probe is None:
        return
    candidate.is_told = True
    candidate.score += SLICE * alike.share
    candidate.lines = sorted({*candidate.lines, probe.slice[0]})
    candidate.because.insert(0, reasons.of_slice(probe.slice[0], alike.ops))


def add_words(
    by_words: Mapping[str, float], found: Mapping[str, Candidate], asked: Asked
) -> None:
    """Words order causes of a symptom; alone they speak where nothing else does.

    Least for a record of NaN where none is spoken of, and the reverse.
    """
    is_told = any(row.is_told or row.lines for row in found.values())
    for pk, candidate in found.items():
        share = by_words.get(pk, 0.0)
        among = (
            is_told or candidate.cause or candidate.makes_nan != asked.facts.says_nan
        )
        alone = BESIDE_CAUSES if asked.shown else BY_WORDS
        candidate.score += share * (AMONG if among else alone)
        if share and not (candidate.because or is_told):
            candidate.is_by_words = True
            candidate.because.append(reasons.BY_WORDS.filled())


def may_be(
    candidate: Candidate, alike: Mapping[str, slices.Alike], asked: Asked
) -> bool:
    """Not where the probe saw another failure than the record's own."""
    pk = candidate.row.pk if candidate.row else ""
    cause = candidate.cause
    if candidate.is_sure or pk in alike or (cause and cause.is_measured):
        return True
    return not slices.fails_otherwise(pk, asked.paste.reading.probe)


def rule_out(candidate: Candidate, asked: Asked) -> None:
    if candidate.known is None:
        return
    row = candidate.known.row
    answer = affected.answer_for(row, asked.facts.environment, candidate.known.verdicts)
    candidate.affected = answer
    if candidate.is_sure or candidate.ruled_out:
        return
    facts, others = asked.facts, needed_packages(row)
    has_none = others and not any(facts.has("package", p) for p in others)
    if facts.environment.is_complete and has_none:
        candidate.ruled_out = "package"
    elif facts.values.get("card") and any(
        item["key"] == "gpu_arch" and not facts.cards_like(item["value"])
        for item in row.preconditions
    ):
        candidate.ruled_out = "card"
    elif answer.answer == NOT_AFFECTED:
        card = any(
            reason.get("package") == "torch" and "GPU" in reason["en"]
            for reason in answer.reasons
        )
        candidate.ruled_out = "card" if card else "version"


def document(candidate: Candidate, facts: Facts) -> Json:
    row = candidate.known.row if candidate.known else None
    entry = candidate.cause.entry if candidate.cause else {}
    return {
        "record": row.pk if row else None,
        "slug": candidate.slug,
        "aliases": list(row.aliases) if row else [],
        "title": row.both("title") if row else entry["name"],
        "confidence": candidate.confidence.value,
        "lines": candidate.lines,
        "because": candidate.because[:MOST_REASONS],
        "affected": affected_document(candidate),
        "test": test_for(candidate),
        "workaround": workaround_for(candidate, facts),
        "fixes": [{k: fix[k] for k in FIX_FIELDS} for fix in row.fixes] if row else [],
        "urls": record_urls(row) if row else None,
    }


def workaround_for(candidate: Candidate, facts: Facts) -> Json | None:
    """Of a sure match the first that runs bear out, else the first untested one;
    before others of its kind what has a line for the framework of the paste.
    """
    if not (candidate.is_sure and candidate.known):
        return None
    listed = candidate.known.workarounds(facts.environment.torch_raw)
    spoken = remedies.in_framework(listed, *frameworks(facts))
    chosen, line = spoken or (remedies.best(listed), None)
    if chosen is None:
        return None
    shown = {key: chosen.entry[key] for key in REMEDY_FIELDS} | chosen.shown()
    return shown | {"line": line and asdict(line)}


def affected_document(candidate: Candidate) -> Json | None:
    """Of what is not sure, a build that has the bug says only that it may be met."""
    answer = candidate.affected
    if answer is None:
        return None
    takes_more = candidate.row is not None and candidate.row.preconditions
    open_still = takes_more or candidate.is_unspoken or candidate.is_by_words
    if candidate.is_sure or not answer.is_affected or not open_still:
        return answer.as_dict()
    # Of no package: what is unknown is the code, and no run of the build tells it.
    why = [{"package": "", **IN_BUILD.filled()}, *answer.reasons]
    return replace(answer, answer=UNKNOWN, basis=NONE, reasons=why).as_dict()


IN_BUILD = _("These versions have it. Use the test to see whether your code meets it.")
IS_IT_SO = _("Does this hold: {text}")


def test_for(candidate: Candidate) -> Json:
    """The question that tells yes from no, with code where few lines answer it."""
    record = candidate.known
    code = ""
    question: Json | None = candidate.cause.entry["ask"] if candidate.cause else None
    if record:
        code = test_of(record.row.symptom_en) if record.row.is_brief else ""
        for entry in record.diagnoses[:1]:
            if entry["code"].count("\n") < MOST_TEST_LINES:
                code, question = entry["code"], entry["text"]
        first = next(iter(record.row.preconditions), None)
        if question is None and first:
            question = IS_IT_SO.filled(text=first["text"])
        question = question or IS_IT_SO.filled(text=record.row.both("summary"))
    return {"question": question, "code": code}
