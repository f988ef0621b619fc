# timeout_s = 60
# env = {all = {PYTHONINSPECT = "1", PYTHONSTARTUP = "/etc/passwd", PYTHONOPTIMIZE = "2", PYTHONPROFILEIMPORTTIME = "1", PYTHONIOENCODING = "utf-16", GCONV_PATH = "/tmp", LC_ALL = "zh_CN.GB18030", GLIBC_TUNABLES = "glibc.malloc.check=3"}}
"""Asks for an environment that makes another Python of every Python."""

import sys


def trigger():
    return {"reached": 0, "ran": sys.stdout.encoding}
