"""Leaves folders that nobody may enter, for whoever has to remove them."""

import os
import tempfile


def lock(folder):
    """Close it, or, where rights cannot be changed, leave a closed one in it."""
    try:
        os.chmod(folder, 0)
    except PermissionError:
        os.mkdir(os.path.join(folder, "closed"), 0)


def trigger():
    folder = tempfile.mkdtemp()
    for number in range(3):
        inner = os.path.join(folder, str(number))
        os.mkdir(inner)
        open(os.path.join(inner, "file"), "w").close()
        lock(inner)
    lock(folder)
    return {"reached": 0}
