"""A browser without JavaScript: cookies, links, forms, and a page that comes again."""

from __future__ import annotations

import time
import urllib.request
from dataclasses import dataclass, field
from html.parser import HTMLParser
from http.cookiejar import CookieJar
from urllib.parse import urlencode, urljoin

LIMIT_S = 60
CHOSEN = {"checkbox", "radio", "file"}  # sent only where somebody chose it


@dataclass
class Form:
    action: str
    label: str = ""  # of its buttons
    values: dict[str, str] = field(default_factory=dict)
    boxes: list[str] = field(default_factory=list)  # where text can be put


class Page(HTMLParser):
    def __init__(self, address: str, text: str) -> None:
        super().__init__()
        self.address = address
        self.forms: list[Form] = []
        self.links: list[str] = []
        self.refresh: float | None = None
        self.inside: list[str] = []
        self.words: list[str] = []
        self.select = ""
        self.feed(text)
        self.text = " ".join("".join(self.words).split())

    def handle_starttag(self, tag: str, pairs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in pairs}
        self.inside.append(tag)
        if tag == "a" and "href" in given:
            self.links.append(urljoin(self.address, given["href"]))
        elif tag == "meta" and given.get("http-equiv") == "refresh":
            self.refresh = float(given["content"])
        elif tag == "form":
            self.forms.append(Form(urljoin(self.address, given.get("action", ""))))
        elif "form" in self.inside:
            self.control(tag, given, self.forms[-1])

    def control(self, tag: str, given: dict[str, str], form: Form) -> None:
        name = given.get("name", "")
        is_sent = given.get("type") not in CHOSEN or "checked" in given
        if tag == "select":
            self.select = name
        elif tag == "option" and "disabled" not in given:
            if "selected" in given or self.select not in form.values:
                form.values[self.select] = given.get("value", "")
        elif tag == "textarea":
            form.boxes.append(name)
        elif tag == "input" and name and is_sent:
            form.values[name] = given.get("value", "")

    def handle_endtag(self, tag: str) -> None:
        while tag in self.inside and self.inside.pop() != tag:
            pass  # an element without an end

    def handle_data(self, data: str) -> None:
        if not {"script", "style"} & set(self.inside):
            self.words.append(data)
            if {"form", "button"} <= set(self.inside):
                self.forms[-1].label += data


class Browser:
    def __init__(self, language: str) -> None:
        cookies = urllib.request.HTTPCookieProcessor(CookieJar())
        no_proxy = urllib.request.ProxyHandler({})
        self.opener = urllib.request.build_opener(cookies, no_proxy)
        self.opener.addheaders = [("Accept-Language", language)]

    def open(self, address: str, body: bytes | None = None) -> Page:
        with self.opener.open(address, body, LIMIT_S) as answer:
            return Page(answer.url, answer.read().decode())

    def press(self, page: Page, label: str, typed: str = "") -> Page:
        """Send the form that has this button, `typed` in its first box of text."""
        form = next(form for form in page.forms if label in form.label)
        values = form.values | ({form.boxes[0]: typed} if typed else {})
        return self.open(form.action, urlencode(values).encode())

    def stay(self, page: Page) -> Page:
        """Load a page as often as it asks for that."""
        while page.refresh is not None:
            time.sleep(page.refresh)
            page = self.open(page.address)
        return page
