"""`python doctor.py --record ID --set NAME=VALUE`: other values than the reviewed ones.

What comes of them is told with the values, and never as the record's verdict.
"""

import importlib
from typing import Any, Dict, List

carried: Any = importlib.import_module("carried")
harness: Any = importlib.import_module("harness")

Json = Dict[str, Any]


def with_values(folder: str, repros: List[Json], settings: List[str]) -> List[Json]:
    """The repros that declare all of the parameters set, each with its `values`.

    Raises ParameterError for what none declares, or a declaration refuses.
    """
    if not settings:
        return repros
    names = {setting.partition("=")[0].strip() for setting in settings}
    headers = [
        (repro, harness.parse_header(carried.source_of(folder, repro)))
        for repro in repros
    ]
    fitting = [pair for pair in headers if names <= set(pair[1].parameters)]
    return [
        dict(repro, values=harness.read_settings(header, settings))
        for repro, header in fitting or headers
    ]


def run(folder: str, repro: Json, **options: Any) -> Json:
    """As `carried.run`, with the values of the repro."""
    found: Json = carried.run(folder, repro, parameters=repro.get("values"), **options)
    return found


def of(result: Json) -> str:
    """Those of a row of results, such as "dtype=bfloat16"; "" for the reviewed ones."""
    evidence = result["evidence"]
    return str(harness.settings_of(evidence)) if evidence else ""
