"""Lays filters of its own over what refuses, and answers the calls itself."""

import ctypes
import os
import struct
import sysconfig


SET_FILTER, NEW_LISTENER = 1, 8
NUMBERS = {"x86_64": (317, 268), "aarch64": (277, 53)}
ALLOW, LOG, TRACE = 0x7FFF0000, 0x7FFC0000, 0x7FF00000


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def tries(answer, listener, path):
    """Whether the rights can be changed under a filter that answers so."""
    libc = ctypes.CDLL(None, use_errno=True)
    seccomp, fchmodat = NUMBERS[os.uname().machine]
    code = struct.pack("=HBBI", 0x20, 0, 0, 0)  # the number of the call
    code += struct.pack("=HBBI", 0x15, 0, 1, fchmodat)
    code += struct.pack("=HBBI", 6, 0, 0, answer)
    code += struct.pack("=HBBI", 6, 0, 0, ALLOW)
    program = Program(len(code) // 8, code)
    if (
        libc.syscall(
            seccomp, SET_FILTER, NEW_LISTENER * listener, ctypes.byref(program)
        )
        < 0
    ):
        return False
    mode = os.stat(path).st_mode & 0o7777
    return libc.syscall(fchmodat, -100, path.encode(), mode, 0) == 0


def trigger():
    if os.uname().machine not in NUMBERS:
        return {"reached": 0, "ran": os.uname().machine}
    found, path = [], sysconfig.get_path("purelib")
    for answer, listener in ((ALLOW, 0), (LOG, 0), (TRACE, 0), (ALLOW, 1)):
        child = os.fork()
        if not child:
            os._exit(int(tries(answer, listener, path)))
        if os.waitpid(child, 0)[1]:
            found.append(hex(answer))
    return {"reached": len(found), "ran": " ".join(found)}
