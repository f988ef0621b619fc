"""The page on which an account says what it watches."""

from __future__ import annotations

import re

from django.contrib.auth.models import User
from django.test import Client

from kb.models import Subscription
from kb.publishing import saving
from kb.telling import changes
from tests.kb.telling.test_changes import TellingCase

PAGE = "/en/watching/"


class PageTest(TellingCase):
    def setUp(self) -> None:
        super().setUp()
        self.records[0].components = ["sdpa"]
        saving.save(self.records[0])
        self.client.force_login(self.user)

    def post(self, **fields: str) -> str:
        answer = self.client.post(PAGE, fields)
        if answer.status_code == 302:
            answer = self.client.get(PAGE)
        return answer.content.decode()

    def test_added_told_and_removed(self) -> None:
        self.assertIn(
            'value="NAN-9001"',
            self.client.get(f"{PAGE}?record=NAN-9001").content.decode(),
        )
        self.assertIn("You watch it from now on.", self.post(record="nan-9001"))
        self.post(component="sdpa")
        page = self.post(environment="torch==2.5.1\nnumpy==2.0.0\n")
        for text in ("Component sdpa", "My environment with torch 2.5.1"):
            self.assertIn(text, page)
        self.turn()
        changes.note()
        page = self.client.get(PAGE).content.decode()
        self.assertEqual(page.count("first good in 2.6.0-cpu, bad in 2.5.1-cpu"), 1)
        for row in Subscription.objects.all():
            self.client.post(f"{PAGE}{row.pk}/remove/")
        self.assertIn("You watch nothing yet.", self.client.get(PAGE).content.decode())

    def test_a_browser_sends_the_token_of_each_form(self) -> None:
        browser = Client(enforce_csrf_checks=True)
        browser.force_login(self.user)
        self.send(browser, PAGE, record="NAN-9001")
        row = Subscription.objects.get()
        self.send(browser, f"{PAGE}{row.pk}/remove/")
        self.assertFalse(Subscription.objects.exists())

    def send(self, browser: Client, path: str, **fields: str) -> None:
        """The form of the page that leads to `path`, with the token that is in it."""
        page = browser.get(PAGE).content.decode()
        form = page.partition(f'action="{path}"')[2].partition("</form>")[0]
        token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', form)
        assert token, form
        sent = {**fields, "csrfmiddlewaretoken": token[1]}
        self.assertRedirects(browser.post(path, sent), PAGE)

    def test_what_cannot_be_watched_is_said(self) -> None:
        for fields, said in (
            ({}, "Name a record or a component"),
            ({"record": "NAN-0999"}, "There is no record NAN-0999."),
            ({"component": "zebra"}, "No record is about zebra."),
            ({"environment": "numpy==2.0"}, "No version of torch was found:"),
        ):
            with self.subTest(fields):
                self.assertIn(said, self.post(**fields))
        self.assertFalse(Subscription.objects.exists())

    def test_it_is_one_account_s_own(self) -> None:
        self.post(record="NAN-9001")
        row = Subscription.objects.get()
        self.client.force_login(User.objects.create_user("bob"))
        self.assertNotIn("NAN-9001</a>", self.client.get(PAGE).content.decode())
        answer = self.client.post(f"{PAGE}{row.pk}/remove/")
        self.assertEqual(answer.status_code, 404)
        self.client.logout()
        self.assertEqual(self.client.get(PAGE).status_code, 302)
        self.assertTrue(Subscription.objects.exists())

    def test_a_record_leads_here_for_who_is_logged_in(self) -> None:
        path = self.records[0].get_absolute_url()
        link = "/watching/?record=NAN-9001#add"
        self.assertIn(link, self.client.get(path).content.decode())
        self.client.logout()
        self.assertNotIn(link, self.client.get(path).content.decode())

    def test_the_admin_shows_no_secret_and_no_address(self) -> None:
        User.objects.create_superuser("root", password="x")
        self.client.force_login(User.objects.get(username="root"))
        for path in ("", "delivery/", f"webhook/{self.webhook.pk}/change/", "webhook/"):
            shown = self.client.get(f"/admin/kb/{path}")
            self.assertEqual(shown.status_code, 200, path)
            self.assertNotIn("whsec_", shown.content.decode())
            self.assertNotIn("receiver.example", shown.content.decode())
