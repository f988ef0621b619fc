"""The worker keeps what turned, and wakes a slot to tell of it."""

from __future__ import annotations

from unittest import mock

from celery import current_app

from kb.telling import outbox
from runner import transport
from runner.worker import tasks
from runner.worker.heartbeat import Heartbeat
from tests.kb.telling.test_changes import TellingCase


class TellTest(TellingCase):
    def test_a_heartbeat_finds_what_turned_and_wakes_a_slot_now_and_then(self) -> None:
        self.subscribe()
        heartbeat = Heartbeat("worker-1@here", 1, lambda: False)
        with mock.patch.object(transport, "publish") as publish:
            heartbeat.tell()
            publish.assert_not_called()
            self.turn()
            heartbeat.tell()
            heartbeat.tell()
        publish.assert_called_once_with(transport.TELL_QUEUE, transport.TELL)
        self.assertEqual(outbox.due().count(), 1)

    def test_the_task_that_is_published_is_there(self) -> None:
        self.assertEqual(current_app.tasks[transport.TELL].name, tasks.tell.name)
