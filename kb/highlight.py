"""Python source as monochrome HTML: comments, keywords, strings, names, the trigger."""

from __future__ import annotations

import ast

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from pygments.lexers.python import PythonLexer
from pygments.token import Token, _TokenType

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
        tree = ast.parse(source)
    except SyntaxError:
        return range(0)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == "trigger":
            return range(node.lineno, (node.end_lineno or node.lineno) + 1)
    return range(0)


def span(css: str, text: str) -> str:
    return f'<span class="{css}">{escape(text)}</span>' if css else escape(text)


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
