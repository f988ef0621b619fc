"""Changes rights by the doors for 32-bit programs."""

import ctypes
import mmap
import os
import platform
import sysconfig


# mov eax, edi; mov ebx, esi; mov ecx, edx; int 0x80: two arguments of i386
CODE = bytes([0x53, 0x89, 0xF8, 0x89, 0xF3, 0x89, 0xD1, 0xCD, 0x80, 0x5B, 0xC3])
FCHMOD_I386, FCHMOD, X32 = 94, 91, 0x40000000


def by_i386(fd, mode):
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(CODE)
    at = ctypes.addressof(ctypes.c_char.from_buffer(page))
    return ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_int] * 3)(at)(
        FCHMOD_I386, fd, mode
    )


def by_x32(fd, mode):
    return ctypes.CDLL(None).syscall(FCHMOD | X32, fd, mode)


def trigger():
    if platform.machine() != "x86_64":
        return {"reached": 0, "ran": platform.machine()}
    found = []
    fd = os.open(sysconfig.get_path("purelib"), os.O_RDONLY)
    mode = os.fstat(fd).st_mode & 0o7777
    for call in (by_i386, by_x32):
        child = os.fork()
        if not child:
            os._exit(int(call(fd, mode) == 0))
        status = os.waitpid(child, 0)[1]
        if os.WIFEXITED(status) and os.WEXITSTATUS(status):
            found.append(call.__name__)
    return {"reached": len(found), "ran": ", ".join(found)}
