"""Opens the secret key, the database and their folder to everybody."""

import os


def trigger():
    found = []
    for path in TARGETS.get("secrets", []):
        try:
            before = os.stat(path).st_mode & 0o7777
            os.chmod(path, before | 0o006)
        except OSError:
            continue
        found.append(path)
        os.chmod(path, before)
    return {"reached": len(found), "ran": " ".join(found)[:4000]}
