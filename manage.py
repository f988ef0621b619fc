#!/usr/bin/env python3
"""Django's entry point."""

import os
import sys


def main() -> None:
    # Not on top: where the data lie is read when it is imported.
    from django.core.management import execute_from_command_line

    from config import datadir

    datadir.ensure()
    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    if sys.argv[1:2] == ["test"]:
        # Not on top: an installation may have no tests.
        from tests.support.own_data import own_data

        with own_data():
            main()
    else:
        main()
