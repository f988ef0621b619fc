#!/usr/bin/env python3
"""Django's entry point."""

import os
import sys

from django.core.management import execute_from_command_line

from config import datadir

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    datadir.ensure()
    execute_from_command_line(sys.argv)
