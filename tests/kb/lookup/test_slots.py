"""Long logs are looked up one after the other; what is too much is told so."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock
from urllib.parse import urlencode

from django.test import LiveServerTestCase, TestCase

from kb.lookup import answer, slots
from runner.agents import tools
from tests.support import runs
from tests.support.sites import wait_for

PATIENCE_S = 60
LONG = "\n".join(f"step {n} | loss: 0.{n} | lr {n}e-4" for n in range(1000))


@contextmanager
def taken() -> Iterator[None]:
    """Somebody else's log is being looked up, and nobody has time to wait."""
    with mock.patch.object(slots, "WAIT_S", 0), slots.slot(LONG):
        yield


class BusyTest(TestCase):
    def setUp(self) -> None:
        self.assertGreater(len(LONG), slots.SHORT)
        self.enterContext(taken())

    def ask(self, name: str, body: dict[str, Any]) -> dict[str, Any]:
        address = f"/api/v1/{name}"
        answered = self.client.post(address, body, content_type="application/json")
        self.assertEqual(answered.status_code, 503, name)
        self.assertEqual(answered["Retry-After"], str(slots.RETRY_S))
        self.assertEqual(answered["Content-Type"], "application/problem+json")
        return dict(answered.json())

    def test_each_operation_says_so(self) -> None:
        record = runs.make_record()
        for name, body in (
            ("lookup", {"log": LONG}),
            (f"records/{record.pk}/affected", {"env": LONG}),
        ):
            self.assertEqual(self.ask(name, body)["code"], "busy")

    def test_the_page_keeps_what_was_pasted(self) -> None:
        sent = {"log": LONG, "env": "torch==2.5.1", "part": "log 1 1000"}
        for lang, words in (("en", "The site is busy"), ("zh", "站点繁忙")):
            page = self.client.post(f"/{lang}/lookup/", sent)
            self.assertEqual(page.status_code, 503)
            self.assertEqual(page["Retry-After"], str(slots.RETRY_S))
            self.assertContains(page, words, status_code=503)
            for kept in sent.values():
                self.assertContains(page, kept, status_code=503)

    def test_short_ones_and_pages_are_answered(self) -> None:
        page = self.client.post("/en/lookup/", {"log": "loss: nan"})
        self.assertEqual(page.status_code, 200)
        self.assertEqual(self.client.get("/en/").status_code, 200)

    def test_agents_are_told_too(self) -> None:
        for ask in (tools.look_up, tools.check_environment):
            with self.assertRaisesRegex(slots.Problem, "being looked up right now"):
                ask(mock.Mock(), LONG)


class CrowdTest(LiveServerTestCase):
    def post(self, _number: int = 0) -> int:
        site = http.client.HTTPConnection(
            self.server_thread.host, self.server_thread.port, timeout=PATIENCE_S
        )
        head = {"Content-Type": "application/x-www-form-urlencoded"}
        try:
            site.request("POST", "/en/lookup/", urlencode({"log": LONG}), head)
            return site.getresponse().status
        finally:
            site.close()

    def test_a_few_are_held_and_the_next_is_sent_away(self) -> None:
        go_on, most = threading.Event(), slots.AT_WORK + slots.WAITING
        look_up = answer.look_up

        def slow(*given: Any) -> Any:
            go_on.wait(PATIENCE_S)
            return look_up(*given)

        with ExitStack() as stack:
            stack.enter_context(mock.patch.object(slots, "WAIT_S", PATIENCE_S))
            stack.enter_context(mock.patch.object(answer, "look_up", slow))
            crowd = stack.enter_context(ThreadPoolExecutor(most))
            stack.callback(go_on.set)
            held = [crowd.submit(self.post) for _ in range(most)]
            wait_for(lambda: slots._admitted._value == 0, "all slots are taken")
            self.assertEqual(self.post(), 503)
            self.assertEqual(self.client.get("/en/").status_code, 200)
            self.assertFalse(any(one.done() for one in held))
            go_on.set()
            self.assertEqual([one.result() for one in held], [200] * most)
