"""kbfs: messages arrive whole and once; nothing in the folder stops a worker."""

import json
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from queue import Empty

from django.conf import settings
from django.test import SimpleTestCase, override_settings, tag
from kombu import Connection
from kombu.exceptions import ChannelError

from config.celery import app
from runner.transport import Breaker, breaker, publish

PRODUCE = """
import sys
from config.celery import app
from kombu import Connection
with Connection(sys.argv[1]) as connection:
    queue = connection.SimpleQueue("q.cpu")
    for n in range(int(sys.argv[3])):
        queue.put({"id": f"{sys.argv[2]}-{n}", "load": "x" * 60000})
"""
CONSUME = """
import sys, time
from queue import Empty
from config.celery import app
from kombu import Connection
with Connection(sys.argv[1]) as connection:
    queue = connection.SimpleQueue("q.cpu")
    while True:
        try:
            message = queue.get(block=False)
        except Empty:
            if sys.stdin in __import__("select").select([sys.stdin], [], [], 0.01)[0]:
                break
            continue
        message.ack()
        print(message.payload["id"], flush=True)
"""


class TransportTest(SimpleTestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="a folder ")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name) / "broker"
        self.url = "kbfs://" + str(self.folder).replace(" ", "%20")
        self.connection = Connection(self.url)
        self.addCleanup(self.connection.release)
        self.assertTrue(app)  # registers the alias

    def queue(self, name: str = "q.cpu"):  # type: ignore[no-untyped-def]
        return self.connection.SimpleQueue(name)

    def test_oldest_first_and_only_once(self) -> None:
        queue = self.queue()
        for number in range(12):
            queue.put({"n": number})
        taken = [queue.get(block=False) for _ in range(12)]
        for message in taken:
            message.ack()
        self.assertEqual([m.payload["n"] for m in taken], list(range(12)))
        with self.assertRaises(Empty):
            queue.get(block=False)

    def test_queues_are_apart(self) -> None:
        self.queue("a.cpu").put({"n": 1})
        with self.assertRaises(Empty):
            self.queue("a.cpu.b").get(block=False)

    def test_a_message_that_was_not_acknowledged_comes_back(self) -> None:
        self.queue().put({"n": 1})
        with Connection(self.url) as other:
            other.SimpleQueue("q.cpu").get(block=False)
        self.assertEqual(self.queue().get(block=False).payload, {"n": 1})

    def test_unreadable_files_are_set_aside(self) -> None:
        queue = self.queue()
        queue.put({"n": 1})
        inbox = self.folder / "queues" / "q.cpu"
        whole = next(inbox.glob("*.msg")).read_text()
        bad = ["", whole[:50], "[]", "{}", "\x00\xff", json.dumps({"body": "%"})]
        bad.append(whole.replace('"headers"', '"footers"'))
        for number, text in enumerate(bad):
            (inbox / f"000{number}.msg").write_text(text)
        with self.assertLogs("runner.transport", "WARNING"):
            self.assertEqual(queue.get(block=False).payload, {"n": 1})
        self.assertEqual(len(list((self.folder / "bad").iterdir())), len(bad))

    def test_a_queue_name_never_leaves_the_folder(self) -> None:
        for name in ("../x", "a/b", ".hidden", "", "A"):
            with self.assertRaises(ChannelError):
                self.connection.default_channel._put(name, {})

    def test_the_folder_is_private(self) -> None:
        self.queue().put({})
        self.assertEqual(self.folder.stat().st_mode & 0o777, 0o700)

    def race(self, processes: int, messages: int) -> Counter[str]:
        """So many producers of so many messages each, as many consumers; what came."""

        def start(code: str, *arguments: str) -> subprocess.Popen[str]:
            return subprocess.Popen(
                [sys.executable, "-c", code, self.url, *arguments],
                cwd=settings.BASE_DIR,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )

        consumers = [start(CONSUME) for _ in range(processes)]
        producers = [start(PRODUCE, str(n), str(messages)) for n in range(processes)]
        for process in producers:
            process.communicate(timeout=300)
            self.assertEqual(process.returncode, 0)
        got: Counter[str] = Counter()
        for process in consumers:
            out, _ = process.communicate("stop\n", timeout=300)
            self.assertEqual(process.returncode, 0)
            got.update(out.split())
        return got

    def assert_whole(self, got: Counter[str], processes: int, messages: int) -> None:
        sent = {f"{p}-{n}" for p in range(processes) for n in range(messages)}
        self.assertEqual((len(sent - set(got)), len(set(got) - sent)), (0, 0))
        self.assertEqual(sum(got.values()), len(sent))
        self.assertEqual(list((self.folder / "bad").iterdir()), [])

    def test_nothing_lost_and_nothing_doubled_between_processes(self) -> None:
        self.assert_whole(self.race(2, 150), 2, 150)

    @tag("servers")  # for its length; it needs none
    def test_six_thousand_messages(self) -> None:
        self.assert_whole(self.race(3, 2000), 3, 2000)


class PublishTest(SimpleTestCase):
    def use_broker(self, url: str) -> None:
        before = app.conf.broker_url, app.conf.broker_write_url
        self.addCleanup(self.set_broker, *before)
        self.set_broker(url, url)

    def set_broker(self, url: str, write_url: str) -> None:
        app.conf.broker_url, app.conf.broker_write_url = url, write_url
        breaker.note(answered=True)

    def test_a_wake_up_names_its_queue_and_nothing_else(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            self.use_broker(f"kbfs://{folder}")
            self.assertTrue(publish("9.9.0-cpu.cpu"))
            (path,) = Path(folder, "queues", "9.9.0-cpu.cpu").glob("*.msg")
            message = json.loads(path.read_text())
        self.assertEqual(message["headers"]["task"], "runner.wake")
        self.assertEqual(message["headers"]["argsrepr"], "['9.9.0-cpu.cpu']")

    def test_a_dead_broker_raises_nothing(self) -> None:
        for url in ("amqp://127.0.0.1:1//", "kbfs:///proc/nowhere"):
            self.use_broker(url)
            with self.assertLogs("runner.transport", "WARNING"):
                self.assertFalse(publish("9.9.0-cpu.cpu"))

    def test_a_broker_that_hangs_costs_a_second_and_then_nothing(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            self.use_broker(f"amqp://127.0.0.1:{silent.getsockname()[1]}//")
            begin = time.monotonic()
            with self.assertLogs("runner.transport", "WARNING") as logs:
                for _ in range(20):
                    self.assertFalse(publish("9.9.0-cpu.cpu"))
            # Twenty times a second's wait would be more.
            self.assertLess(time.monotonic() - begin, 10)
            self.assertEqual(len(logs.output), 1)

    def test_the_breaker_closes_and_opens(self) -> None:
        one = Breaker()
        self.assertTrue(one.allows())
        one.note(answered=False)
        self.assertFalse(one.allows())
        one.note(answered=True)
        self.assertTrue(one.allows())

    @override_settings(QUEUE_PREFIX="site-a.")
    def test_a_prefix_keeps_sites_apart(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            self.use_broker(f"kbfs://{folder}")
            self.assertTrue(publish("9.9.0-cpu.cpu"))
            (path,) = Path(folder, "queues").iterdir()
        self.assertEqual(path.name, "site-a.9.9.0-cpu.cpu")
