"""The colours a reader chose: kept in a cookie, written by the server, harmless."""

from __future__ import annotations

from django.test import TestCase

from kb.pages import theme


class ThemeTests(TestCase):
    def choose(self, chosen: str, back: str = "/en/records/?component=sdpa") -> str:
        form = {"theme": chosen, "back": back}
        return self.client.post("/en/theme/", form).headers["Location"]

    def root(self, path: str = "/en/records/") -> str:
        return self.client.get(path).text.partition("<head>")[0]

    def test_the_system_decides_until_somebody_chooses(self) -> None:
        self.assertNotIn("data-theme", self.root())
        page = self.client.get("/en/records/")
        self.assertContains(page, 'name="color-scheme" content="light dark"')
        self.assertIn("Cookie", page.headers["Vary"])

    def test_a_choice_is_kept_on_every_page_and_goes_back_to_its_own(self) -> None:
        self.assertEqual(self.choose("dark"), "/en/records/?component=sdpa")
        for path in ("/en/records/", "/zh/claims/", "/en/nowhere/", "/en/login/"):
            self.assertIn('data-theme="dark"', self.root(path), path)
        page = self.client.get("/en/records/?component=sdpa")
        self.assertContains(page, 'name="color-scheme" content="dark"')
        self.assertContains(page, 'name="back" value="/en/records/?component=sdpa"')
        self.choose("")
        self.assertNotIn("data-theme", self.root())

    def test_what_nobody_offers_is_not_kept(self) -> None:
        self.choose("dark")
        self.choose('"><script>')
        self.assertNotIn("data-theme", self.root())
        self.client.cookies[theme.COOKIE] = "pink"
        self.assertNotIn("data-theme", self.root())

    def test_it_goes_back_to_this_site_alone(self) -> None:
        for back in ("//elsewhere.example/", "https://elsewhere.example/", ""):
            self.assertEqual(self.choose("dark", back), "/en/")

    def test_an_answer_to_a_paste_keeps_the_paste(self) -> None:
        form = {"log": "Segfault in nowhere", "env": ""}
        page = self.client.post("/en/lookup/?theme=light", form)
        self.assertContains(page, 'data-theme="light"')
        again = r'form="again"\s+formaction="/en/lookup/\?theme=dark"'
        self.assertRegex(page.text, again)
        self.assertContains(page, 'name="log" value="Segfault in nowhere"')
        self.assertIn('data-theme="light"', self.root())

    def test_a_page_before_that_is_no_address_is_nobody_s(self) -> None:
        for before in ("http://[", "http://[::1", "//[", ""):
            page = self.client.post(
                "/en/lookup/", {"log": "nan"}, headers={"Referer": before}
            )
            self.assertEqual(page.status_code, 200, before)

    def test_only_a_post_chooses(self) -> None:
        self.assertEqual(self.client.get("/en/theme/?theme=dark").status_code, 405)
        self.assertNotIn("data-theme", self.root("/en/records/?theme=dark"))
