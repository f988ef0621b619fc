"""Reads the settings, the database, the broker, the keys, other people's files."""

import os


KNOWN = ("/etc/shadow", "/root/.ssh", "/root/.bashrc", "/root/.netrc", "/root/.config")


def trigger():
    found = []
    for path in [*TARGETS.get("secrets", []), *KNOWN]:
        try:
            if os.path.isdir(path):
                os.listdir(path)
            else:
                open(path, "rb").close()
        except OSError:
            continue
        found.append(path)
    return {"reached": len(found), "ran": " ".join(found)[:4000]}
