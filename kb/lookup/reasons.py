"""Reasons of an answer, in named things only: operators, errors, packages, cards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kb.languages import LIST_COMMA, Text as _
from kb.lookup.facts import Facts
from kb.lookup.traps import Trap
from kb.models import Symptom
from kb.records import tellers
from kb.search.ranking.log_lines import Why
from kb.search.reading.log import Reading
from kb.search.reading.names import as_written
from kb.search.reading.signatures import read_signature
from kb.wording import facet_title

Json = dict[str, Any]
MOST_CHARS, MOST_OPS = 160, 4
LINE = _("line {line} says “{text}”")
SLICE = _("line {line}: its repro fails by the same operations ({names})")
SHOWS = _("line {line} shows {text}")
TRAP = _("line {line} of your code: {text}")
# How the paste has the names that it shares with a record, by fact.
NAMES = {
    "passed": _("your code passes {names}"),
    "call": _("your code calls {names}"),
    "named": _("you name {names}"),
}
SYMPTOM = _("it is a known cause of “{title}”")
BY_WORDS = _("its text is among the nearest to your words")
AND = _(" and ")
# What a predicate that holds says, by its fact, or by that and its value or operator.
FACTS = {
    "trainer": _("your paste comes from {value}"),
    "method": _("you train {value}"),
    "device": _("the device is {value}"),
    "dtype": _("the number format is {value}"),
    "mode": _("your paste shows {value}"),
    "card": _("the card is {value}"),
    "arch": _("the GPU is {value}"),
    "package": _("{value} is installed"),
    "loss": _("the loss is {value}"),
    "grad_norm": _("grad_norm is {value}"),
    "loss_scale": _("the loss scale: {value}"),
    "first_bad": _("{value} is the first that is not finite"),
    "call": _("your code calls {value}"),
    "named": _("you name {value}"),
    "error": _("the error is {value}"),
    "frame": _("the traceback passes {value}"),
    "node": _("the backward node is {value}"),
    "probe": _("the report shows {value}"),
    "probe input": _("the value came with the data"),
    "probe loaded": _("a weight was not finite before the first step"),
    "probe unwritten": _("the memory was never written"),
    "probe silent": _("no gradient reaches some weights"),
    "law": _("the report shows {value}"),
    "law 0 / 0": _("the report shows 0 / 0"),
    "law log of 0": _("the report shows the log of 0"),
    "law mean of nothing": _("the report shows the mean of nothing"),
    "law overflow of": _("the report shows an overflow"),
    "says": _("your paste says “{value}”"),
    "finite_steps ==": _("one step was finite before"),
    "finite_steps": _("several steps were finite before"),
    "growth": _("the loss grew many times over"),
    "last_loss": _("the loss is {value}"),
    "last_loss <": _("the loss is below {value}"),
    "last_grad_norm": _("grad_norm is {value}"),
    "last_loss_scale": _("the loss scale is at {value} or below"),
    "last_loss_scale >": _("the loss scale is above {value}"),
    "loss_scale falls": _("the loss scale falls"),
    "loss recovers": _("the loss is finite again later"),
    "grad_norm recovers": _("grad_norm is finite again later"),
    "mode evaluation_nan": _("the loss of the evaluation is NaN"),
    "told after_one": _("it is NaN after one step"),
    "told differs": _("you say that the values differ"),
    "told own_data": _("you train on samples of your own"),
    "told multiplied": _("a value is a multiple of what it should be"),
    "told raw_scale": _("the inputs are not normalised"),
    "told z_score": _("the inputs are normalised"),
    "told unchanged": _("you say that weights do not change"),
    "told same_output": _("the output is the same for every input"),
    "told scale_falls": _("you say that the loss scale falls"),
    "told same_place": _("it is NaN at the same place each time"),
    "told metric_nan": _("a metric is NaN"),
    "told exclamation": _("the output is exclamation marks"),
    "told lower_rate": _("you lowered the learning rate"),
    "told rate_no_help": _("a lower learning rate does not help"),
    "told cpu_fine": _("the CPU is right"),
    "told blown_up": _("you say that it diverges or explodes"),
    "told negative_loss": _("the loss is negative"),
    "told nothing_left": _("nothing is left to take the mean of"),
    "told two_networks": _("you train two networks against each other"),
    "told left_out": _("something is not in the optimizer"),
    "told grad_off": _("what is trained runs with gradients switched off"),
    "told out_of_order": _("zero_grad, backward and step are out of order"),
    "told rebuilt": _("the loss takes torch.tensor(…), which has no gradient"),
    "told weight_changed": _("what was changed is a weight, by its version"),
    "told value_changed": _("what was changed is the output of an operator"),
    "method angular": _("you train with an angular margin, such as ArcFace"),
    "onset first": _("it begins at the first step"),
    "onset later": _("it begins at a later step"),
}
# Why a record is none, in the order in which an answer lists them.
RULED_OUT = {
    "package": _("Package not installed"),
    "version": _("Not affected in these versions"),
    "card": _("Other device or card"),
    "log": _("The paste says otherwise"),
}


def of_predicates(sources: Sequence[str]) -> list[Json]:
    """Without those that another one says already; all values of a fact at once."""
    parsed = [tellers.parse(source) for source in dict.fromkeys(sources)]
    told: dict[str | int, list[tellers.Term]] = {}
    for at, terms in enumerate(parsed):
        if not any(set(terms) < set(other) for other in parsed):
            alone = len(terms) == 1 and terms[0].op == "=="
            is_value = alone and wording(terms[0]) == FACTS.get(terms[0].fact)
            told.setdefault(terms[0].fact if is_value else at, []).extend(terms)
    return [of_terms(terms) for terms in told.values()]


def of_terms(terms: Sequence[tellers.Term]) -> Json:
    """What is not so is no reason, where something is."""
    first = terms[0]
    if len(terms) > 1 and {(t.fact, t.op) for t in terms} == {(first.fact, "==")}:
        ands = {"en": AND["en"], "zh": LIST_COMMA["zh"]}
        values = {lang: ands[lang].join(t.value for t in terms) for lang in ands}
        return FACTS[first.fact].filled(value=values)
    return joined([of_term(t) for t in terms if t.op != "!=" or len(terms) == 1])


def of_term(term: tellers.Term) -> Json:
    return wording(term).filled(value=term.value)


def wording(term: tellers.Term) -> _:
    ways = (f"{term.fact} {term.value}", f"{term.fact} {term.op}", term.fact)
    return next(FACTS[way] for way in ways if way in FACTS)


def of_symptom(symptom: Symptom) -> Json:
    return SYMPTOM.filled(title=symptom.both("title"))


def of_line(why: Why, reading: Reading) -> Json:
    """The line as pasted; of a metric what it shows."""
    signs = read_signature("message", why.signature)
    if why.coverage == 0.0 or all(sign.kind == "facet" for sign in signs):
        return SHOWS.filled(line=why.line, text=facet_title(why.signature))
    numbers = range(why.line, why.last_line + 1)
    text = " ".join(line for at in numbers if (line := reading.lines.get(at)))
    cut = "…" if len(text) > MOST_CHARS else ""
    return LINE.filled(line=why.line, text=text[:MOST_CHARS] + cut)


def of_trap(trap: Trap) -> Json:
    said = trap.finding.rule["message"]
    text = {lang: said[lang].rstrip(".。") for lang in said}
    return TRAP.filled(line=trap.line, text=text)


def of_slice(line: int, ops: Sequence[str]) -> Json:
    listed = {lang: sign.join(ops[:MOST_OPS]) for lang, sign in LIST_COMMA.items()}
    return SLICE.filled(line=line, names=listed)


def of_names(names: Sequence[str], facts: Facts) -> Json:
    """Each once, by the first fact of `NAMES` that has it; else it is named."""
    said: list[Json] = []
    left = list(names)
    for fact, text in NAMES.items():
        has = [name for name in left if fact == "named" or facts.has(fact, name)]
        left = [name for name in left if name not in has]
        if has:
            written = (as_written(name, facts.text) for name in has)
            once = {name.lower(): name for name in written}.values()
            listed = {lang: LIST_COMMA[lang].join(once) for lang in LIST_COMMA}
            said.insert(0, text.filled(names=listed))
    return joined(said)


def joined(texts: Sequence[Json]) -> Json:
    found = texts[0]
    for text in texts[1:]:
        found = {k: found[k] + AND[k] + text[k] for k in found}
    return found
