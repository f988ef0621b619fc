"""Which key signs for which name, and whether what was sent under it may be taken."""

from __future__ import annotations

from dataclasses import dataclass

from django.db import transaction
from django.utils import timezone

from kb.findings import writing
from runner.evidence.signing import sshsig
from runner.evidence.store import EvidenceRefused
from runner.models import Evidence, SigningKey, Sweep

SIGN = "signature"


@dataclass(frozen=True)
class Signed:
    """A signature that holds; of what is not signed both are ""."""

    text: str = ""
    by: str = ""


def register(name: str, line: str) -> SigningKey:
    """Let this key sign for a name, which from now on sends signed evidence only.

    Raises BadKey where it is none or is somebody's already, NoTool.
    """
    key = sshsig.read_key(line)
    refuse_known(key)
    return SigningKey.objects.create(
        name=name, public=key.line, fingerprint=key.fingerprint
    )


def refuse_known(key: sshsig.PublicKey) -> None:
    """Raises BadKey for one that signs for somebody, or was revoked."""
    row = SigningKey.objects.filter(fingerprint=key.fingerprint).first()
    if row is not None:
        state = "was revoked" if row.revoked_at else "is registered"
        raise sshsig.BadKey(f"{row.fingerprint} {state} for {row.name} already.")


def revoke(fingerprint: str) -> SigningKey | None:
    """End a key that is registered; None where there is none."""
    rows = SigningKey.objects.filter(fingerprint=fingerprint)
    with transaction.atomic():
        writing.show_anew()
        rows.filter(revoked_at=None).update(revoked_at=timezone.now())
    return rows.first()


def checked(origin: str, digest: str, text: str) -> Signed:
    """The signature over this digest, if it holds for this origin.

    A name with a key may send nothing else, and a signature that nobody here can check
    is not passed over. Raises EvidenceRefused.
    """
    keys = {key.fingerprint: key for key in SigningKey.objects.filter(name=origin)}
    if not text and not keys:
        return Signed()
    if not text:
        usable = [key.fingerprint for key in keys.values() if not key.revoked_at]
        ask = f"sign it with {' or '.join(usable)}" if usable else "all were revoked"
        raise EvidenceRefused(f"{origin} has a key and this is unsigned: {ask}.", SIGN)
    try:
        signature = sshsig.read_signature(text)
        key = usable_key(origin, keys, signature.fingerprint)
        # With the end of the line that a shell gives it.
        sshsig.check(signature, key.public, f"{digest}\n")
    except sshsig.BadSignature as error:
        raise EvidenceRefused(f"Its signature: {error}", SIGN) from error
    except sshsig.NoTool as error:
        raise EvidenceRefused(
            f"Its signature cannot be checked: {error}", "unchecked"
        ) from error
    return Signed(signature.text, key.fingerprint)


def usable_key(
    origin: str, keys: dict[str, SigningKey], fingerprint: str
) -> SigningKey:
    """Raises BadSignature."""
    key = keys.get(fingerprint)
    if key is None:
        raise sshsig.BadSignature(
            f"It is by {fingerprint}, which is no key of {origin} here."
        )
    if key.revoked_at:
        day = key.revoked_at.date()
        raise sshsig.BadSignature(f"Its key {fingerprint} was revoked on {day}.")
    return key


def note(row: Evidence | Sweep, origin: str, signed: Signed) -> None:
    """Keep a signature with what it signs, unless that has one or came from another."""
    if not signed.by or row.signed_by or row.origin != origin:
        return
    row.signature, row.signed_by = signed.text, signed.by
    with transaction.atomic():
        writing.show_anew()
        row.save(update_fields=["signature", "signed_by"])
