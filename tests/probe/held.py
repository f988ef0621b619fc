"""What a fresh process makes of each capture: python held.py FOLDER CAPTURES.

FOLDER is where nan_probe lies; CAPTURES holds files, and nothing is written there.
Prints JSON: file -> exit status (or minus the signal that ended it), what stood on
stdout, on stderr, and the events of Python by which something outside is touched.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys

import torch

sys.path.insert(0, sys.argv[1])
from nan_probe import captures

SECONDS, BYTES = 60, 2 * 2**30
OUTSIDE = ("socket.", "subprocess.", "shutil.", "tempfile.", "ctypes.dlopen", "os.fork")
OUTSIDE += ("os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.kill", "os.chmod")
OUTSIDE += ("os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink")


def asked(path):
    """A child of this process, which has only imported torch, runs the command."""
    out, err, seen = (os.memfd_create(one) for one in ("out", "err", "seen"))
    child = os.fork()
    if child == 0:
        os.dup2(out, 1)
        os.dup2(err, 2)
        bounded()
        sys.addaudithook(watcher(path, seen))
        status = captures.main([path, "--json"])
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    _, status = os.waitpid(child, 0)
    ended = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
    return [ended, *map(text_of, (out, err, seen))]


def bounded():
    signal.alarm(SECONDS)
    with open("/proc/self/statm") as file:
        pages = int(file.read().split()[0])
    most = pages * resource.getpagesize() + BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def watcher(path, seen):
    def hook(event, arguments):
        writes = event == "open" and arguments[0] != path and is_outside(arguments)
        if writes or event.startswith(OUTSIDE):
            os.write(seen, f"{event} {arguments[:1]}\n".encode())

    return hook


def is_outside(arguments):
    """Python reads its own modules while it runs."""
    name, mode = str(arguments[0]), arguments[1] or "r"
    is_module = name.startswith(
        (sys.prefix, sys.base_prefix, os.path.dirname(json.__file__))
    )
    return "r" not in mode or not is_module


def text_of(file):
    os.lseek(file, 0, os.SEEK_SET)
    text = os.read(file, 10**6).decode(errors="replace")
    os.close(file)
    return text


if __name__ == "__main__":
    torch.set_num_threads(1)
    folder = sys.argv[2]
    found = {
        one: asked(os.path.join(folder, one)) for one in sorted(os.listdir(folder))
    }
    print(json.dumps({"torch": torch.__version__, "found": found}))
