"""Python source as HTML in colours: comments, keywords, strings, names, the trigger."""

from __future__ import annotations

from functools import lru_cache

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from pygments.lexers.python import PythonLexer
from pygments.token import Token, _TokenType

from portable.harness import ContractError
from portable.harness.checks import functions_of

# Sources whose HTML a process keeps: a page shows several, and most are asked again.
CACHED = 512
# The first ancestor found decides; everything else stays plain.
CLASSES: list[tuple[_TokenType, str]] = [
    (Token.Comment, "c"),
    (Token.Keyword, "kw"),
    (Token.Operator.Word, "kw"),
    (Token.Literal.String, "st"),
    (Token.Name.Function, "fn"),
    (Token.Name.Class, "fn"),
]


def css_class(kind: _TokenType) -> str:
    parents = [(parent.__contains__(kind), name) for parent, name in CLASSES]
    return next((name for inside, name in parents if inside), "")


def trigger_lines(source: str) -> range:
    """The lines of `def trigger`, counted from 1; empty where there is none."""
    try:
        found = [one for one in functions_of(source) if one.name == "trigger"]
    except ContractError:  # not all that is shown is Python
        found = []
    return range(found[0].lineno, found[0].end_lineno + 1) if found else range(0)


def span(css: str, text: str) -> str:
    return f'<span class="{css}">{escape(text)}</span>' if css else escape(text)


@lru_cache(CACHED)
def python_html(source: str) -> SafeString:
    """One line of HTML per line of source; the trigger's lines are tinted."""
    lines = [""]
    for kind, value in PythonLexer(stripnl=False).get_tokens(source):
        css = css_class(kind)
        first, *others = value.split("\n")
        lines[-1] += span(css, first) if first else ""
        lines += [span(css, text) if text else "" for text in others]
    tinted = trigger_lines(source)
    # Everything from the source went through escape() in span().
    return mark_safe(  # noqa: S308
        "\n".join(
            f'<span class="hl">{line or " "}</span>' if number in tinted else line
            for number, line in enumerate(lines, 1)
        ).rstrip("\n")
    )
