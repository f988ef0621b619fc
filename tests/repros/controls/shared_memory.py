"""Shares memory by name and by mapping."""

import mmap
import multiprocessing.shared_memory


def trigger():
    block = multiprocessing.shared_memory.SharedMemory(create=True, size=4096)
    block.buf[0] = 7
    again = multiprocessing.shared_memory.SharedMemory(name=block.name)
    wrong = again.buf[0] != 7
    again.close()
    block.close()
    block.unlink()
    wrong += len(mmap.mmap(-1, 4096)) != 4096
    return {"reached": int(wrong)}
