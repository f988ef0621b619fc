"""Changes the rights and the times of others' files, to what they are."""

import os


def trigger():
    found = []
    for path in TARGETS.get("own_files", []):
        for name, attempt in (
            ("chmod", lambda: os.chmod(path, os.stat(path).st_mode)),
            ("chown", lambda: os.chown(path, -1, os.stat(path).st_gid)),
            ("utime", lambda: os.utime(path)),
            ("setxattr", lambda: os.setxattr(path, "user.hostile", b"")),
        ):
            try:
                attempt()
            except OSError:
                continue
            found.append(name)
    return {"reached": len(found), "ran": " ".join(found)}
