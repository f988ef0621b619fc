# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""Names that are markup, private, or no text at all."""


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    names = ("<script>", "__class__", "Reached", "\u202e", "\x1b[31m", "", 1, None)
    return dict({name: 0 for name in names}, reached=0)
