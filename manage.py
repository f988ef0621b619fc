#!/usr/bin/env python3
"""Django's entry point."""

import errno
import os
import sys

# Full, read-only, or not this user's.
OF_DISKS = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM}


def main() -> None:
    """What operators cause is one line; `--traceback` shows the rest."""
    # Not on top: where the data lie is read when it is imported.
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line
    from django.db import OperationalError

    from config import datadir

    try:
        datadir.ensure()
    except OSError as error:
        sys.exit(f"manage.py: DATA_DIR cannot be used: {error}")
    try:
        execute_from_command_line(sys.argv)
    except BrokenPipeError:  # nobody reads on: `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(2)
    except (ImproperlyConfigured, OperationalError, OSError) as error:
        is_ours = isinstance(error, OSError) and error.errno not in OF_DISKS
        if is_ours or "--traceback" in sys.argv:
            raise
        is_database = isinstance(error, OperationalError)
        what = "the database (DATABASE_URL): " if is_database else ""
        sys.exit(f"manage.py: {what}{error}")


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    if sys.argv[1:2] == ["test"]:
        # Not on top: an installation may have no tests.
        from tests.support.own_data import own_data

        with own_data():
            main()
    else:
        main()
