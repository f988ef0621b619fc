"""Leaves itself no file, no descriptor and no stack, and reports."""

import resource


def trigger():
    for which in (resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC):
        resource.setrlimit(which, (0, 0))
    return {"reached": 0}
