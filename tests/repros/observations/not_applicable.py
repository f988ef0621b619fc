# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""Says why it does not apply, with escapes and markup."""


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    reason = "\x1b[2J\u202e no \r\n <img src=x onerror=alert(1)> " + "x" * 3000
    return {"reached": 0, "not_applicable": reason}
