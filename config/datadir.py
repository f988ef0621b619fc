"""Where runtime data live: database, broker folders, torch builds, the secret key."""

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
    try:
        handle = os.open(SECRET_KEY_FILE, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return
    with os.fdopen(handle, "w") as file:
        file.write(secrets.token_urlsafe(64))


def secret_key() -> str | None:
    """The key made by `ensure`, or None where it has not run."""
    try:
        return SECRET_KEY_FILE.read_text().strip() or None
    except FileNotFoundError:
        return None
