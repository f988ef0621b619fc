# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""Reports as much as it may."""


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    found = {"x%d" % number: [0.1 + number] * 50 for number in range(50)}
    return dict(found, reached=0, ran="\u4e2d" * 1000, many=[1 / 3] * 1000, yes=True)
