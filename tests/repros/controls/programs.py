# memory_mib = 2048
"""Runs programs, with pipes and a shell."""

import subprocess
import sys


def trigger():
    said = subprocess.run(["sh", "-c", "echo hello | tr h j"], stdout=subprocess.PIPE)
    code = "import sys; print(sys.version_info[0])"
    python = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE)
    wrong = (said.stdout != b"jello\n") + (python.stdout != b"3\n")
    return {"reached": int(wrong), "ran": repr((said.stdout, python.stdout))}
