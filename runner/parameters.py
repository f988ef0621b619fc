"""Values of a run that are not the defaults, as one text.

So they stand in a column, where equal values have to be equal texts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from portable import harness

# As many as the harness allows, with names and values of their greatest length.
MAX_CHARS = 1000


def text_of(values: Mapping[str, Any]) -> str:
    """ "" for none: the configuration that was reviewed."""
    return harness.dumps(values) if values else ""


def values_of(text: str) -> dict[str, Any]:
    return dict(harness.decode(json.loads(text))) if text else {}


def settings_of(text: str) -> list[str]:
    """As a command line has them: length=704."""
    values = values_of(text).items()
    return [f"{name}={harness.shown_value(value)}" for name, value in values]


def query_of(text: str) -> str:
    """As an address has them: ?length=704."""
    shown = {key: harness.shown_value(value) for key, value in values_of(text).items()}
    return f"?{urlencode(shown)}" if shown else ""
