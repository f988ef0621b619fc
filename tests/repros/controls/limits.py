# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""Reads limits, and lowers one of its own."""

import locale
import os
import pwd
import resource
import time


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft // 2, hard))
    names = os.listdir("/proc/self/task"), os.cpu_count(), time.tzname, locale.getlocale()
    me = pwd.getpwuid(os.getuid()).pw_name
    return {"reached": 0, "ran": "%s %r" % (me, names)}
