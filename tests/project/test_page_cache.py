"""Pages from memory: what is kept, until when, and that no reader gets another's."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from django.contrib.auth.models import User
from django.contrib.messages import constants
from django.contrib.messages.storage.base import Message
from django.contrib.messages.storage.cookie import CookieStorage
from django.core.cache import caches
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render as django_render
from django.test import Client, TestCase, override_settings, tag
from django.urls import reverse

from kb.findings import standings
from kb.models import Symptom
from kb.pages import theme, views
from kb.publishing import explained, saving
from runner.models import Installation, Run
from runner.pages import views as runner_views
from tests.support import page_types, runs

TOKEN = re.compile(r'name="csrfmiddlewaretoken" value="([^"]+)"')


@override_settings(PAGE_CACHE_SECONDS=60)
class PageCacheCase(TestCase):
    def setUp(self) -> None:
        caches["pages"].clear()
        self.addCleanup(caches["pages"].clear)
        self.record = runs.load_sample()
        self.repro = self.record.repros.get()
        runs.install("/usr/bin/python3")
        self.page = self.record.get_absolute_url()
        self.address = reverse("record-list")

    @contextmanager
    def rendered(self, times: int) -> Iterator[None]:
        """So many pages are made by views of the knowledge base and of records."""
        render = mock.Mock(wraps=django_render)
        with (
            mock.patch.object(views, "render", render),
            mock.patch.object(runner_views, "render", render),
        ):
            yield
        self.assertEqual(render.call_count, times)

    def body(self, address: str, client: Client | None = None, **extra: str) -> str:
        answer = (client or Client()).get(address, **extra)  # type: ignore[arg-type]
        self.assertEqual(answer.status_code, 200)
        return answer.content.decode()


class KeptTest(PageCacheCase):
    def test_what_has_not_changed_is_made_once(self) -> None:
        for address in (
            self.address,
            self.page,
            reverse("front"),
            reverse("claim-list"),
        ):
            with self.subTest(address), self.rendered(1):
                first, second = self.body(address), self.body(address)
                self.assertEqual(TOKEN.sub("", first), TOKEN.sub("", second))

    def test_a_new_finding_and_an_edit_show_at_once(self) -> None:
        with self.rendered(3):
            self.body(self.address)
            standings.lock()
            self.body(self.address)
            self.record.title_en = "Another title of it"
            saving.save(self.record)
            self.assertIn("Another title of it", self.body(self.address))

    def test_an_edit_of_a_symptom_shows_at_once(self) -> None:
        address = reverse("symptom-detail", args=["zero"])
        for title in ("Nothing is learnt", "The loss is zero"):
            texts = {"title_en": title, "words": [], "signatures": [], "causes": []}
            explained.bring_in_step(Symptom, {"zero": texts})
            self.assertIn(title, self.body(address))
        with self.rendered(0):
            explained.bring_in_step(Symptom, {"zero": texts})
            self.body(address)

    def test_a_page_that_other_code_makes_is_sent_again(self) -> None:
        etag = Client().get(self.address)["ETag"]
        caches["pages"].clear()
        with mock.patch.object(views, "render", lambda *_given: HttpResponse("new")):
            again = Client().get(self.address, headers={"If-None-Match": etag})
        self.assertEqual((again.status_code, again.content), (200, b"new"))

    def test_a_page_with_a_form_follows_the_fleet(self) -> None:
        with self.rendered(2):
            self.body(self.page)
            Installation.objects.update(state=Installation.State.BROKEN)
            caches["pages"].delete("fleet")  # in place of waiting a second
            self.body(self.page)

    def test_who_has_it_is_told_so(self) -> None:
        etag = Client().get(self.address)["ETag"]
        again = Client().get(self.address, headers={"If-None-Match": etag})
        self.assertEqual((again.status_code, again.content), (304, b""))
        self.record.title_en = "Another title of it"
        saving.save(self.record)
        again = Client().get(self.address, headers={"If-None-Match": etag})
        self.assertEqual(again.status_code, 200)

    def test_it_is_sent_packed_or_not_as_the_reader_takes_it(self) -> None:
        self.body(self.address)
        packed = Client().get(self.address, headers={"Accept-Encoding": "gzip"})
        self.assertEqual(packed["Content-Encoding"], "gzip")
        self.assertIn("Accept-Encoding", packed["Vary"])
        plain = Client().get(self.address)
        self.assertNotIn("Content-Encoding", plain)
        self.assertIn("</html>", plain.content.decode())

    @tag("any_database")
    def test_every_page_is_packed_once(self) -> None:
        for kind in page_types.make():
            if kind.fields or kind.status != 200:
                continue
            address = f"/en/{kind.path}"
            for reader in ("the first", "the next"):
                with self.subTest(address, reader=reader):
                    found = Client().get(address, headers={"Accept-Encoding": "gzip"})
                    body = found.content
                    if found.get("Content-Encoding") == "gzip":
                        body = gzip.decompress(body)
                    self.assertIn(b"<html", body)

    def test_long_addresses_and_errors_are_not_kept(self) -> None:
        with self.rendered(2):
            for _ in range(2):
                self.body(f"{self.address}?q={'a' * 300}")

    @override_settings(PAGE_CACHE_SECONDS=0)
    def test_it_can_be_switched_off(self) -> None:
        with self.rendered(2):
            self.body(self.address)
            self.assertNotIn("ETag", Client().get(self.address))


class LeakTest(PageCacheCase):
    """Whatever one reader sees of their own, the next one does not."""

    def test_a_session_neither_takes_from_memory_nor_leaves_there(self) -> None:
        user = User.objects.create_user("somebody-known")
        known = Client()
        known.force_login(user)
        for order in ((known, Client()), (Client(), known)):
            caches["pages"].clear()
            for client in order:
                seen = "somebody-known" in self.body(self.address, client)
                self.assertEqual(seen, client is known)
                seen = "somebody-known" in self.body(self.page, client)
                self.assertEqual(seen, client is known)

    def test_colours_language_host_and_the_reader_s_build_are_part_of_it(self) -> None:
        dark = Client()
        dark.cookies[theme.COOKIE] = "dark"
        torch = Client()
        torch.cookies["dtn_torch"] = "2.99.0-cpu"
        for _ in range(2):
            self.assertIn('data-theme="dark"', self.body(self.address, dark))
            self.assertNotIn('data-theme="dark"', self.body(self.address))
            self.assertIn('lang="zh', self.body(self.address.replace("/en/", "/zh/")))
            self.assertIn("//testserver/", self.body(self.address))
            self.assertIn(
                "//localhost/", self.body(self.address, HTTP_HOST="localhost")
            )
            self.assertIn("2.99.0-cpu", self.body(self.page, torch))
            self.assertNotIn("2.99.0-cpu", self.body(self.page))

    def test_what_sets_a_cookie_is_not_kept(self) -> None:
        address = f"{self.page}?torch=2.6.0"
        with self.rendered(2):
            for _ in range(2):
                answer = Client().get(address)
                self.assertEqual(answer.cookies["dtn_torch"].value, "2.6.0")

    def test_each_reader_s_form_has_a_token_of_their_own_that_works(self) -> None:
        readers = [Client(enforce_csrf_checks=True) for _ in range(3)]
        with self.rendered(1):
            tokens = [TOKEN.findall(self.body(self.page, one)) for one in readers]
        cookies = {one.cookies["csrftoken"].value for one in readers}
        self.assertEqual((len(cookies), len({t[0] for t in tokens})), (3, 3))
        run = reverse("run-create", args=[self.record.pk])
        build = {"build": runs.SLUG, "repro": "repro"}
        for at, reader in enumerate(readers):
            self.assertTrue(tokens[at])
            mine = {**build, "csrfmiddlewaretoken": tokens[at][0]}
            theirs = {**build, "csrfmiddlewaretoken": tokens[at - 1][0]}
            self.assertEqual(reader.post(run, theirs).status_code, 403)
            self.assertNotEqual(reader.post(run, mine).status_code, 403)

    def test_a_page_with_a_token_is_known_to_its_own_reader_alone(self) -> None:
        one, other = Client(), Client()
        one.get(self.page)
        other.get(self.page)
        etag = one.get(self.page)["ETag"]
        head = {"If-None-Match": etag}
        self.assertEqual(one.get(self.page, headers=head).status_code, 304)
        self.assertEqual(other.get(self.page, headers=head).status_code, 200)
        self.assertEqual(Client().get(self.page, headers=head).status_code, 200)

    def test_a_message_is_shown_to_whom_it_is_for_and_once(self) -> None:
        self.body(self.address)
        told = Client()
        storage = CookieStorage(HttpRequest())
        told.cookies[CookieStorage.cookie_name] = storage._encode(
            [Message(constants.INFO, "for your eyes only")]
        )
        self.assertIn("for your eyes only", self.body(self.address, told))
        self.assertNotIn("for your eyes only", self.body(self.address, told))
        self.assertNotIn("for your eyes only", self.body(self.address))

    def test_a_closed_site_keeps_and_gives_nothing(self) -> None:
        self.body(self.address)
        for closed in ({"READ_LOGIN": True}, {"REMOTE_USER_HEADER": "X-User"}):
            with override_settings(**closed), self.rendered(2):
                self.body(self.address, self.known())
                self.body(self.address, self.known())
        with override_settings(READ_LOGIN=True):
            self.assertEqual(Client().get(self.address).status_code, 302)
            self.assertEqual(Client().get(self.page).status_code, 302)

    def known(self) -> Client:
        client = Client()
        client.force_login(User.objects.get_or_create(username="reader")[0])
        return client

    @override_settings(RUNS_PER_HOUR=1)
    def test_one_who_may_not_run_more_is_told_so_and_nobody_else(self) -> None:
        self.body(self.page)
        run = runs.make_run(self.repro, state=Run.State.FINISHED, verdict="error")
        Run.objects.filter(pk=run.pk).update(requester="address:10.0.0.9")
        caches["pages"].delete("fleet")
        limit = "which is the limit here"
        mine = self.body(self.page, REMOTE_ADDR="10.0.0.9")
        self.assertIn(limit, mine)
        self.assertNotIn(limit, self.body(self.page, REMOTE_ADDR="10.0.0.8"))
