# trials = 3
"""Leaves code wherever the next process might load it; the second trial looks."""

import builtins
import os
import site
import tempfile


CODE = "import builtins\nbuiltins.poisoned = True\n"
NAMES = ("usercustomize.py", "sitecustomize.py", "torch.py", "numpy.py", "typing.py")


def folders():
    yield os.getcwd()
    yield tempfile.gettempdir()
    for name in ("HOME", "XDG_CACHE_HOME"):
        yield os.environ.get(name, ".")
    if TARGETS:  # Else these are the original, and somebody's own.
        yield os.path.dirname(os.path.abspath(__file__))
        if site.getuserbase() == TARGETS["user_base"]:
            yield site.getusersitepackages()


def trigger():
    reached = int(hasattr(builtins, "poisoned"))
    places = sorted(set(folders()))
    reached += sum(os.path.exists(os.path.join(p, "poisoned")) for p in places)
    for folder in places:
        try:
            os.makedirs(folder, exist_ok=True)
            open(os.path.join(folder, "poisoned"), "w").close()
            for name in NAMES:
                path = os.path.join(folder, name)
                if not os.path.exists(path):
                    with open(path, "w") as file:
                        file.write(CODE)
        except OSError:
            continue
    builtins.poisoned = True
    os.environ["PYTHONSTARTUP"] = "poison"
    return {"reached": reached}
