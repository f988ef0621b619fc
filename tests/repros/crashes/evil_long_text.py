# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 2048
# ///
"""An exception of 64 MiB, with a name of controls."""


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


Evil = type("\x1b[31m\u202e</pre><script>", (Exception,), {})


def trigger():
    raise Evil("\x1b]0;title\x07 <b>\ud800" * 4000000)
