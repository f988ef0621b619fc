"""A mail server on the loopback (SMTP), which keeps what it takes."""

from __future__ import annotations

from email import message_from_bytes, policy
from email.message import EmailMessage
from functools import partial
from socketserver import StreamRequestHandler
from typing import Any

from tests.support.loopback import LoopbackServer

USUAL = {"DATA": "354 go on", "QUIT": "221 bye"}


class Mailbox(LoopbackServer):
    """`got` has (sender, recipients, message) of each mail that came whole.

    `answers` in place of the usual ones: by verb, "." being the end of a message. An
    empty one cuts the connection.
    """

    def __init__(self) -> None:
        self.answers: dict[str, str] = {}
        self.got: list[tuple[str, list[str], EmailMessage]] = []
        super().__init__(partial(Session, mailbox=self))


class Session(StreamRequestHandler):
    """One connection, line by line."""

    def __init__(self, *arguments: Any, mailbox: Mailbox) -> None:
        self.mailbox = mailbox
        self.sender = ""
        self.recipients: list[str] = []
        super().__init__(*arguments)

    def handle(self) -> None:
        going = self.say("220 here")
        while going and (line := self.rfile.readline()):
            going = self.obey(line.decode().strip())

    def say(self, text: str) -> bool:
        """Answer; whether it goes on after that."""
        if text:
            self.wfile.write(f"{text}\r\n".encode())
        return bool(text) and not text.startswith("221")

    def obey(self, line: str) -> bool:
        verb, _space, rest = line.partition(" ")
        verb = verb.upper()
        if verb == "MAIL":
            self.sender, self.recipients = address_in(rest), []
        elif verb == "RCPT":
            self.recipients.append(address_in(rest))
        answer = self.mailbox.answers.get(verb, USUAL.get(verb, "250 ok"))
        going = self.say(answer)
        return self.take() if answer.startswith("354") else going

    def take(self) -> bool:
        lines = []
        while (line := self.rfile.readline()) not in (b".\r\n", b""):
            lines.append(line[1:] if line.startswith(b"..") else line)
        answer = self.mailbox.answers.get(".", "250 taken")
        # What is taken and not confirmed is there all the same.
        if not answer or answer.startswith("250"):
            message = message_from_bytes(b"".join(lines), policy=policy.default)
            assert isinstance(message, EmailMessage)
            self.mailbox.got.append((self.sender, self.recipients, message))
        return self.say(answer)


def address_in(text: str) -> str:
    """Of `FROM:<ann@example.org> size=12`."""
    return text.partition("<")[2].partition(">")[0]
