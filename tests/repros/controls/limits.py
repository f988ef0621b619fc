"""Reads limits, and lowers one of its own."""

import locale
import os
import pwd
import resource
import time


def trigger():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft // 2, hard))
    names = os.listdir("/proc/self/task"), os.cpu_count(), time.tzname, locale.getlocale()
    me = pwd.getpwuid(os.getuid()).pw_name
    return {"reached": 0, "ran": "%s %r" % (me, names)}
