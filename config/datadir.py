"""Where runtime data live: database, broker folders, torch builds, the secret key."""

import fcntl
import os
import secrets
from pathlib import Path

BASE_DIR = Path(__file__).resolve().parent.parent
DATA_DIR = Path(os.environ.get("DATA_DIR") or BASE_DIR / "var").expanduser().absolute()
SECRET_KEY_FILE = DATA_DIR / "secret_key"


def ensure() -> None:
    """Make the folder (0700) and, once, the secret key in it (0600).

    One that is there already is closed to everybody but its owner and group: the
    database lies in it, readable for all as SQLite makes it.
    """
    DATA_DIR.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = DATA_DIR.stat()
    if found.st_uid == os.geteuid() and found.st_mode & 0o007:
        DATA_DIR.chmod(found.st_mode & 0o770)
    if not has_key():
        make_key()


def has_key() -> bool:
    """Whether there is a key; a disk that was full once may have left an empty file."""
    return SECRET_KEY_FILE.exists() and SECRET_KEY_FILE.stat().st_size > 0


def make_key() -> None:
    """Whole or not at all, and one for all who start at once."""
    draft = SECRET_KEY_FILE.with_name("secret_key.new")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT, 0o600)
    with os.fdopen(handle, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if has_key():
            return
        file.truncate(0)
        file.write(secrets.token_urlsafe(64))
        file.flush()
        os.fsync(file.fileno())
        draft.replace(SECRET_KEY_FILE)


def secret_key() -> str | None:
    """The key made by `ensure`, or None where it has not run."""
    try:
        return SECRET_KEY_FILE.read_text().strip() or None
    except FileNotFoundError:
        return None
