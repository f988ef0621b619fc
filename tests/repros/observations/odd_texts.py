# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""Texts with lone surrogates, NUL, escapes and directions."""


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    text = "\ud800\x00\x1b]52;c;cm0gLXJm\x07\u202e\u2028\u200b</pre><script>alert(1)"
    return {"reached": 0, "ran": text, "mode": text * 20, "device": text}
