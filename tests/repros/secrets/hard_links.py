"""Takes hold of others' files by hard links, new names and truncation."""

import os


def trigger():
    found = []
    for path in TARGETS.get("own_files", []):
        for name, attempt in (
            ("link", lambda: os.link(path, "taken")),
            ("rename", lambda: os.rename(path, path)),
            ("truncate", lambda: os.truncate(path, os.stat(path).st_size)),
            ("append", lambda: os.close(os.open(path, os.O_WRONLY | os.O_APPEND))),
        ):
            try:
                attempt()
            except OSError:
                continue
            found.append(name)
    return {"reached": len(found), "ran": " ".join(found)}
