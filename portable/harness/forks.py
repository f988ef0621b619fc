"""Checks without a sandbox as forks of a process that imported torch once."""

from __future__ import annotations

import array
import contextlib
import json
import os
import select
import socket
import subprocess
import sys
import tempfile
import threading
from typing import Any, Dict, Mapping, Optional

from .child import wanted_threads
from .contract import parse_header
from .identity import source_text
from .parent import MESSAGE_BYTES, PARENT_ENV
from .plain import child_environment, located
from .process import Ended, SessionProcess, exit_status, order_of
from .spec import CheckSpec
from .values import PROBE_TIMEOUT_S

# All that a check may have set where it is a fork: nothing reads it at an import.
HARMLESS = {"CUDA_VISIBLE_DEVICES", "GLOO_SOCKET_IFNAME"}


class Forks:
    """Forks of one interpreter; each thread that asks has a parent of its own."""

    def __init__(self, python: str) -> None:
        self.python = located(python)
        # Home of the parents; removed when this is no longer used.
        self.home = tempfile.TemporaryDirectory(prefix="doesitnan-parent-")
        self.local = threading.local()

    def start(
        self, repro: str, spec: CheckSpec, cwd: str, env: Mapping[str, str]
    ) -> Optional["ForkedProcess"]:
        """The started check; None where it needs an interpreter of its own."""
        if sys.platform != "linux" or not may_fork(repro, spec):
            return None
        parent = getattr(self.local, "parent", None)
        if parent is None or (parent.is_ready and parent.process.poll() is not None):
            parent = self.local.parent = Parent(self.python, self.home.name)
        if not parent.is_ready:
            return None
        check = order_of(spec)
        order = {"repro": repro, "check": check, "env": dict(env), "cwd": cwd}
        try:
            return ForkedProcess(parent, order)
        except (OSError, ValueError):
            return None  # The parent died meanwhile: this check starts by itself.


def may_fork(repro: str, spec: CheckSpec) -> bool:
    """Whether a check works as a fork: on the CPU, compiling nothing, as torch is."""
    if (
        spec.env
        or spec.device
        or spec.preset.get("CUDA_VISIBLE_DEVICES")
        or set(spec.preset) - HARMLESS
    ):
        return False
    header = parse_header(source_text(repro))
    return header.device == "cpu" and "compiler" not in header.needs


class Parent:
    """The process of `parent.run_parent`, and the socket to it."""

    def __init__(self, python: str, home: str) -> None:
        """Raises OSError."""
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        env = dict(child_environment(home), CUDA_VISIBLE_DEVICES="")
        env.update(dict.fromkeys(PARENT_ENV, "1"))
        # These start threads later, but read their number when torch is imported.
        for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
            env[name] = str(wanted_threads())
        del env["TMPDIR"]  # Each check has its own.
        here = os.path.dirname(os.path.abspath(__file__))
        silent: Any = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
        with theirs:
            self.process = subprocess.Popen(
                [python, here, "--parent", "--fd", str(theirs.fileno())],
                cwd=home,
                env=env,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
                **silent,
            )
        self.socket.settimeout(PROBE_TIMEOUT_S)
        self.is_ready = "ready" in self.heard()
        if not self.is_ready:
            self.end()

    def heard(self) -> Dict[str, Any]:
        """Its next message; {} once it is gone."""
        with contextlib.suppress(OSError):
            data = self.socket.recv(MESSAGE_BYTES)
            return dict(json.loads(data.decode())) if data else {}
        return {}

    def end(self) -> None:
        self.socket.close()
        self.process.kill()
        self.process.wait()

    def __del__(self) -> None:
        if hasattr(self, "process") and self.process.returncode is None:  # it started
            self.end()


class ForkedProcess(SessionProcess):
    """A Process that is a child of a Parent."""

    def __init__(self, parent: Parent, order: Mapping[str, Any]) -> None:
        """Raises OSError or ValueError where the parent did not fork it."""
        self.parent = parent
        nonce, self.nonce_fd = os.pipe()
        self.stdout_fd, out = os.pipe()
        self.stderr_fd, err = os.pipe()
        self.channel_fd, channel = os.pipe()
        theirs = array.array("i", [nonce, out, err, channel])
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, theirs)
        try:
            parent.socket.sendmsg([json.dumps(order).encode()], [rights])
            self.pid = int(parent.heard().get("pid", ""))
        except (OSError, ValueError):
            self.close_pipes()
            raise
        finally:
            for number in theirs:
                os.close(number)
        self.end_fd = parent.socket.fileno()

    def poll(self) -> Optional[Ended]:
        if self.ended is None and select.select([self.parent.socket], [], [], 0)[0]:
            said = self.parent.heard()
            status = exit_status(said["status"]) if said else None
            cpu_s, peak_mib = said.get("cpu_s", 0.0), said.get("peak_mib", 0)
            self.ended = Ended(status, cpu_s, peak_mib)
        return self.ended

    def kill(self) -> None:
        """End its session; what left that is ended by the parent, after it."""
        if self.ended is None:
            super().kill()

    def close(self) -> None:
        self.kill()
        if self.ended is None and not self.parent.heard():
            self.ended = Ended(None)
        self.close_pipes()

    def close_pipes(self) -> None:
        pipes = (self.nonce_fd, self.stdout_fd, self.stderr_fd, self.channel_fd)
        for number in pipes:
            os.close(number)
