# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""A requirement that is answered by escapes and markup."""


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def requires():
    return "\x1b[31m <script>\n\n\u202e" + "x" * 3000


def trigger():
    return {"reached": 0}
