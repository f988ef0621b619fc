# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 2048
# ///
"""Runs programs, with pipes and a shell."""

import subprocess
import sys


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    said = subprocess.run(["sh", "-c", "echo hello | tr h j"], stdout=subprocess.PIPE)
    code = "import sys; print(sys.version_info[0])"
    python = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE)
    wrong = (said.stdout != b"jello\n") + (python.stdout != b"3\n")
    return {"reached": int(wrong), "ran": repr((said.stdout, python.stdout))}
