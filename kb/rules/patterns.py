"""A rule, asked of what a program does.

A rule is data (docs/records.md): steps that happen in this order. Each names events and
says of their arguments what must be known; what is not known fulfils nothing.
"""

from __future__ import annotations

import re
from itertools import count
from typing import Any, Dict, Iterator, List, Optional, Set, Tuple

from kb.rules.flows import Trace
from kb.rules.gradients import BLOCKED, MAYBE, SEEN
from kb.rules.names import exact, is_written, names_of, words_of
from kb.rules.origins import CHECKS, has_no_gradient, made_by, parts, wholes
from kb.rules.values import Event, Value

Json = Dict[str, Any]
Bound = Dict[str, object]
OPEN: Any = object()
MOST_TRIED = 4000
ARGUMENT = re.compile(r"(?P<name>[A-Za-z_]\w*)?(?:@(?P<at>\d+))?")
NO_GRADIENT = ("torch.no_grad", "torch.inference_mode")
BACKWARD = (".backward", "torch.autograd.grad", "torch.autograd.backward")
SPELLED = {
    "float16": ["float16", "half"],
    "float32": ["float"],
    "float64": ["float64", "double"],
}


class Step:
    """One step, its names ready to be compared."""

    def __init__(self, data: Json) -> None:
        self.ways = [Step(way) for way in data.get("any", [])]
        self.names = names_of(data.get("event", []))
        # Of each name that was asked for: most events are none of a step.
        self.named: Dict[str, bool] = {}
        self.conditions = data.get("with", {})
        self.inside = [Step(entry) for entry in data.get("inside", [])]
        self.outside = names_of(data.get("outside", []))
        self.trained = str(data.get("trained", ""))
        self.used = bool(data.get("used", False))
        self.before = bool(data.get("before", False))
        self.unguarded = frozenset(data.get("unguarded", []))
        self.keywords = frozenset(data.get("keywords", []))
        self.without = names_of(data.get("without", []))

    def fits(self, event: Event, bound: Bound, trace: Trace) -> Iterator[Bound]:
        """Every way in which an event is this step, with what is bound then."""
        for way in self.ways:
            yield from way.fits(event, bound, trace)
        if event.name not in self.named:
            self.named[event.name] = bool(self.names.match(event.name))
        if not self.named[event.name] or self.is_guarded(event):
            return
        if self.keywords and not self.keywords.issuperset(event.kwargs):
            return
        if any(self.outside.match(name_of(value)) for value in event.contexts):
            return
        if self.trained and not is_trained(trace, event, self.trained == "seen"):
            return
        if self.used and not trace.is_used(event.result, False):
            return
        for found in conditions_hold(self.conditions, event, bound):
            yield from self.stands_inside(event, found, list(self.inside))

    def is_guarded(self, event: Event) -> bool:
        """By an `if` that mentions one of the names, or the name of an argument."""
        names = set(self.unguarded)
        for spec in [name for name in names if "@" in name]:
            value = argument(event, spec)
            if isinstance(value, Value):
                names |= {x.called for x in (value, *value.inputs) if x.called}
        return not names.isdisjoint(event.guards)

    def stands_inside(
        self, event: Event, bound: Bound, wanted: List[Step]
    ) -> Iterator[Bound]:
        if not wanted:
            yield bound
            return
        for value in event.contexts:
            made = value.made or Event(value.name, [])
            if not wanted[0].names.match(name_of(value)):
                continue
            for found in conditions_hold(wanted[0].conditions, made, bound):
                yield from self.stands_inside(event, found, wanted[1:])


class Rule:
    """A rule of a record. `words`: of each set one stands in the source, or nothing is
    to be found; `written`: what does."""

    def __init__(self, data: Json) -> None:
        self.data = data
        self.name = str(data["name"])
        self.steps = [Step(step) for step in data["step"]]
        self.unless = [Step(step) for step in data.get("unless", [])]
        self.at = int(data.get("at", len(self.steps))) - 1
        self.last_words = exact(words_of(events_of(data["step"][-1])))
        self.words = [words for step in data["step"] for words in needed(step)]
        self.written = re.compile(data.get("written", ""))

    def may_fire(self, source: str, written: Set[str]) -> bool:
        """A quick look at a source and its words: without these it finds nothing."""
        return all(
            any(is_written(word, written) for word in words) for words in self.words
        ) and bool(self.written.search(source))

    def found_in(self, trace: Trace, undone: Set[Undone]) -> Iterator[Event]:
        """The events at which the step of the finding happens, each once; `undone` gets
        those that something later makes harmless."""
        seen: Set[int] = set()
        harmless: Set[Undone] = set()
        fired: Set[Undone] = set()
        for event, is_undone in self.follow(trace, 0, None, {}, [], count(1)):
            (harmless if is_undone else fired).add((self, event))
            if not is_undone and id(event.node) not in seen:
                seen.add(id(event.node))
                yield event
        undone |= harmless - fired

    def follow(
        self,
        trace: Trace,
        at: int,
        before: Optional[Event],
        bound: Bound,
        chosen: List[Event],
        tries: Iterator[int],
    ) -> Iterator[Tuple[Event, bool]]:
        step = self.steps[at]
        start = 0 if before is None else before.at + 1
        for event in trace[start:]:
            if next(tries) > MOST_TRIED * len(self.steps):
                return
            if before is not None and step.without.match(event.name):
                return
            if not all(together(event, other) for other in chosen):
                continue
            for found in step.fits(event, bound, trace):
                if at + 1 < len(self.steps):
                    more = [*chosen, event]
                    yield from self.follow(trace, at + 1, event, found, more, tries)
                else:
                    is_undone = self.is_undone(trace, event, found)
                    yield [*chosen, event][self.at], is_undone

    def is_undone(self, trace: Trace, event: Event, bound: Bound) -> bool:
        """Whether something makes it harmless that comes later, or `before`. A step of
        `unless` speaks of things that have their names already."""
        return any(
            found == bound
            for step in self.unless
            for one in (trace[: event.at] if step.before else trace[event.at :])
            for found in step.fits(one, bound, trace)
        )


# A rule with an event at which it would fire.
Undone = Tuple[Rule, Event]


def together(one: Event, other: Event) -> bool:
    """Whether both can happen in one run: not on two ways of one branch."""
    ways = dict(one.path)
    return all(ways.get(node, number) == number for node, number in other.path)


def events_of(step: Json) -> List[str]:
    """The names of a step, with those of the steps of which it is any."""
    found = list(step.get("event", []))
    for way in step.get("any", []):
        found += events_of(way)
    return found


def is_trained(trace: Trace, event: Event, is_seen: bool) -> bool:
    """Whether a gradient is asked for there; else, whether nothing speaks against."""
    if all(map(has_no_gradient, event.args)):
        return False
    if any(name_of(value) in NO_GRADIENT for value in event.contexts):
        return False
    if not trace.is_used(event.result, True):
        return False
    if any(one.name in BACKWARD for one in trace) and event.trained != BLOCKED:
        return True
    return event.trained >= (SEEN if is_seen else MAYBE)


def needed(step: Json) -> Iterator[List[str]]:
    """Sets of words; a source that has none of one set cannot have the step."""
    words = words_of(events_of(step))
    if words:
        yield words
    for spec, condition in step.get("with", {}).items():
        yield from needed_by(condition)
        alternatives = condition if isinstance(condition, list) else [condition]
        by_name = spec.isidentifier() and spec not in ("self", "result")
        if by_name and all(entry.get("given") is not False for entry in alternatives):
            yield [spec]
    for entry in step.get("inside", []):
        yield from needed(entry)


def needed_by(condition: Any) -> Iterator[List[str]]:
    if isinstance(condition, list):
        if len(condition) == 1:
            yield from needed_by(condition[0])
        return
    for key in ("made_by", "from", "named"):
        words = words_of(condition.get(key, []))
        if words:
            yield words
    if "dtype" in condition:
        yield [
            word for name in condition["dtype"] for word in SPELLED.get(name, [name])
        ]
    if "holds" in condition:
        word = condition["holds"].lstrip("-")
        yield ["finfo"] if word == "min" else [word]
    for other in condition.get("of", {}).values():
        yield from needed_by(other)


def name_of(value: Value) -> str:
    """Of a context or callable: what it is called, or what made it."""
    return value.name or (value.made.name if value.made is not None else "")


# --- conditions ---------------------------------------------------------------------
def argument(event: Event, spec: str) -> Any:
    """The value of "weight@1", "self"; None where it is not given, OPEN: unknown."""
    if spec in ("self", "result"):
        return event.owner if spec == "self" else event.result
    found = ARGUMENT.fullmatch(spec)
    name, at = (found.group("name"), found.group("at")) if found else (None, None)
    if name is not None and name in event.kwargs:
        return event.kwargs[name]
    if at is not None and int(at) < len(event.args):
        return event.args[int(at)]
    if (name and event.open_kwargs) or (at is not None and event.open_args):
        return OPEN
    return None


def conditions_hold(wanted: Json, event: Event, bound: Bound) -> Iterator[Bound]:
    """Every way in which all arguments are as a step wants them."""
    if not wanted:
        yield bound
        return
    (spec, condition), *rest = wanted.items()
    for name in spec.split("|"):
        value = argument(event, name)
        for alternative in condition if isinstance(condition, list) else [condition]:
            for found in holds(alternative, value, bound):
                yield from conditions_hold(dict(rest), event, found)


def holds(condition: Json, value: Any, bound: Bound) -> Iterator[Bound]:
    if value is OPEN:
        # Of what is not known nothing is asked.
        if condition.keys() <= {"asked", "not_from"}:
            yield bound
        return
    if value is None:
        if condition.get("given") is False:
            yield bound
        return
    if condition.get("given") is False:
        return
    if not all(
        CHECKS[key](value, wanted) for key, wanted in condition.items() if key in CHECKS
    ):
        return
    for named in bindings(condition, value, bound):
        for found in contained(condition, value, named):
            yield from origin_holds(condition, value, found)


def contained(condition: Json, value: Value, bound: Bound) -> Iterator[Bound]:
    """Every way in which a part is as `contains` wants it, each once."""
    if "contains" not in condition:
        yield bound
        return
    seen: List[Bound] = []
    for part in parts(value):
        for found in holds(condition["contains"], part, bound):
            if found not in seen:
                seen.append(found)
                yield found


def bindings(condition: Json, value: Value, bound: Bound) -> Iterator[Bound]:
    """`same` and `part_of` give an object a name, or ask whether it has it."""
    wanted = [(condition["same"], [value])] if "same" in condition else []
    if "part_of" in condition:
        wanted.append((condition["part_of"], wholes(value)))
    ways = [bound]
    for name, values in wanted:
        things = [x.const if x.is_known else x.ident for x in values]
        ways = [
            {**way, name: thing}
            for way in ways
            for thing in things
            if way.get(name, thing) == thing
        ]
    yield from ways


def origin_holds(condition: Json, value: Value, found: Bound) -> Iterator[Bound]:
    origins = [key for key in ("made_by", "from") if key in condition]
    if not origins:
        yield found
        return
    names = names_of(condition[origins[0]])
    for event in made_by(value, origins[0] == "from"):
        if names.match(event.name):
            yield from conditions_hold(condition.get("of", {}), event, found)
