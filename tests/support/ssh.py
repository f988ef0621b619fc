"""SSH keys and signatures in tests, by the real ssh-keygen."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from django.test import TestCase

NAMESPACE = "doesitnan-evidence"


class SshCase(TestCase):
    def setUp(self) -> None:
        super().setUp()
        folder = tempfile.TemporaryDirectory(prefix="some keys ")
        self.addCleanup(folder.cleanup)
        self.keys = Path(folder.name)

    def make_key(self, name: str, kind: str = "ed25519", bits: str = "") -> Path:
        """A new private key without a passphrase; its public one is NAME.pub."""
        path = self.keys / name
        words = ["-q", "-t", kind, "-N", "", "-C", "of a test", "-f", str(path)]
        subprocess.run(["ssh-keygen", *words, *(["-b", bits] if bits else [])])
        return path

    def public(self, key: Path) -> str:
        return key.with_name(f"{key.name}.pub").read_text()

    def sign(self, key: Path, digest: str, namespace: str = NAMESPACE) -> str:
        words = ["-Y", "sign", "-n", namespace, "-f", str(key)]
        done = subprocess.run(
            ["ssh-keygen", *words],
            input=f"{digest}\n",
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout
