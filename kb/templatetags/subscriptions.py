"""Tags of the page on which an account says what it watches."""

from __future__ import annotations

from django import template

from kb.subscriptions import page

register = template.Library()
register.filter("torch_of", page.torch_of)
