"""Makes forbidden calls by the doors for 32-bit programs."""

import ctypes
import mmap
import os
import platform


# mov eax, edi; mov ebx, esi; int 0x80; ret: a system call of i386
CODE = bytes([0x53, 0x89, 0xF8, 0x89, 0xF3, 0xCD, 0x80, 0x5B, 0xC3])
UNSHARE_I386, UNSHARE, X32, NEW_USER = 310, 272, 0x40000000, 0x10000000


def by_i386(number, argument):
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(CODE)
    at = ctypes.addressof(ctypes.c_char.from_buffer(page))
    call = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int)(at)
    return call(number, argument)


def by_x32(number, argument):
    return ctypes.CDLL(None).syscall(number | X32, argument)


def trigger():
    if platform.machine() != "x86_64":
        return {"reached": 0, "ran": platform.machine()}
    found = []
    for call, number in ((by_i386, UNSHARE_I386), (by_x32, UNSHARE)):
        child = os.fork()
        if not child:
            os._exit(int(call(number, NEW_USER) == 0))
        status = os.waitpid(child, 0)[1]
        if os.WIFEXITED(status) and os.WEXITSTATUS(status):
            found.append(call.__name__)
    return {"reached": len(found), "ran": ", ".join(found)}
