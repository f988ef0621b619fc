"""`python doctor.py --compare OTHER_PYTHON`: what differs between two environments.

Both are executed. Exit status: 1 where the other brings something new, 2 where
something ended without a verdict, 125 where nothing was judged on both, else 0.
"""

import importlib
from typing import Any, Dict, List, Optional, Tuple

carried: Any = importlib.import_module("carried")
harness: Any = importlib.import_module("harness")

SCHEMA = "doesitnan.doctor.compare/1"
NEW, FIXED, CEASES, BEGINS, DIFFERS = "new", "fixed", "ceases", "begins", "differs"
BAD, GOOD = "bug_present", "bug_absent"
TITLES = {
    NEW: ("New there", "对方新出现的故障"),
    FIXED: ("Fixed there", "对方已修复的故障"),
    CEASES: ("Workarounds that cease to help there", "在对方不再有效的规避方法"),
    BEGINS: ("Workarounds that begin to help there", "在对方开始有效的规避方法"),
    DIFFERS: ("Not judged on both", "并非两边都有结论"),
}
SUMMARY = {
    "en": "%(fixed)d fixed, %(new)d new, %(same)d the same, %(differs)d not judged on "
    "both and different. %(seconds).0f s",
    "zh": "%(fixed)d 个已修复，%(new)d 个新出现，%(same)d 个相同，"
    "%(differs)d 个并非两边都有结论且不同。%(seconds).0f 秒",
}
Json = Dict[str, Any]


def changes(before: List[Json], after: List[Json]) -> List[Json]:
    """What differs, in the order in which it is told; `counts`: it is a fault there."""
    rows = {(row["record"], row["repro"]): row for row in after}
    listed = []
    for row in before:
        other = rows.get((row["record"], row["repro"]))
        for kind, name in kinds_of(row, other) if other else []:
            change = {key: row[key] for key in ("record", "repro", "title")}
            counts = kind == NEW and bool(other and other["counts"])
            listed.append(dict(change, kind=kind, workaround=name, counts=counts))
    return sorted(listed, key=lambda item: list(TITLES).index(item["kind"]))


def kinds_of(before: Json, after: Json) -> List[Tuple[str, str]]:
    """(kind, name of the workaround or "") of each difference."""
    verdicts = before["verdict"], after["verdict"]
    if verdicts == (GOOD, BAD):
        return [(NEW, "")]
    if verdicts == (BAD, GOOD):
        return [(FIXED, "")]
    if verdicts[0] != verdicts[1]:
        return [(DIFFERS, "")]
    if verdicts != (BAD, BAD):
        return []
    old, new = before["evidence"]["workarounds"], after["evidence"]["workarounds"]
    turned = {
        ("verified", "does_not_help"): CEASES,
        ("does_not_help", "verified"): BEGINS,
    }
    pairs = [(name, (old[name], new.get(name))) for name in sorted(old)]
    return [(turned[pair], name) for name, pair in pairs if pair in turned]


def exit_status(before: List[Json], after: List[Json]) -> int:
    if any(item["counts"] for item in changes(before, after)):
        return 1
    verdicts = [row["verdict"] for row in before + after]
    if any(verdict in (None, "error", "inconclusive") for verdict in verdicts):
        return 2
    judged = [
        {row["record"] + row["repro"] for row in rows if row["verdict"] in (BAD, GOOD)}
        for rows in (before, after)
    ]
    return 0 if judged[0] & judged[1] else 125


def whole(before: Json, after: Optional[Json], interrupted: int) -> Json:
    """Both examinations and what differs, also while the second one goes on."""
    late = after["results"] if after else []
    complete = bool(after and before["complete"] and after["complete"])
    status = exit_status(before["results"], late)
    return {
        "schema": SCHEMA,
        "before": before,
        "after": after,
        "changes": changes(before["results"], late),
        "complete": complete,
        "exit": interrupted or status,
    }


def show(found: Json, lang: str) -> None:
    before, after = found["before"], found["after"]
    at = carried.LANGS.index(lang)
    for kind in TITLES:
        items = [item for item in found["changes"] if item["kind"] == kind]
        if items:
            carried.say("%s (%d)" % (TITLES[kind][at], len(items)))
        for item in items:
            name = "%s %s" % (item["record"], item["repro"])
            shown = item["workaround"] or " → ".join(
                said(side["results"], item, at) for side in (before, after)
            )
            carried.say("  %-22s %s" % (name, shown))
            carried.say(" " * 25 + item["title"][lang])
    numbers: Json = dict.fromkeys(TITLES, 0)
    for item in found["changes"]:
        numbers[item["kind"]] += 1
    verdicts = {
        (row["record"], row["repro"]): row["verdict"] for row in after["results"]
    }
    numbers["same"] = sum(
        row["verdict"] in (BAD, GOOD)
        and row["verdict"] == verdicts.get((row["record"], row["repro"]))
        for row in before["results"]
    )
    numbers["seconds"] = before["duration_s"] + after["duration_s"]
    carried.say(SUMMARY[lang] % numbers)


def said(results: List[Json], item: Json, at: int) -> str:
    """The badge of one side."""
    (row,) = [
        row
        for row in results
        if (row["record"], row["repro"]) == (item["record"], item["repro"])
    ]
    if not row["evidence"]:
        return "-"
    badge: str = harness.sentences(row["evidence"])[at]
    return badge
