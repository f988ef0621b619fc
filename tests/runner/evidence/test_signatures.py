"""Signed evidence: whose key signed it, checked by the real ssh-keygen."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import tempfile
from datetime import timedelta
from html import unescape
from io import StringIO
from pathlib import Path
from typing import Any
from unittest import mock

from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import override_settings
from django.utils import timezone

from runner.evidence.signing import keys, sshsig
from runner.models import Evidence, SigningKey
from runner.models.token import Token
from runner.takeaway.programs import signing
from tests.support import runs
from tests.support.ssh import NAMESPACE, SshCase

NODE = "node-7"
ABSENT_TOOL = {"PATH": "/nowhere"}


def one_line(signature: str) -> str:
    """As a head of HTTP has it."""
    return "".join(signature.split("\n")[1:-2])


class SignedCase(SshCase):
    def setUp(self) -> None:
        super().setUp()
        self.repro = runs.make_repro()
        self.body = self.evidence()
        self.key = self.make_key("mine")
        self.fingerprint = keys.register(NODE, self.public(self.key)).fingerprint

    def evidence(self, **changes: Any) -> dict[str, Any]:
        return runs.signed({**runs.make_evidence(self.repro, bug=True), **changes})


class PostTest(SignedCase):
    def setUp(self) -> None:
        super().setUp()
        user, end = User.objects.create_user("ann"), timezone.now() + timedelta(days=1)
        names = (NODE, "other")
        self.secrets = {n: Token.issue(n, user, ["evidence"], end)[1] for n in names}

    def post(
        self, signature: str, name: str = NODE, body: dict[str, Any] | None = None
    ) -> Any:
        heads = {"Authorization": f"Bearer {self.secrets[name]}"}
        if signature:
            heads["Evidence-Signature"] = signature
        return self.client.post(
            "/api/v1/evidence",
            json.dumps(body or self.body),
            "application/json",
            headers=heads,
        )

    def refused(self, signature: str, words: str, **changes: Any) -> None:
        answer = self.post(signature, **changes)
        self.assertEqual(answer.status_code, 422, answer.content)
        self.assertEqual(answer.json()["errors"][0]["code"], "signature")
        self.assertIn(words, answer.json()["detail"])
        self.assertEqual(Evidence.objects.count(), 0)

    def own(self, **options: Any) -> str:
        return one_line(self.sign(self.key, self.body["digest"], **options))

    def test_what_is_signed_is_kept_and_shown_with_its_key(self) -> None:
        answer = self.post(self.own())
        self.assertEqual(answer.status_code, 201, answer.content)
        self.assertEqual(answer.json()["signed_by"], self.fingerprint)
        (item,) = self.client.get("/api/v1/evidence").json()["items"]
        self.assertEqual(item["signature"], self.sign(self.key, self.body["digest"]))
        self.assertEqual((item["origin"], item["signed_by"]), (NODE, self.fingerprint))
        out = StringIO()
        call_command("origins", "list", stdout=out)
        self.assertIn(
            f"{NODE}  1 evidence, 0 withdrawn, 1 signed with {self.fingerprint}",
            out.getvalue(),
        )
        page = self.client.get(f"/en/evidence/{Evidence.objects.get().short}/").text
        self.assertIn(f"signed with {self.fingerprint}", unescape(page))
        record = self.client.get("/en/NAN-9001/", follow=True).text
        self.assertIn(f"signed with {self.fingerprint}", unescape(record))

    def test_the_command_of_its_page_checks_it_in_a_shell(self) -> None:
        self.post(self.own())
        address = f"/en/evidence/{Evidence.objects.get().short}/"
        page = self.client.get(address).text
        (found,) = re.findall(r">(ssh-keygen -Y verify[^<]+)<", page)
        command = unescape(found)
        for text, status in ((command, 0), (command[:-1] + "z", 255)):
            done = subprocess.run(["bash", "-c", text], capture_output=True, text=True)
            self.assertEqual(done.returncode, status, done.stderr)
        self.assertNotIn("This key was revoked", page)
        keys.revoke(self.fingerprint)
        self.assertIn("This key was revoked", self.client.get(address).text)

    @override_settings(PAGE_CACHE_SECONDS=60)
    def test_a_page_from_memory_does_not_outlive_its_signature(self) -> None:
        SigningKey.objects.all().delete()
        self.post("")
        address = f"/en/evidence/{Evidence.objects.get().short}/"
        self.assertNotIn("signed with", self.client.get(address).text)
        keys.register(NODE, self.public(self.key))
        self.post(self.own())
        self.assertIn("signed with", self.client.get(address).text)
        keys.revoke(self.fingerprint)
        self.assertIn("This key was revoked", self.client.get(address).text)

    def test_every_kind_of_key_signs(self) -> None:
        for kind, bits in (("ecdsa", "256"), ("ecdsa", "521"), ("rsa", "3072")):
            key = self.make_key(f"{kind}{bits}", kind, bits)
            keys.register("other", self.public(key))
            body = self.evidence(duration_s=int(bits))
            signature = one_line(self.sign(key, body["digest"]))
            with self.subTest(kind, bits=bits):
                answer = self.post(signature, "other", body)
                self.assertEqual(answer.status_code, 201, answer.content)

    def test_changed_evidence_is_refused(self) -> None:
        changed = self.evidence(duration_s=99.0)
        self.refused(self.own(), "It does not hold for this evidence", body=changed)
        as_before = {**changed, "digest": self.body["digest"]}
        answer = self.post(self.own(), body=as_before)
        self.assertEqual(answer.json()["errors"][0]["code"], "digest")

    def test_a_key_of_nobody_or_of_another_name_is_refused(self) -> None:
        stranger = self.make_key("stranger")
        signature = one_line(self.sign(stranger, self.body["digest"]))
        self.refused(signature, "which is no key of node-7 here")
        keys.register("other", self.public(stranger))
        self.refused(signature, "which is no key of node-7 here")
        self.refused(self.own(), "which is no key of other here", name="other")

    def test_a_signature_that_names_the_right_key_and_is_by_another_is_refused(
        self,
    ) -> None:
        """The public key that stands in it is its sender's to write."""
        stranger = self.make_key("stranger")
        digest = self.body["digest"]
        theirs = sshsig.read_signature(self.sign(stranger, digest)).text
        blobs = [
            sshsig.taken(self.bytes_of(text)[10:])[0]
            for text in (theirs, self.sign(self.key, digest))
        ]
        forged = sshsig.armored(self.bytes_of(theirs).replace(*blobs, 1))
        self.assertEqual(sshsig.read_signature(forged).fingerprint, self.fingerprint)
        self.refused(one_line(forged), "It does not hold for this evidence")

    def bytes_of(self, armored: str) -> bytes:
        return sshsig.base64.b64decode(one_line(armored))

    def test_a_signature_for_something_else_is_refused(self) -> None:
        self.refused(self.own(namespace="git"), "It was signed for 'git'")

    def test_what_is_no_signature_is_refused(self) -> None:
        for text, words in (
            ("A" * (sshsig.MAX_CHARS + 1), "at most 4096"),
            ("%%%", "no SSH signature"),
            ("U1NIU0lH", "no SSH signature"),
            (self.own()[:40], "no SSH signature"),
            (self.own().replace("AAAAAQ", "AAAAAg", 1), "version 2"),
            (self.own()[:-40], "It does not hold"),
        ):
            with self.subTest(text[:8], words=words):
                self.refused(text, words)

    def test_a_revoked_key_is_refused_and_nothing_unsigned_takes_its_place(
        self,
    ) -> None:
        call_command("tokens", "revoke-key", self.fingerprint, stdout=StringIO())
        self.refused(self.own(), f"Its key {self.fingerprint} was revoked on")
        self.refused("", "all were revoked")
        with self.assertRaisesMessage(sshsig.BadKey, "was revoked for node-7"):
            keys.register(NODE, self.public(self.key))

    def test_a_name_with_a_key_sends_nothing_unsigned(self) -> None:
        self.refused("", f"sign it with {self.fingerprint}")
        self.assertEqual(self.post("", "other").status_code, 201)

    def test_what_nobody_here_can_check_is_not_passed_over(self) -> None:
        key = self.make_key("unregistered")
        signature = one_line(self.sign(key, self.body["digest"]))
        self.refused(signature, "no key of other here", name="other")

    def test_without_ssh_keygen_nothing_signed_is_taken(self) -> None:
        signature = self.own()
        with mock.patch.dict(os.environ, ABSENT_TOOL):
            answer = self.post(signature)
        self.assertEqual(answer.status_code, 503)
        self.assertEqual(answer.json()["code"], "signature_unchecked")
        self.assertIn("package openssh-client", answer.json()["detail"])
        self.assertEqual(Evidence.objects.count(), 0)

    def test_one_that_does_not_answer_is_ended(self) -> None:
        signature = self.own()
        waits = self.keys / "ssh-keygen"
        waits.write_text("#!/bin/sh\nexec sleep 600\n")
        waits.chmod(0o755)
        path = {"PATH": f"{self.keys}:{os.environ['PATH']}"}
        with (
            mock.patch.dict(os.environ, path),
            mock.patch.object(sshsig, "SECONDS", 0.1),
        ):
            answer = self.post(signature)
        self.assertEqual(answer.status_code, 503)
        self.assertIn("did not answer", answer.json()["detail"])

    def test_what_another_sent_gets_no_signature_of_mine(self) -> None:
        self.post("", "other")
        answer = self.post(self.own())
        self.assertEqual((answer.status_code, answer.json()["signed_by"]), (200, None))
        self.assertEqual(Evidence.objects.get().origin, "other")

    def test_what_was_sent_before_the_key_can_be_signed_later(self) -> None:
        SigningKey.objects.all().delete()
        self.post("")
        keys.register(NODE, self.public(self.key))
        answer = self.post(self.own())
        self.assertEqual(answer.status_code, 200)
        self.assertEqual(answer.json()["signed_by"], self.fingerprint)


class FileTest(SignedCase):
    """`load_evidence`, which finds the signature beside the file."""

    def setUp(self) -> None:
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = Path(folder.name, "evidence.json")
        self.file.write_text(json.dumps(self.body, indent=2))
        self.beside = self.file.with_name("evidence.json.sig")

    def load(self, origin: str = NODE) -> str:
        out = StringIO()
        said = {"stdout": out, "stderr": out}
        with contextlib.suppress(SystemExit):
            call_command("load_evidence", self.file, origin=origin, **said)
        return out.getvalue()

    def test_the_signature_stands_beside_it(self) -> None:
        self.beside.write_text(self.sign(self.key, self.body["digest"]))
        self.assertIn("1 added", self.load())
        self.assertEqual(Evidence.objects.get().signed_by, self.fingerprint)

    def test_without_one_or_under_another_name_it_is_refused(self) -> None:
        self.assertIn("has a key and this is unsigned", self.load())
        self.beside.write_text(self.sign(self.key, self.body["digest"]))
        self.assertIn("no key of upload here", self.load("upload"))
        self.beside.write_text("x" * 10**6)
        self.assertIn("at most 4096", self.load())
        self.assertEqual(Evidence.objects.count(), 0)

    def test_results_with_strange_signatures_are_refused(self) -> None:
        for found in (7, [], {self.body["digest"]: 7}, {self.body["digest"]: None}):
            whole = {"schema": "doesitnan.doctor/1", "signatures": found}
            whole["results"] = [{"evidence": self.body}]
            self.file.write_text(json.dumps(whole))
            with self.subTest(found=found):
                self.assertIn("0 added, 0 known, 1 refused", self.load())


class KeyTest(SignedCase):
    def command(self, *words: str) -> str:
        out = StringIO()
        call_command("tokens", *words, stdout=out)
        return out.getvalue()

    def test_keys_are_added_listed_and_revoked(self) -> None:
        other = self.make_key("second")
        said = self.command("add-key", "node-8", f"{other}.pub")
        fingerprint = said.split()[0]
        asked = subprocess.run(
            ["ssh-keygen", "-l", "-f", other], capture_output=True, text=True
        )
        self.assertEqual(asked.stdout.split()[1], fingerprint)
        self.assertIn(f"node-8  {fingerprint}  signs", self.command("list"))
        self.assertIn("is revoked", self.command("revoke-key", fingerprint))
        self.assertIn(f"node-8  {fingerprint}  revoked 20", self.command("list"))
        with self.assertRaisesMessage(CommandError, "There is no key"):
            self.command("revoke-key", "SHA256:x")
        # Nothing of its comment is kept: a comment is free text.
        self.assertNotIn("test", SigningKey.objects.get(name="node-8").public)

    def test_what_is_no_key_is_refused(self) -> None:
        short = self.public(self.make_key("short", "rsa", "1024"))
        kind, blob, _comment = self.public(self.make_key("fine")).split(" ", 2)
        for text, words in (
            (self.key.read_text(), "private key"),
            (short, "1024 bits is too short"),
            (f"cert-authority {kind} {blob}", "no line of a public SSH key"),
            (f"{kind} {blob}\n{kind} {blob}", "no line of a public SSH key"),
            (f"ssh-dss {blob}", "no line of a public SSH key"),
            (f"ssh-rsa {blob}", "reads no public key"),
            (f"{kind} {blob[:-8]}", "reads no public key"),
            (kind, "reads no public key"),
            ("", "no line of a public SSH key"),
            (self.public(self.key), "is registered for node-7"),
        ):
            with self.subTest(text[:30]), self.assertRaisesRegex(sshsig.BadKey, words):
                keys.register("node-9", text)
        self.assertFalse(SigningKey.objects.filter(name="node-9").exists())

    def test_names_that_are_nobody_s_to_send_under(self) -> None:
        for name in ("site", "repository", "A B", "x\n"):
            with self.subTest(name), self.assertRaises(CommandError):
                self.command("add-key", name, f"{self.make_key('k')}.pub")

    def test_without_ssh_keygen_no_key_is_registered(self) -> None:
        path = f"{self.make_key('k')}.pub"
        with (
            mock.patch.dict(os.environ, ABSENT_TOOL),
            self.assertRaisesMessage(CommandError, "package openssh-client"),
        ):
            self.command("add-key", "node-9", path)

    def test_superusers_add_and_revoke_them_in_the_admin(self) -> None:
        self.client.force_login(User.objects.create_superuser("chief"))
        public = self.public(self.make_key("new"))
        add = "/admin/runner/signingkey/add/"
        answer = self.client.post(add, {"name": "node-8", "public": public})
        self.assertEqual(answer.status_code, 302)
        row = SigningKey.objects.get(name="node-8")
        again = self.client.post(add, {"name": "node-9", "public": public})
        self.assertIn("is registered for node-8 already", unescape(again.text))
        page = self.client.get(f"/admin/runner/signingkey/{row.pk}/change/")
        self.assertIn(row.fingerprint, unescape(page.text))
        listed = "/admin/runner/signingkey/"
        self.client.post(listed, {"action": "revoke", "_selected_action": [row.pk]})
        row.refresh_from_db()
        self.assertIsNotNone(row.revoked_at)
        gone = self.client.post(f"{listed}{row.pk}/delete/", {"post": "yes"})
        self.assertEqual(gone.status_code, 403)

    def test_nobody_else_sees_them(self) -> None:
        for group in ("viewer", "runner", "editor", "operator"):
            user = User.objects.create_user(group, is_staff=True)
            user.groups.add(*user.groups.model.objects.filter(name=group))
            self.client.force_login(user)
            answer = self.client.get("/admin/runner/signingkey/")
            with self.subTest(group):
                self.assertEqual(answer.status_code, 403)


class NamespaceTest(SshCase):
    def test_programs_sign_for_what_the_site_checks(self) -> None:
        self.assertEqual({NAMESPACE}, {sshsig.NAMESPACE, signing.NAMESPACE})
