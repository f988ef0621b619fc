"""What `doesitnan completion` prints, in the shells that it is for."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import unittest
from pathlib import Path

from django.test import TestCase

from tests.runner.takeaway import test_client

BASH, ZSH, FISH = map(shutil.which, ("bash", "zsh", "fish"))
# What is typed -> the word that the shell makes of its last one.
ASKED = {
    ("ru",): "run",
    ("run", "NAN-90"): "NAN-9001",
    ("run", "NAN-9001", "--tr"): "--trials",
    ("lint", "--sever"): "--severity",
    ("completion", "fi"): "fish",
}
# Ctrl-X completes, writes the line down and empties it.
ZSH_SETUP = """
PROMPT='ready> '
autoload -Uz compinit
fpath=($PWD/functions $fpath)
compinit -u -D
noted() {
  zle complete-word
  print -r -- "$BUFFER" >> noted
  BUFFER=""
  print -n 'written '
}
zle -N noted
bindkey '^X' noted
"""
MOST_BYTES = 1 << 20


class Terminal:
    """An interactive shell on a terminal of its own."""

    def __init__(self, command: list[str], folder: Path) -> None:
        self.own, other = pty.openpty()
        environ = {**os.environ, "TERM": "dumb", "HOME": str(folder)}
        self.process = subprocess.Popen(
            command,
            cwd=folder,
            env=environ,
            stdin=other,
            stdout=other,
            stderr=other,
            start_new_session=True,
        )
        os.close(other)

    def type(self, text: str) -> None:
        os.write(self.own, text.encode())

    def wait_for(self, words: str) -> None:
        """Read what it prints up to these words; it fails where the shell ends."""
        read = b""
        while words.encode() not in read:
            read += os.read(self.own, 4096)
            if len(read) > MOST_BYTES:
                raise AssertionError(read[-1000:])

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.own)


class CompletionTest(test_client.ClientCase, TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.write()

    def script(self, shell: str) -> str:
        return self.ask("completion", shell).stdout

    @unittest.skipUnless(BASH, "no bash here")
    def test_bash(self) -> None:
        asked = "\n".join(
            f"COMP_WORDS=(doesitnan {' '.join(words)}); COMP_CWORD={len(words)}; "
            '_doesitnan; echo "${COMPREPLY[*]}"'
            for words in ASKED
        )
        done = subprocess.run(
            [str(BASH), "-c", self.script("bash") + asked],
            capture_output=True,
            text=True,
            check=True,
        )
        self.assertEqual(done.stdout.splitlines(), list(ASKED.values()), done.stderr)

    @unittest.skipUnless(ZSH, "no zsh here")
    def test_zsh_by_a_key_on_a_terminal(self) -> None:
        """Found in `fpath`, where its help says to put it."""
        functions = self.folder / "functions"
        functions.mkdir()
        (functions / "_doesitnan").write_text(self.script("zsh"))
        (self.folder / "setup.zsh").write_text(ZSH_SETUP)
        terminal = Terminal([str(ZSH), "-f", "-i"], self.folder)
        self.addCleanup(terminal.close)
        terminal.type("source ./setup.zsh\n")
        for words in ASKED:
            terminal.wait_for("ready> ")
            terminal.type(" ".join(("doesitnan", *words)) + "\x18")
            terminal.wait_for("written ")
            terminal.type("\n")
        found = [line.split()[-1] for line in (self.folder / "noted").open()]
        self.assertEqual(found, list(ASKED.values()))

    @unittest.skipUnless(FISH, "no fish here")
    def test_fish(self) -> None:
        (self.folder / "doesitnan.fish").write_text(self.script("fish"))
        asked = "\n".join(
            f"complete -C 'doesitnan {' '.join(words)}'; echo ." for words in ASKED
        )
        done = subprocess.run(
            [str(FISH), "--no-config", "-c", f"source doesitnan.fish\n{asked}"],
            cwd=self.folder,
            env={**os.environ, "HOME": str(self.folder)},
            capture_output=True,
            text=True,
            check=True,
        )
        offered = [
            [line.split("\t")[0] for line in part.splitlines()]
            for part in done.stdout.split(".\n")[:-1]
        ]
        self.assertEqual(offered, [[word] for word in ASKED.values()], done.stderr)
