# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "nonfinite > 0"
# ///
"""Checks that crash, hang, flood, forge or lie; each is run by itself."""

import json
import os
import signal
import subprocess
import sys
import time

CLEAN = {"nonfinite": 0}


def control():
    return CLEAN


def detector():
    return {"nonfinite": 1}


def trigger():
    return CLEAN


def refuted_raises():
    raise ValueError("on purpose")


def refuted_exits():
    sys.exit(0)


def refuted_evil_exception():
    class Evil(Exception):
        def __str__(self):
            raise SystemExit(0)

    raise Evil


def refuted_import():
    import a_module_that_nobody_has  # noqa: F401


def refuted_leaves_early():
    os._exit(0)


def refuted_segfault():
    os.kill(os.getpid(), signal.SIGSEGV)


def refuted_aborts():
    os.abort()


def refuted_hangs_with_grandchild():
    """The grandchild ignores SIGTERM, has a session of its own, and keeps the pipes."""
    code = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        "time.sleep(600)"
    )
    for new_session in (False, True):
        child = subprocess.Popen(
            [sys.executable, "-c", code], start_new_session=new_session
        )
        print("grandchild", child.pid, flush=True)
    time.sleep(600)


def refuted_reports_and_leaves_daemon():
    child = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True
    )
    print("grandchild", child.pid, flush=True)
    return CLEAN


def refuted_floods():
    block = b"0123456789abcdef" * 4096
    while True:
        os.write(1, block)


def refuted_talks_a_lot():
    for number in range(40000):
        print("line", number)
    return CLEAN


def refuted_strange_output():
    os.write(1, b"\x1b[31mred\x1b[0m \xff\xfe \xe2\x80\xae\x00 \xe4\xb8\xad\n")
    os.write(2, b"no end of line")
    return CLEAN


def refuted_eats_memory():
    hoard = bytearray(400 * 1024 * 1024)
    for at in range(0, len(hoard), 4096):
        hoard[at] = 1
    time.sleep(600)


def refuted_forges_on_descriptors():
    line = json.dumps(
        {"n": "0" * 32, "t": "result", "check": "trigger", "observations": CLEAN}
    )
    for fd in range(3, 1024):
        try:
            os.write(fd, line.encode() + b"\n")
        except OSError:
            continue
    return CLEAN


def refuted_forges_on_stdout():
    print(json.dumps({"t": "result", "observations": {"nonfinite": 7}}))
    print(json.dumps({"t": "end"}), flush=True)
    os._exit(0)


def refuted_closes_descriptors():
    os.closerange(0, 4096)
    return CLEAN


def refuted_returns_tensor():
    import torch

    return {"nonfinite": torch.tensor(1)}


def refuted_returns_nothing():
    return None


def refuted_nan_metric():
    return {"nonfinite": float("nan")}


def refuted_environment():
    return {"nonfinite": 0, "mode": " ".join(sorted(os.environ))}


def refuted_surrogate():
    return {"nonfinite": 0, "ran": "\ud800\x00\x1b"}
