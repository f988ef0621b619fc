"""Data of their own for tests, away from a site that runs from the same clone."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from config import bootstrap

# Where a site keeps what it works on; a database's tests have one of their own anyway.
PLACES = ("BUILDS", "BUILDS_DIR", "CELERY_BROKER_URL", "QUEUE_PREFIX")


@contextmanager
def own_data() -> Iterator[None]:
    """A data folder for this process and all that it starts; it goes afterwards.

    Database, broker, pool socket, caches and builds are below it. The builds of the
    clone stay where torch_python finds one to start. Call it before settings are read.
    """
    os.environ["DOESITNAN_TEST_BUILDS"] = str(bootstrap.builds_dir())
    for name in PLACES:
        os.environ.pop(name, None)
    with tempfile.TemporaryDirectory(prefix="doesitnan-tests-") as folder:
        os.environ["DATA_DIR"] = folder
        yield
