"""`python -m runner.pool`: the pool of a host."""

import sys

from runner.pool.server import main

sys.exit(main())
