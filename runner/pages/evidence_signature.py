"""By whose key evidence was signed, and how a reader checks that without this site."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from datetime import datetime

from runner.evidence.signing.sshsig import NAMESPACE
from runner.models import Evidence, SigningKey

# In bash: neither key nor signature have to be files.
VERIFY = (
    "ssh-keygen -Y verify -n {namespace} -I {name} -f <(echo {signer}) "
    "-s <(printf '%s\\n' {lines}) <<< {digest}"
)


@dataclass(frozen=True)
class ShownSignature:
    """`revoked_at`: when a maintainer ended its key, if so."""

    fingerprint: str
    revoked_at: datetime | None
    verify: str


def shown(evidence: Evidence) -> ShownSignature | None:
    """None where it is not signed. Keys are never deleted."""
    if not evidence.signed_by:
        return None
    key = SigningKey.objects.filter(fingerprint=evidence.signed_by).first()
    if key is None:
        return None
    verify = VERIFY.format(
        namespace=NAMESPACE,
        name=key.name,
        signer=shlex.quote(f"{key.name} {key.public}"),
        lines=shlex.join(evidence.signature.splitlines()),
        digest=evidence.digest,
    )
    return ShownSignature(key.fingerprint, key.revoked_at, verify)
