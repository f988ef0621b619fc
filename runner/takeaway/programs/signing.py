"""Signing results with an SSH key of the user's; OpenSSH alone reads that key.

What is signed is each digest with a line feed, so anybody who has the evidence can
check it. A signature says who vouches for a result, not that the result is true.
"""

import os
import subprocess
import tempfile
from typing import Any, Dict, Iterator, List, Optional

# As runner/evidence/signing/sshsig.py has it.
NAMESPACE = "doesitnan-evidence"
Json = Dict[str, Any]


class NotSigned(Exception):
    """ssh-keygen did not sign; the text is what it said."""


def check(key: str) -> None:
    """See before anything runs that this key signs. Raises NotSigned."""
    sign(key, ["sha256:" + 64 * "0"])


def sign(key: str, digests: List[str]) -> Dict[str, str]:
    """Signatures by digest. One call, so that a passphrase is asked for once.

    Raises NotSigned.
    """
    with tempfile.TemporaryDirectory(prefix="doesitnan-signing-") as folder:
        paths = {digest: os.path.join(folder, digest[7:]) for digest in digests}
        for digest, path in paths.items():
            with open(path, "w", encoding="ascii", newline="\n") as file:
                file.write(digest + "\n")
        command = ["ssh-keygen", "-q", "-Y", "sign", "-n", NAMESPACE, "-f", key]
        try:
            # Its input is the user's own: it may have to ask for a passphrase.
            done = subprocess.run(  # noqa: S603
                command + list(paths.values()), stderr=subprocess.PIPE, check=False
            )
        except OSError as error:
            raise NotSigned("ssh-keygen (OpenSSH): %s" % error.strerror) from error
        if done.returncode:
            said = done.stderr.decode("utf-8", "replace").strip()
            raise NotSigned("ssh-keygen: " + (said.splitlines() or ["?"])[-1])
        return {digest: read(path + ".sig") for digest, path in paths.items()}


def read(path: str) -> str:
    with open(path, encoding="ascii") as file:
        return file.read()


def digests_in(whole: Json) -> Iterator[str]:
    """Of what a results file holds whole: evidence, and sweeps with all their cells."""
    for row in whole["results"]:
        if row["evidence"]:
            yield row["evidence"]["digest"]
    for body in whole.get("sweeps", ()):
        if "digest" in body:
            yield body["digest"]


def add_to(extra: Json, key: Optional[str], whole: Json) -> Json:
    """Sign what a results file holds, if a key is named: into its `extra`, too.

    Raises NotSigned.
    """
    earlier = extra.get("signatures", {})
    found = signatures(key, whole, earlier) if key else earlier
    if found:
        extra["signatures"] = whole["signatures"] = found
    return whole


def signatures(key: str, whole: Json, earlier: Dict[str, str]) -> Dict[str, str]:
    """Of all that a results file holds, those that it has already kept.

    Raises NotSigned.
    """
    digests = list(dict.fromkeys(digests_in(whole)))
    missing = [digest for digest in digests if digest not in earlier]
    found = {**earlier, **(sign(key, missing) if missing else {})}
    return {digest: found[digest] for digest in digests}
