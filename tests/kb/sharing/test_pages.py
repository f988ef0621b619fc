"""Keeping an answer: nothing without a click, and exactly what was shown."""

from __future__ import annotations

import html
import re
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import Group, Permission, User
from django.test import Client, TestCase, override_settings
from django.utils import timezone

from kb.models import SharedAnswer
from runner.runs.prune import prune
from tests.support import runs

WARNING = 'UserWarning: "strides" \\ differ'
LOG = f"/home/alice/secret/train.py:3: {WARNING}\nHF_TOKEN=hf_abcdefghijklmnop"
CODE = re.compile(r"/en/a/([\w-]{22})/delete/.*?<code>([0-9a-f]{64})", re.DOTALL)


def address(row: SharedAnswer, lang: str = "en") -> str:
    return f"/{lang}/a/{row.pk}/"


class SharingTest(TestCase):
    @classmethod
    def setUpTestData(cls) -> None:
        runs.load_sample()

    def post(self, path: str, client: Client | None = None, **fields: str) -> Any:
        return (client or self.client).post(f"/en/a/{path}", fields)

    def preview(self, log: str = LOG, env: str = "torch==2.6.0") -> dict[str, str]:
        """The fields of the form as a browser would send them."""
        page = self.post("", log=log, env=env).content.decode()
        found = re.findall(
            r'<textarea[^>]*name="(\w+)"[^>]*>\n(.*?)</textarea>', page, re.S
        )
        return {name: html.unescape(text).replace("\n", "\r\n") for name, text in found}

    def keep(self, client: Client | None = None, log: str = LOG) -> SharedAnswer:
        answer = self.post("keep/", client, **self.preview(log))
        self.assertEqual(answer.status_code, 302, answer.content[-3000:])
        return SharedAnswer.objects.latest("created_at")


class KeepingTest(SharingTest):
    def test_a_look_up_stores_nothing_and_offers_it(self) -> None:
        page = self.client.post("/en/lookup/", {"log": LOG})
        self.assertContains(page, 'action="/en/a/"')
        self.assertEqual(page.cookies, {})
        nothing = self.client.post("/en/lookup/", {"log": "Segfault"})
        self.assertNotContains(nothing, 'action="/en/a/"')
        self.post("", log=LOG)
        self.assertEqual(SharedAnswer.objects.count(), 0)

    def test_what_was_shown_is_what_is_kept(self) -> None:
        shown = self.preview()
        self.assertIn("NAN-9001", self.post("", log=LOG).content.decode())
        row = self.keep()
        self.assertEqual(row.log, shown["log"].replace("\r\n", "\n"))
        self.assertEqual(row.env, shown["env"])
        for private in ("alice", "secret", "hf_abc"):
            self.assertNotIn(private, row.log)
        self.assertIn(WARNING, row.log)
        days = (row.expires_at - row.created_at).days
        self.assertEqual(days, 30)

    def test_whatever_is_put_in_afterwards_is_masked_and_shown_first(self) -> None:
        fields = self.preview()
        fields["log"] += "\r\npassword=HuntEr2"
        answer = self.post("keep/", **fields)
        self.assertContains(answer, "More was masked than in what you sent")
        self.assertNotContains(answer, "HuntEr2")
        self.assertEqual(SharedAnswer.objects.count(), 0)

    def test_lines_may_be_taken_out_first(self) -> None:
        fields = self.preview()
        fields["log"] = "\r\n".join(
            line for line in fields["log"].split("\r\n") if "HF_TOKEN" not in line
        )
        again = self.post("keep/", **fields, look="1")
        self.assertEqual(again.status_code, 200)
        self.assertEqual(SharedAnswer.objects.count(), 0)
        self.assertEqual(self.post("keep/", **fields).status_code, 302)
        self.assertNotIn("HF_TOKEN", SharedAnswer.objects.get().log)

    def test_lines_without_an_answer_are_not_kept(self) -> None:
        answer = self.post("keep/", log="my notes of today", env="")
        self.assertContains(answer, "nothing to keep")
        self.assertEqual(SharedAnswer.objects.count(), 0)

    def test_too_much_is_refused_and_not_lost(self) -> None:
        text = "\r\n".join(f"{WARNING} {number}" for number in range(500))
        answer = self.post("keep/", log=text, env="")
        self.assertContains(answer, "differ 499", status_code=413)
        self.assertEqual(SharedAnswer.objects.count(), 0)

    def test_what_is_no_text_is_refused(self) -> None:
        answer = self.post("keep/", log="\x01\x02\x03" * 50, env="")
        self.assertEqual(answer.status_code, 400)
        self.assertEqual(self.post("", log="\x01\x02\x03" * 50).status_code, 302)

    def test_spaces_that_nobody_sees_do_not_ask_for_another_look(self) -> None:
        fields = self.preview()
        fields["log"] += "   \r\n\r\n"
        self.assertEqual(self.post("keep/", **fields).status_code, 302)

    def test_a_forged_request_keeps_nothing(self) -> None:
        strict = Client(enforce_csrf_checks=True)
        self.assertEqual(self.post("keep/", strict, log=LOG).status_code, 403)
        self.assertEqual(SharedAnswer.objects.count(), 0)

    @override_settings(SHARES_PER_HOUR=2)
    def test_nobody_keeps_more_than_so_many_in_an_hour(self) -> None:
        rows = [self.keep(), self.keep()]
        third = self.post("keep/", **self.preview())
        self.assertEqual(third.status_code, 429)
        self.assertGreater(int(third["Retry-After"]), 3500)
        other = Client(REMOTE_ADDR="203.0.113.9")
        self.assertEqual(self.post("keep/", other, **self.preview()).status_code, 302)
        self.assertNotIn("127.0.0.1", rows[0].maker)
        self.assertEqual(rows[0].maker, rows[1].maker)
        SharedAnswer.objects.update(created_at=timezone.now() - timedelta(hours=2))
        self.assertEqual(self.post("keep/", **self.preview()).status_code, 302)

    @override_settings(SHARED_ANSWER_DAYS=0)
    def test_it_can_be_off(self) -> None:
        with override_settings(SHARED_ANSWER_DAYS=1):
            row = self.keep()
        page = self.client.post("/en/lookup/", {"log": LOG})
        self.assertNotContains(page, 'action="/en/a/"')
        for path in ("", "keep/"):
            self.assertEqual(self.post(path, log=LOG).status_code, 404)
        self.assertEqual(self.client.get(address(row)).status_code, 404)

    @override_settings(SHARES_ANONYMOUS=False)
    def test_a_site_may_ask_for_an_account(self) -> None:
        page = self.client.post("/en/lookup/", {"log": LOG})
        self.assertNotContains(page, 'action="/en/a/"')
        for path in ("", "keep/"):
            self.assertEqual(self.post(path, log=LOG).status_code, 403)
        self.client.force_login(User.objects.create_user("ann"))
        self.keep()


class ShownTest(SharingTest):
    def test_the_answer_is_that_of_todays_records(self) -> None:
        row = self.keep()
        page = self.client.get(address(row))
        self.assertContains(page, "NAN-9001")
        self.assertContains(page, row.created_at.strftime("%Y-%m-%d"))
        self.assertContains(page, row.expires_at.strftime("%Y-%m-%d"))
        self.assertEqual(page["X-Robots-Tag"], "noindex, nofollow")
        self.assertIn("no-store", page["Cache-Control"])
        chinese = self.client.get(address(row, "zh"))
        self.assertContains(chinese, "保留于")
        record = runs.load_sample()
        type(record).objects.filter(pk=record.pk).update(publication="draft")
        later = self.client.get(address(row))
        self.assertNotContains(later, "NAN-9001")
        self.assertContains(later, "The records of today give no answer")

    def test_nothing_in_the_lines_is_obeyed(self) -> None:
        evil = f"{WARNING} <script>alert(1)</script> </textarea><b>x \u202egnp"
        row = self.keep(log=evil)
        for page in (self.post("", log=evil), self.client.get(address(row))):
            text = page.content.decode()
            self.assertNotIn("<script>alert", text)
            self.assertNotIn("<b>x", text)
            self.assertNotIn("\u202e", text)

    def test_an_expired_answer_is_gone_before_and_after_it_is_deleted(self) -> None:
        row, other = self.keep(), self.keep()
        SharedAnswer.objects.filter(pk=row.pk).update(expires_at=timezone.now())
        self.assertEqual(self.client.get(address(row)).status_code, 404)
        self.assertEqual(prune(dry_run=True)["answers"], 1)
        self.assertEqual(prune()["answers"], 1)
        self.assertEqual(list(SharedAnswer.objects.all()), [other])

    def test_an_address_that_is_none_answers_404(self) -> None:
        self.assertEqual(self.client.get(f"/en/a/{'x' * 22}/").status_code, 404)


class DeletionTest(SharingTest):
    def delete(self, row: SharedAnswer, client: Client, **fields: str) -> int:
        path = f"{address(row)}delete/"
        return client.post(path, fields).status_code

    def test_the_browser_that_made_it_deletes_it(self) -> None:
        row = self.keep()
        page = self.client.get(address(row))
        self.assertContains(page, "Delete it")
        stranger = Client()
        self.assertNotContains(stranger.get(address(row)), "Delete it")
        self.assertEqual(self.delete(row, stranger), 403)
        self.assertEqual(self.delete(row, self.client), 302)
        self.assertEqual(self.client.get(address(row)).status_code, 404)

    def test_the_cookie_cannot_be_made_up(self) -> None:
        row = self.keep()
        cookie = self.client.cookies["dtn_kept"]
        self.assertTrue(cookie["httponly"])
        forger = Client()
        forger.cookies["dtn_kept"] = f"{row.pk}:1x:made-up"
        self.assertEqual(self.delete(row, forger), 403)

    def test_the_code_that_is_shown_once_deletes_it_from_anywhere(self) -> None:
        fields = self.preview()
        first = self.client.post("/en/a/keep/", fields, follow=True)
        found = CODE.search(html.unescape(first.content.decode()))
        assert found
        row = SharedAnswer.objects.get(pk=found[1])
        again = self.client.get(address(row)).content.decode()
        self.assertIsNone(CODE.search(again))
        stranger = Client()
        wrong = found[2][::-1]
        self.assertEqual(self.delete(row, stranger, code=wrong), 403)
        path = f"{address(row)}delete/"
        self.assertContains(stranger.get(path), 'name="code"')
        self.assertNotContains(self.client.get(path), 'name="code"')
        refused = stranger.post(path, {"code": wrong})
        self.assertContains(refused, "not the one of this answer", status_code=403)
        in_address = stranger.post(f"{path}?code={found[2]}")
        self.assertEqual(in_address.status_code, 403)
        self.assertTrue(SharedAnswer.objects.filter(pk=row.pk).exists())
        self.assertEqual(self.delete(row, stranger, code=found[2]), 302)
        self.assertFalse(SharedAnswer.objects.exists())

    def test_the_code_of_one_is_not_that_of_another(self) -> None:
        first = self.client.post("/en/a/keep/", self.preview(), follow=True)
        found = CODE.search(html.unescape(first.content.decode()))
        assert found
        other = self.keep()
        self.assertEqual(self.delete(other, Client(), code=found[2]), 403)

    def test_the_account_that_made_it_deletes_it(self) -> None:
        ann, bob = (User.objects.create_user(name) for name in ("ann", "bob"))
        client = Client()
        client.force_login(ann)
        row = self.keep(client)
        for user, status in ((bob, 403), (ann, 302)):
            elsewhere = Client()
            elsewhere.force_login(user)
            self.assertEqual(self.delete(row, elsewhere), status)

    def test_staff_delete_it_in_the_admin(self) -> None:
        row = self.keep()
        user = User.objects.create_user("op", is_staff=True)
        user.groups.add(Group.objects.get(name="operator"))
        client = Client()
        client.force_login(user)
        listed = client.get("/admin/kb/sharedanswer/")
        self.assertContains(listed, row.pk)
        done = client.post(f"/admin/kb/sharedanswer/{row.pk}/delete/", {"post": "yes"})
        self.assertEqual(done.status_code, 302)
        self.assertFalse(SharedAnswer.objects.exists())

    def test_the_list_of_all_is_for_operators_alone(self) -> None:
        self.keep()
        for group, status in (("viewer", 403), ("editor", 403), ("operator", 200)):
            user = User.objects.create_user(group, is_staff=True)
            user.groups.add(Group.objects.get(name=group))
            client = Client()
            client.force_login(user)
            listed = client.get("/admin/kb/sharedanswer/")
            self.assertEqual(listed.status_code, status, group)

    def test_staff_without_the_right_do_not(self) -> None:
        row = self.keep()
        user = User.objects.create_user("ed", is_staff=True)
        user.user_permissions.add(Permission.objects.get(codename="view_sharedanswer"))
        client = Client()
        client.force_login(user)
        self.assertEqual(self.delete(row, client), 403)
