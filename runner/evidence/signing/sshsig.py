"""SSH keys and SSH signatures, read for what they name and checked by ssh-keygen.

What is read here chooses words and the one key to ask about; whether a signature holds
is OpenSSH's to say (PROTOCOL.sshsig), in a process of its own, with a limit on time and
size, in an empty folder. Without ssh-keygen nothing holds.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import shutil
import subprocess
import tempfile
import textwrap
from dataclasses import dataclass
from pathlib import Path

NAMESPACE = "doesitnan-evidence"
BEGIN, END = "-----BEGIN SSH SIGNATURE-----", "-----END SSH SIGNATURE-----"
MAGIC, VERSION = b"SSHSIG", 1
# One of RSA with 8192 bits has 2,939.
MAX_CHARS = 4096
MAX_KEY_CHARS = 3072
MIN_RSA_BITS = 2048
SECONDS = 10
# Neither DSA, which OpenSSH has given up, nor certificates: who signed is one key.
KEY_TYPES = (
    "ssh-ed25519",
    "sk-ssh-ed25519@openssh.com",
    *(f"ecdsa-sha2-nistp{bits}" for bits in (256, 384, 521)),
    "sk-ecdsa-sha2-nistp256@openssh.com",
    "ssh-rsa",
)
SIGNER = "signer"


class BadKey(ValueError):
    """A text that is no key to register; it says why."""


class BadSignature(ValueError):
    """A signature that does not hold; the text says why."""


class NoTool(Exception):
    """ssh-keygen is not here or does not answer: nothing can be checked."""


@dataclass(frozen=True)
class PublicKey:
    """`line`: type and key, as in authorized_keys, without its comment."""

    line: str
    fingerprint: str


@dataclass(frozen=True)
class Signature:
    """`text`: armored anew. `fingerprint`: of the key that it says it is by."""

    text: str
    fingerprint: str
    namespace: str


# --- reading ----------------------------------------
def fingerprint_of(key: bytes) -> str:
    """As `ssh-keygen -l` prints it."""
    digest = base64.b64encode(hashlib.sha256(key).digest()).decode()
    return "SHA256:" + digest.rstrip("=")


def read_signature(text: str) -> Signature:
    """Of a .sig file, or its middle lines in one, as a head of HTTP has them.

    Raises BadSignature.
    """
    if len(text) > MAX_CHARS:
        raise BadSignature(
            f"It has {len(text)} characters; a signature has at most {MAX_CHARS}."
        )
    middle = text.strip().removeprefix(BEGIN).removesuffix(END)
    try:
        data = base64.b64decode("".join(middle.split()), validate=True)
        if not data.startswith(MAGIC):
            raise ValueError
        rest = data[len(MAGIC) :]
        version, rest = int.from_bytes(rest[:4]), rest[4:]
        key, rest = taken(rest)
        namespace = taken(rest)[0].decode("ascii")
    except (ValueError, binascii.Error) as error:
        raise BadSignature(
            "It is no SSH signature, as `ssh-keygen -Y sign` writes it."
        ) from error
    if version != VERSION:
        raise BadSignature(f"It is an SSH signature of version {version}, not 1.")
    return Signature(armored(data), fingerprint_of(key), namespace)


def taken(data: bytes) -> tuple[bytes, bytes]:
    """The first string of SSH's wire form, and what follows. Raises ValueError."""
    end = 4 + int.from_bytes(data[:4])
    if not 4 < end <= len(data):
        raise ValueError
    return data[4:end], data[end:]


def armored(data: bytes) -> str:
    lines = textwrap.wrap(base64.b64encode(data).decode(), 70)
    return "\n".join([BEGIN, *lines, END, ""])


# --- asking ssh-keygen ----------------------------------------
def read_key(text: str) -> PublicKey:
    """A line such as id_ed25519.pub has it. Raises BadKey, NoTool."""
    if "PRIVATE KEY" in text:
        raise BadKey("That is a private key, which nobody else may have: name the .pub")
    kind, _space, rest = text.strip().partition(" ")
    if len(text) > MAX_KEY_CHARS or kind not in KEY_TYPES or "\n" in text.strip():
        raise BadKey(f"It is no line of a public SSH key ({', '.join(KEY_TYPES)}).")
    encoded = rest.partition(" ")[0]
    asked = ask(["-l", "-f", "-"], f"{kind} {encoded}\n")
    bits, _space, said = asked.stdout.partition(" ")
    try:
        fingerprint = fingerprint_of(base64.b64decode(encoded, validate=True))
    except binascii.Error as error:
        raise BadKey("It is no public SSH key: its middle part is cut.") from error
    if asked.returncode or said.partition(" ")[0] != fingerprint:
        raise BadKey(f"ssh-keygen reads no public key there: {last_line(asked)}")
    if kind == "ssh-rsa" and int(bits) < MIN_RSA_BITS:
        raise BadKey(f"An RSA key of {bits} bits is too short: {MIN_RSA_BITS} at least")
    return PublicKey(f"{kind} {encoded}", fingerprint)


def check(signature: Signature, key: str, message: str) -> None:
    """That this key, a line, signed the message. Raises BadSignature, NoTool."""
    if signature.namespace != NAMESPACE:
        raise BadSignature(
            f"It was signed for {signature.namespace[:40]!r}: -n {NAMESPACE} is needed."
        )
    with tempfile.TemporaryDirectory(prefix="doesitnan-signature-") as folder:
        signers = f'{SIGNER} namespaces="{NAMESPACE}" {key}\n'
        Path(folder, "signers").write_text(signers)
        Path(folder, "sig").write_text(signature.text)
        done = ask(
            [
                *("-Y", "verify", "-n", NAMESPACE, "-I", SIGNER),
                *("-f", "signers", "-s", "sig"),
            ],
            message,
            folder,
        )
    if done.returncode:
        raise BadSignature(
            f"It does not hold for this evidence (ssh-keygen: {last_line(done)})."
        )


def ask(
    words: list[str], given: str, folder: str | None = None
) -> subprocess.CompletedProcess[str]:
    """`ssh-keygen`, with `given` on its input. Raises NoTool."""
    program = shutil.which("ssh-keygen")
    if program is None:
        raise NoTool("ssh-keygen is not installed here (package openssh-client).")
    try:
        return subprocess.run(  # noqa: S603 - a fixed program, and no text of theirs in its words
            [program, *words],
            input=given,
            capture_output=True,
            text=True,
            errors="replace",
            cwd=folder,
            env={"LC_ALL": "C"},
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise NoTool(f"ssh-keygen did not answer within {SECONDS} s.") from error
    except OSError as error:
        raise NoTool(f"ssh-keygen cannot be started: {error.strerror}.") from error


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    lines = (done.stderr or done.stdout).split("\n")
    return next((line for line in reversed(lines) if line.strip()), "")[:200].strip()
