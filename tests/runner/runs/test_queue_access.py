"""Who may read, run, cancel and operate; limits and refusals over HTTP."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import Group, Permission, User
from django.contrib.messages import get_messages
from django.test import TestCase, override_settings

from runner import access
from runner.models import Run, Worker
from tests.support import runs


class AccessCase(TestCase):
    def setUp(self) -> None:
        self.repro = runs.make_repro()
        runs.install("/bin/true")

    def user(self, *groups: str, name: str = "ann", **fields: Any) -> User:
        user = User.objects.create_user(name, password="x", **fields)
        user.groups.set(Group.objects.filter(name__in=groups))
        return user

    def run_repro(self) -> int:
        data = {"repro": "repro", "build": runs.SLUG}
        return self.client.post("/en/NAN-9001/runs/", data).status_code

    def run_by_api(self) -> int:
        body = {"record": "NAN-9001", "build": runs.SLUG}
        path = "/api/v1/runs"
        return self.client.post(path, body, "application/json").status_code


class GroupsTest(AccessCase):
    def test_the_three_groups_are_there_with_their_rights(self) -> None:
        names = set(Group.objects.values_list("name", flat=True))
        self.assertLessEqual(set(access.GRANTS), names)
        wanted = {
            "viewer": [],
            "runner": ["runner.add_run"],
            "operator": ["runner.add_run", "runner.change_worker"],
        }
        rights = set(wanted["operator"])
        for name, may in wanted.items():
            user = self.user(name, name=name)
            self.assertTrue(user.has_perm("kb.view_record"))
            found = {right for right in rights if user.has_perm(right)}
            self.assertEqual(found, set(may))

    def test_only_superusers_see_tokens(self) -> None:
        for name in access.GRANTS:
            user = self.user(name, name=name, is_staff=True)
            self.assertFalse(user.has_perm("runner.view_token"), name)
            # Groups of a site that is older than this still have the permission.
            user.user_permissions.add(Permission.objects.get(codename="view_token"))
            self.client.force_login(user)
            status = self.client.get("/admin/runner/token/").status_code
            self.assertEqual(status, 403, name)
        self.client.force_login(User.objects.create_superuser("root"))
        self.assertEqual(self.client.get("/admin/runner/token/").status_code, 200)

    def test_a_site_may_change_its_groups(self) -> None:
        group = Group.objects.get(name="viewer")
        group.permissions.clear()
        access.ensure_groups()
        self.assertEqual(group.permissions.count(), 0)

    @override_settings(RUNS_ANONYMOUS=False)
    def test_running_needs_the_group_where_strangers_may_not(self) -> None:
        self.assertEqual((self.run_repro(), self.run_by_api()), (403, 401))
        self.client.force_login(self.user("viewer"))
        self.assertEqual((self.run_repro(), self.run_by_api()), (403, 403))
        self.client.force_login(self.user("runner", name="bob"))
        self.assertEqual((self.run_repro(), self.run_by_api()), (302, 202))
        self.assertEqual(Run.objects.get().requester, f"user:{User.objects.last().pk}")  # type: ignore[union-attr]

    def test_somebody_elses_run_is_cancelled_by_an_operator_only(self) -> None:
        operator = self.user("operator")
        # The second is a fill of the matrix, which a worker asked of itself.
        for requester in ("user:4711", ""):
            self.client.logout()
            run = runs.make_run(requester=requester)
            page = f"/en/runs/{run.pk}/"
            api = f"/api/v1/runs/{run.pk}/cancel"
            self.assertEqual(self.client.post(f"{page}cancel/").status_code, 403)
            self.assertEqual(self.client.post(api).status_code, 403)
            self.assertNotContains(self.client.get(page), "cancel/")
            self.client.force_login(operator)
            self.assertContains(self.client.get(page), "cancel/")
            self.assertEqual(self.client.post(api).status_code, 202)

    def test_the_admin_pauses_resumes_and_drains(self) -> None:
        runs.make_worker()
        for groups, works in [(("runner",), False), (("operator",), True)]:
            user = self.user(*groups, name=groups[0], is_staff=True)
            self.client.force_login(user)
            for action, column, value in [
                ("pause", "paused", True),
                ("resume", "paused", False),
                ("drain", "draining", True),
            ]:
                Worker.objects.update(**{column: not value})
                response = self.client.post(
                    "/admin/runner/worker/",
                    {"action": action, "_selected_action": ["w1"]},
                )
                list(get_messages(response.wsgi_request))
                changed = getattr(Worker.objects.get(), column) == value
                self.assertEqual(changed, works, (groups, action))


class ReadLoginTest(AccessCase):
    def setUp(self) -> None:
        super().setUp()
        # The middleware decides when the handler is built.
        self.enterContext(override_settings(READ_LOGIN=True))
        self.client = self.client_class()

    def test_strangers_see_the_login_page_and_the_probes(self) -> None:
        response = self.client.get("/zh/NAN-9001/sample-9001/?torch=x")
        wanted = "/zh/login/?next=/zh/NAN-9001/sample-9001/%3Ftorch%3Dx"
        self.assertRedirects(response, wanted)
        for path, status in [
            ("/en/login/", 200),
            ("/healthz", 200),
            ("/readyz", 200),
            ("/metrics", 401),
            ("/api/v1/records", 401),
            ("/api/v1/openapi.json", 401),
            ("/en/records/", 302),
            ("/NAN-9001", 302),
            ("/admin/", 302),
        ]:
            with self.subTest(path):
                self.assertEqual(self.client.get(path).status_code, status)
        body = self.client.get("/api/v1/records").json()
        self.assertEqual(body["code"], "unauthenticated")
        self.assertTrue(body["request_id"])

    def test_a_login_opens_the_site(self) -> None:
        self.user("viewer")
        data = {"username": "ann", "password": "x", "next": "/en/records/"}
        self.assertRedirects(self.client.post("/en/login/", data), "/en/records/")
        self.assertEqual(self.client.get("/api/v1/records").status_code, 200)
        self.assertContains(self.client.get("/en/login/"), "logged in as ann")
        self.client.post("/en/logout/")
        self.assertEqual(self.client.get("/en/records/").status_code, 302)

    def test_a_wrong_password_says_so(self) -> None:
        data = {"username": "ann", "password": "y"}
        self.assertContains(self.client.post("/en/login/", data), "do not match")


@override_settings(
    REMOTE_USER_HEADER="X-Remote-User",
    RUNS_ANONYMOUS=False,
    READ_LOGIN=True,
    AUTHENTICATION_BACKENDS=[
        "config.access.ProxyUserBackend",
        "django.contrib.auth.backends.ModelBackend",
    ],
)
class ProxyUserTest(AccessCase):
    def test_the_proxy_says_who_it_is(self) -> None:
        headers = {"X-Remote-User": "carol"}
        response = self.client.get("/en/records/", headers=headers)
        self.assertEqual(response.status_code, 200)
        user = User.objects.get(username="carol")
        self.assertEqual([group.name for group in user.groups.all()], ["runner"])
        body = {"record": "NAN-9001", "build": runs.SLUG}
        found = self.client_class().post(
            "/api/v1/runs", body, "application/json", headers=headers
        )
        self.assertEqual(found.status_code, 202)

    def status(self, name: str) -> int:
        headers = {"X-Remote-User": name}
        return self.client_class().get("/en/records/", headers=headers).status_code

    def test_a_name_is_one_value_of_a_strict_form(self) -> None:
        # As a server joins a header that came twice; and what is no name.
        for name in ("alice,root2", "alice, root", "a b", "", "x" * 151, "é"):
            self.assertEqual(self.status(name), 302, name)
        self.assertFalse(User.objects.exists())

    def test_staff_come_by_password_unless_the_site_says_otherwise(self) -> None:
        self.user(name="root", is_superuser=True)
        self.user(name="eve", is_staff=True)
        self.assertEqual([self.status("root"), self.status("eve")], [302, 302])
        with override_settings(REMOTE_USER_STAFF=True):
            self.assertEqual([self.status("root"), self.status("eve")], [200, 200])

    def test_no_account_is_made_that_reads_like_another(self) -> None:
        self.user(name="root", is_superuser=True)
        self.user(name="al1ce")
        for name in ("Root", "ROOT", "r0ot", "r00t", "alIce", "Al1ce", "AL1CE"):
            with self.subTest(name), self.assertLogs("config.access", "WARNING") as log:
                self.assertEqual(self.status(name), 302)
                self.assertIn(name, log.output[0])
        self.assertEqual(User.objects.count(), 2)
        self.assertEqual([self.status("al1ce"), self.status("alice")], [200, 200])

    def test_the_header_means_nothing_where_it_was_not_asked_for(self) -> None:
        with override_settings(REMOTE_USER_HEADER=""):
            client = self.client_class()
            found = client.get("/en/records/", headers={"X-Remote-User": "carol"})
        self.assertEqual(found.status_code, 302)
        self.assertFalse(User.objects.exists())


class LimitsTest(AccessCase):
    @override_settings(QUEUED_PER_REQUESTER=1)
    def test_the_page_says_when_to_come_back(self) -> None:
        runs.make_run(repro_digest="x", requester="address:127.0.0.1")
        data = {"repro": "repro", "build": runs.SLUG}
        response = self.client.post("/zh/NAN-9001/runs/", data)
        self.assertEqual((response.status_code, response["Retry-After"]), (429, "30"))
        self.assertContains(response, "你已有 1 个运行在等待", status_code=429)
        self.assertEqual(self.run_by_api(), 429)

    @override_settings(MAX_QUEUED=1)
    def test_a_full_queue_is_the_sites_fault(self) -> None:
        runs.make_run(repro_digest="x", requester="somebody")
        self.assertEqual((self.run_repro(), self.run_by_api()), (503, 503))

    def test_a_disabled_button_says_why(self) -> None:
        runs.make_worker()
        path = self.repro.record.get_absolute_url()
        page = self.client.get(path).content.decode()
        self.assertNotIn('id="run-why"', page)
        Worker.objects.update(paused=True)
        page = self.client.get(path).content.decode()
        self.assertRegex(page, r'<button[^>]*id="run-button"\s+disabled')
        self.assertIn("is paused by an operator", page)
        Worker.objects.update(paused=False)
        with override_settings(MAX_QUEUED=0):
            page = self.client.get(path).content.decode()
        self.assertIn("Too many runs are waiting", page)

    def test_the_panel_shows_the_wait(self) -> None:
        for digest in "ab":
            runs.make_run(repro_digest=digest)
        page = self.client.get(self.repro.record.get_absolute_url()).content.decode()
        self.assertIn("2 runs are ahead in the queue.", page)
