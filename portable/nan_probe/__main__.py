"""`python -m nan_probe train.py ARGUMENTS`."""

import sys

from .launch import main

sys.exit(main(sys.argv[1:]))
