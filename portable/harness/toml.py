"""TOML for Pythons that have no tomllib: the part of it that headers use."""

from __future__ import annotations

import re
from typing import Any, Dict, List


class TomlError(ValueError):
    """A header that is not TOML, or not of the subset read here."""


MOST_DIGITS = 100  # Python refuses to read more than 4,300, with another error

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_DIGITS = r"[+-]?(?:0|[1-9](?:_?[0-9])*)"
_MORE = r"[0-9](?:_?[0-9])*"
_VALUE = re.compile(
    r'(?P<basic>"(?:[^"\\\x00-\x08\x0a-\x1f\x7f]|\\.)*")'
    r"|(?P<literal>'[^'\x00-\x08\x0a-\x1f\x7f]*')"
    r"|(?:(?P<boolean>true|false)"
    rf"|(?P<float>{_DIGITS}(?:\.{_MORE}(?:[eE][+-]?{_MORE})?|[eE][+-]?{_MORE})"
    r"|[+-]?(?:inf|nan))"
    rf"|(?P<integer>{_DIGITS}))(?![\w.:+-])"
)
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.)")
_ESCAPES = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", '"': '"', "\\": "\\"}


class Toml:
    """Parser of the TOML that headers use; the same under every Python.

    Tables, bare and quoted keys, one-line strings, integers, floats, booleans, arrays
    (over several lines too) and inline tables. Dates, dotted keys, arrays of tables and
    multi-line strings are refused.
    """

    DEEPEST = 8

    def __init__(self, text: str, first_line: int = 1) -> None:
        self.text = text
        self.first_line = first_line
        self.at = 0

    def parse(self) -> Dict[str, Any]:
        root: Dict[str, Any] = {}
        table = root
        self.skip(lines=True)
        while self.at < len(self.text):
            if self.peek("["):
                table = self.table_header(root)
            else:
                self.pair(table)
            self.skip()
            if self.at < len(self.text) and not self.peek("\n"):
                raise self.error("expected the end of the line")
            self.skip(lines=True)
        return root

    def error(self, message: str) -> TomlError:
        line = self.first_line + self.text.count("\n", 0, self.at)
        return TomlError("line %d: %s" % (line, message))

    def peek(self, token: str) -> bool:
        return self.text.startswith(token, self.at)

    def accept(self, token: str) -> bool:
        found = self.peek(token)
        self.at += len(token) * found
        return found

    def expect(self, token: str) -> None:
        if not self.accept(token):
            raise self.error("expected %r" % token)

    def skip(self, lines: bool = False) -> None:
        """Pass over blanks and comments; `lines`: over ends of lines too."""
        pattern = r"(?:[ \t\n]|#[^\n]*)*" if lines else r"[ \t]*(?:#[^\n]*)?"
        found = re.compile(pattern).match(self.text, self.at)
        self.at = found.end() if found else self.at

    def nest(self, depth: int) -> int:
        """One level deeper; headers need two or three."""
        if depth >= self.DEEPEST:
            raise self.error("nested deeper than %d levels" % self.DEEPEST)
        return depth + 1

    def table_header(self, root: Dict[str, Any]) -> Dict[str, Any]:
        self.expect("[")
        if self.peek("["):
            raise self.error("arrays of tables are not read here")
        table, is_new = root, False
        while True:
            self.skip()
            key = self.key()
            is_new = key not in table
            table = table.setdefault(key, {})
            if not isinstance(table, dict):
                raise self.error("%s is not a table" % key)
            self.skip()
            if self.accept("]"):
                break
            self.expect(".")
        if not is_new:
            raise self.error("this table stands twice")
        return table

    def pair(self, table: Dict[str, Any], depth: int = 0) -> None:
        key = self.key()
        self.skip()
        if self.peek("."):
            raise self.error("dotted keys are not read here: write an inline table")
        self.expect("=")
        self.skip()
        if key in table:
            raise self.error("%s stands twice" % key)
        table[key] = self.value(depth)

    def key(self) -> str:
        if self.peek('"') or self.peek("'"):
            return str(self.value())
        found = _BARE_KEY.match(self.text, self.at)
        if not found:
            raise self.error("expected a key")
        self.at = found.end()
        return found.group()

    def value(self, depth: int = 0) -> Any:
        if self.peek("["):
            return self.array(self.nest(depth))
        if self.peek("{"):
            return self.inline_table(self.nest(depth))
        found = _VALUE.match(self.text, self.at)
        if not found:
            raise self.error("expected a value: text, number, boolean, list or table")
        text = found.group()
        value: Any = text == "true"
        if found.lastgroup == "basic":
            value = _ESCAPE.sub(self.unescape, text[1:-1])
        elif found.lastgroup == "literal":
            value = text[1:-1]
        elif found.lastgroup == "float":
            value = float(text.replace("_", ""))
        elif found.lastgroup == "integer":
            if len(text) > MOST_DIGITS:
                raise self.error("a number of more than %d digits" % MOST_DIGITS)
            value = int(text.replace("_", ""))
        self.at = found.end()
        return value

    def unescape(self, found: "re.Match[str]") -> str:
        code = found.group(1)
        if code in _ESCAPES:
            return _ESCAPES[code]
        number = int(code[1:], 16) if len(code) > 1 else -1
        if not 0 <= number <= 0x10FFFF or 0xD800 <= number <= 0xDFFF:
            raise self.error("unknown escape \\%s in a text" % code)
        return chr(number)

    def array(self, depth: int) -> List[Any]:
        self.expect("[")
        items: List[Any] = []
        self.skip(lines=True)
        while not self.accept("]"):
            items.append(self.value(depth))
            self.skip(lines=True)
            if not self.peek("]"):
                self.expect(",")
                self.skip(lines=True)
        return items

    def inline_table(self, depth: int) -> Dict[str, Any]:
        self.expect("{")
        table: Dict[str, Any] = {}
        self.skip()
        if self.accept("}"):
            return table
        while True:
            self.skip()
            self.pair(table, depth)
            self.skip()
            if self.accept("}"):
                return table
            self.expect(",")
