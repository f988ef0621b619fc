"""The process of a check: imports torch, runs the check, reports what it returned."""

from __future__ import annotations

import argparse
import ctypes
import faulthandler
import importlib
import json
import os
import resource
import signal
import sys
from typing import Any, Callable, Dict, NoReturn, Sequence

from .contract import parse_header
from .identity import (
    as_sent,
    cheap_facts,
    dear_facts,
    devices_of,
    exception_message,
    identity,
    load_repro,
    offer_parameters,
    source_text,
)
from .values import source_digest


def run_child(argv: Sequence[str]) -> NoReturn:
    """`--child REPRO CHECK --fd N`: one check in this process; does not return."""
    parser = argparse.ArgumentParser()
    parser.add_argument("repro")
    parser.add_argument("check")
    parser.add_argument("--fd", type=int, required=True)
    parser.add_argument("--trial", type=int, default=0)
    parser.add_argument("--cpu", type=int, default=0)
    parser.add_argument("--parameters", type=json.loads, default={})
    parser.add_argument("--device", default="")
    options = parser.parse_args(argv)
    source = "" if options.repro == "-" else source_text(options.repro)
    become_check(
        options.fd,
        options.repro,
        source,
        options.check,
        options.trial,
        options.cpu,
        options.parameters,
        options.device,
    )


def become_check(
    fd: int,
    path: str,
    source: str,
    check: str,
    trial: int,
    cpu_s: int,
    parameters: Dict[str, Any],
    device: str = "",
) -> NoReturn:
    """Turn this process into one check; cold and warm children both end here.

    The nonce comes on standard input, the report goes to `fd`; the source lies at
    `path`.
    """
    send = _sender(fd)
    _confine(cpu_s)
    sys.argv = [path]
    report_check(send, path, source, check, trial, parameters, device)
    os._exit(0)


def _sender(fd: int) -> Callable[[Dict[str, Any]], None]:
    """Read the nonce from standard input, close that, and write frames to `fd`."""
    nonce = b""
    while not nonce.endswith(b"\n"):
        piece = os.read(0, 64)
        if not piece:
            break
        nonce += piece
    text = nonce.decode("ascii", "replace").strip()
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.set_inheritable(fd, False)

    def send(message: Dict[str, Any]) -> None:
        data = json.dumps(dict(message, n=text), allow_nan=False).encode() + b"\n"
        while data:
            data = data[os.write(fd, data) :]

    return send


# More are no use to a repro, and on a big machine they exceed the limit of processes.
MOST_THREADS = 16


def settle_torch(torch: Any) -> None:
    """The same number of threads in every child, however it was started.

    Only where it is another one: setting it starts threads, in 8 ms with torch 1.13.
    """
    # A record that asks for a number of its own starts cold and keeps it.
    if not hasattr(torch, "set_num_threads") or "OMP_NUM_THREADS" in os.environ:
        return
    wanted = wanted_threads()
    if torch.get_num_threads() != wanted:
        torch.set_num_threads(wanted)


def wanted_threads() -> int:
    """What `settle_torch` settles."""
    return min(usable_cpus(), MOST_THREADS)


def usable_cpus() -> int:
    """The processors that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _confine(cpu_s: int) -> None:
    """Die with the parent, leave no core file, stop at last by processor time."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    # One byte: where cores go to a program, only that means that there is none.
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    core = 1 if hard == resource.RLIM_INFINITY else min(hard, 1)
    resource.setrlimit(resource.RLIMIT_CORE, (core, core))
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    if cpu_s and hard == resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 10))
    faulthandler.enable()


def report_check(
    send: Callable[[Dict[str, Any]], None],
    path: str,
    source: str,
    check: str,
    trial: int,
    parameters: Dict[str, Any],
    device: str = "",
) -> None:
    """Say hello, run the check, say what it returned or raised, say end."""
    header = parse_header(source) if source else None
    hello: Dict[str, Any] = {"t": "hello", "repro": source_digest(source)}
    if parameters:
        hello["parameters"] = parameters
    offer_parameters(header, parameters)
    try:
        torch = importlib.import_module("torch")
        hello.update(introduction(torch, header, check, device))
    except BaseException as error:
        send(dict(hello, identity={}, devices=[], facts={}))
        send(exception_message(error))
        return _end(send)
    send(hello)
    try:
        if check == "requirements":
            observations = dear_facts(torch, header, hello, path, source)
        else:
            observations = getattr(load_repro(path, source), check)()
        send(
            {
                "t": "result",
                "check": check,
                "trial": trial,
                "observations": as_sent(observations),
            }
        )
    except BaseException as error:
        send(exception_message(error))
    return _end(send)


def introduction(torch: Any, header: Any, check: str, device: str) -> Dict[str, Any]:
    """Which torch this is, ready for the check; for requirements what it sees."""
    settle_torch(torch)
    found: Dict[str, Any] = {"identity": identity(torch, header)}
    found.update(devices=[], facts={})
    if device and (check != "requirements" or devices_of(torch, header, device)):
        torch.set_default_device(device)
    if check == "requirements":
        found["devices"] = devices_of(torch, header, device)
        found["facts"] = cheap_facts(torch, header, found["identity"])
    return found


def _end(send: Callable[[Dict[str, Any]], None]) -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BaseException:
            continue  # The repro replaced or closed it.
    ctypes.CDLL(None).fflush(None)
    send({"t": "end"})
