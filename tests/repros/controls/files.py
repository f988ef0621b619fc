"""Writes where a program may: here, at home, in temporary folders and caches."""

import contextlib
import os
import sqlite3
import tempfile


def trigger():
    folders = [".", tempfile.gettempdir(), os.path.expanduser("~")]
    folders += [os.environ[name] for name in ("TMPDIR", "HOME", "XDG_CACHE_HOME")]
    for folder in folders:
        path = os.path.join(folder, "note.txt")
        with open(path, "w") as file:
            file.write("\u4e2d\u6587")
        os.remove(path)
    with contextlib.closing(sqlite3.connect("own.sqlite3")) as database:
        database.execute("CREATE TABLE t (x)")
        database.commit()
    return {"reached": 0, "ran": " ".join(folders)}
