"""Pages under /en/ and /zh/ where Django's own code for Chinese is zh-hans."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponsePermanentRedirect, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.middleware import locale
from django.urls import (
    LocalePrefixPattern as DjangoLocalePrefixPattern,
    URLPattern,
    URLResolver,
    is_valid_path,
)
from django.utils.cache import patch_vary_headers
from django.utils.translation import get_language_from_path

from kb.languages import HTML_TAG, SHORT, current_lang


class LocalePrefixPattern(DjangoLocalePrefixPattern):
    """`zh/` for zh-hans; the rest is Django's."""

    @property
    def language_prefix(self) -> str:
        return f"{current_lang()}/"


def i18n_patterns(*urls: URLPattern | URLResolver) -> list[URLResolver]:
    """`urls` below the prefix of the active language."""
    return [URLResolver(LocalePrefixPattern(), list(urls))]


class LocaleMiddleware(locale.LocaleMiddleware):
    """Django's, with our prefixes: /zh-cn/… goes to /zh/…, /… to the reader's own."""

    def process_request(  # type: ignore[override]
        self, request: HttpRequest
    ) -> HttpResponseBase | None:
        super().process_request(request)
        return alias_redirect(request)

    def process_response(
        self, request: HttpRequest, response: HttpResponseBase
    ) -> HttpResponseBase:
        if get_language_from_path(request.path_info) is None:
            if response.status_code == 404:
                response = prefixed_redirect(request) or response
            patch_vary_headers(response, ("Accept-Language", "Cookie"))
        response.headers.setdefault("Content-Language", HTML_TAG[current_lang()])
        return response


def alias_redirect(request: HttpRequest) -> HttpResponseBase | None:
    """Other spellings of a language (zh-hans, zh-tw, en-gb) have one address."""
    code = get_language_from_path(request.path_info)
    _, first, *rest = request.path_info.split("/", 2)
    if code is None or first == SHORT[code]:
        return None
    query = request.META.get("QUERY_STRING", "")
    target = f"/{SHORT[code]}/{''.join(rest)}" + (f"?{query}" if query else "")
    return HttpResponsePermanentRedirect(target)


def prefixed_redirect(request: HttpRequest) -> HttpResponseBase | None:
    """/records/ → /zh/records/ where that is an address of the site."""
    prefix = f"/{current_lang()}"
    path = prefix + request.path_info
    slash = not path.endswith("/")
    if is_valid_path(path):
        return HttpResponseRedirect(prefix + request.get_full_path())
    if slash and is_valid_path(f"{path}/"):
        return HttpResponseRedirect(
            prefix + request.get_full_path(force_append_slash=True)
        )
    return None
